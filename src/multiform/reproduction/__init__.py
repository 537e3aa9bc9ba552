"""Section 4 of the paper, run again: each of its tables beside ours."""

from multiform.reproduction._run import Figures, Loyalty, reproduce, reproduction_text

__all__ = ["Figures", "Loyalty", "reproduce", "reproduction_text"]
