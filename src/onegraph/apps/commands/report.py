"""``onegraph report`` and ``compare``: saved reports, shown again or side by side. Nothing is run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from onegraph.apps import exits
from onegraph.apps.saved import show_saved
from onegraph.apps.targeting import format_option, out_option
from onegraph.apps.writing import show, write

if TYPE_CHECKING:
    from onegraph.report.rows import AnyReport

_FILE = click.Path(exists=True, dir_okay=False, allow_dash=True)


@click.command()
@click.argument("files", metavar="REPORT.json...", nargs=-1, required=True, type=_FILE)
@format_option
@out_option
def report(files: tuple[str, ...], form: str, out: str | None) -> None:
    """Show a saved report (--format json -o REPORT.json) in any format. Several become one page, as text or HTML."""
    show_saved([read(file) for file in files], [Path(file).name for file in files], form, out)


@click.command()
@click.argument("before", type=_FILE)
@click.argument("after", type=_FILE)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "markdown"]),
    default="text",
    show_default=True,
    help="What the comparison is written in.",
)
@out_option
@click.pass_context
def compare(ctx: click.Context, before: str, after: str, form: str, out: str | None) -> None:
    """Compare two saved reports: two commits, two versions of torch. Exit code 1 when AFTER is worse."""
    from onegraph.report import comparison

    found = comparison.compared(read(before), read(after))
    if form == "text":
        show(comparison.text(found), out)
    else:
        write(comparison.json(found) if form == "json" else comparison.markdown(found), out)
    ctx.exit(exits.FINDINGS if found.worse else exits.CLEAN)


def read(file: str) -> AnyReport:
    """A saved report; "-" is stdin."""
    from onegraph.report.json import NoReport, decode

    raw = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    try:
        return decode(raw)
    except NoReport as error:
        raise click.BadParameter(
            f"{file}: {error}; write one with: onegraph run TARGET --format json -o FILE"
        ) from None
