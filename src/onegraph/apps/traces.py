"""``onegraph run --from DIR``: what torch's own saved traces tell, one report a process. Nothing is run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from onegraph.apps import exits
from onegraph.apps.saved import show_saved

if TYPE_CHECKING:
    from onegraph.model import Findings
    from onegraph.observe.saved import SavedTrace


def show_traces(place: str, form: str, out: str | None) -> int:
    """Write the report on the traces in a folder or file; its exit code, that of the worst process."""
    import msgspec

    from onegraph.mend import findings_of
    from onegraph.report.rows import run_report

    traces = _read(place)
    found = [findings_of(each.trace) for each in traces]
    reports = [
        msgspec.structs.replace(run_report(findings, f"--from {place}"), torch=each.torch or "unknown")
        for findings, each in zip(found, traces, strict=True)
    ]
    show_saved(reports, [each.name for each in traces], form, out)
    return max(map(_exit_code, found))


def _read(place: str) -> list[SavedTrace]:
    from onegraph.observe.saved import NoTrace, read

    try:
        return read(Path(place))
    except NoTrace as error:
        raise click.BadParameter(str(error), param_hint="--from") from None


def _exit_code(found: Findings) -> int:
    if found.nothing_compiled:
        return exits.NOTHING
    return exits.after_run(found)
