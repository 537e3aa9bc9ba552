"""Where computing is done, so that the loop goes on hearing."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from time import perf_counter
from typing import Any, TypeVar

WORKERS = 4  # threads that compute, at most
SMALL = 0.003  # seconds
T = TypeVar("T")


class Work:
    """Threads for all that computes, so that the loop goes on hearing; ``await work(function, ...)``."""

    def __init__(self, threads: int | None = None) -> None:
        self._last = float("inf")  # seconds that the last small piece took
        self._pool = ThreadPoolExecutor(threads or min(WORKERS, os.cpu_count() or 1), "multiform-web")

    async def __call__(self, function: Callable[..., T], *args: Any, **options: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, partial(function, *args, **options))

    async def small(self, function: Callable[..., T], *args: Any) -> T:
        """Work that is small as long as the last such was: done on the spot, as a thread takes longer to begin."""

        def timed() -> T:
            began = perf_counter()
            try:
                return function(*args)
            finally:
                self._last = perf_counter() - began

        return timed() if self._last < SMALL else await self(timed)

    def close(self) -> None:
        """Wait for what is being computed."""
        self._pool.shutdown(wait=True, cancel_futures=True)
