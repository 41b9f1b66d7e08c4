"""Reports that exist already, shown in any format; several become one page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from onegraph.apps.writing import render, show, write

if TYPE_CHECKING:
    from onegraph.report.rows import AnyReport


def show_saved(reports: Sequence[AnyReport], names: Sequence[str], form: str, out: str | None) -> None:
    """``names`` tell the reports apart where there are several."""
    if len(reports) > 1 and form == "text":
        from onegraph.report import together_text

        show(together_text.page(reports, names), out)
    elif len(reports) > 1:
        if form != "html":
            raise click.UsageError("several reports at once are written as text or --format html")
        from onegraph.report.html import render_all

        write(render_all(list(reports)), out)
    elif form == "text":
        from onegraph.report.saved import page

        show(page(reports[0]), out)
    else:
        render(reports[0], form, out)
