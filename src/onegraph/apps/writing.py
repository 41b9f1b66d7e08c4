"""Where a report goes: to stdout, or in one step into a file."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from onegraph.apps.ranks import own_file, rank

if TYPE_CHECKING:
    from onegraph.report.rows import AnyReport
    from onegraph.report.text import Page


def show(page: Page, out: str | None) -> None:
    """A page for people. Of several ranks the first one speaks; the others write files."""
    from onegraph.report import text

    if out is None and rank():
        told = " · ".join(text.to_text(page).splitlines()[:2])
        click.echo(f"onegraph, rank {rank()}: {told}  (all of it: -o FILE)", err=True)
    elif out is None:
        sys.stdout.flush()
        text.show(page)
    else:
        write(text.to_text(page), out)


def write(text: str, out: str | None) -> None:
    if out is None:
        click.echo(text, nl=False)
        return
    from onegraph.files import write_atomically

    out = own_file(out)
    try:
        write_atomically(out, text)
    except OSError as error:
        raise click.FileError(out, error.strerror or str(error)) from None
    click.echo(f"wrote {out}", err=True)


def render(report: AnyReport, form: str, out: str | None) -> None:
    """A report in any format but text, for which there is a page."""
    from onegraph.report.formats import rendered

    write(rendered(report, form), out)
