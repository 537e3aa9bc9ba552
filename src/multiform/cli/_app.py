"""The list of commands. A command's module is imported when it runs, so that ``--help`` comes at once."""

from __future__ import annotations

import importlib
from typing import Any

import click

__all__ = ["app"]

COMMANDS = {
    "demo": "A tour in under a minute, on data that come with the package.",
    "fit": "Train a model on a table.",
    "predict": "Predict the rows of a table: label, chance, loyalty.",
    "evaluate": "Compare a model's answers with the truth.",
    "report": "Write a report of a model on a labelled table, one HTML file.",
    "plan": "Plan which tests to buy, in which order, and when to stop.",
    "diagnose": "Ask for the evidence of one case, test by test, by a plan.",
    "reproduce": "Run section 4 of the paper and print each of its tables beside ours.",
    "export": "Write a model in another format (ONNX).",
    "info": "Say what is in a model file.",
}


class _Commands(click.Group):
    """Knows names and one-line helps without importing anything."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module: Any = importlib.import_module(f"multiform.cli._{cmd_name}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0] if args else ""
        if name and not name.startswith("-") and name not in COMMANDS:
            close = _close(name)
            ctx.fail(f"There is no command {name!r}" + (f", but there is {close}" if close else ""))
        return super().resolve_command(ctx, args)


def _close(name: str) -> str | None:
    from difflib import get_close_matches

    found = get_close_matches(name, list(COMMANDS), n=1)
    return found[0] if found else None


def _version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from multiform._version import __version__

        click.echo(f"multiform {__version__}")
        ctx.exit()


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Say the version.")
def app() -> None:
    """What is it, how far can I trust that, and what should I measure next?

    \b
    multiform demo
    multiform fit data.csv --target label -o model.mfm
    multiform predict model.mfm new.csv -o answers.csv
    multiform evaluate model.mfm test.csv
    """
