"""``onegraph run``: what the compiler does with a target."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from onegraph.apps import exits
from onegraph.apps.output import stdout_is_ours
from onegraph.apps.progress import quiet_option, shown
from onegraph.apps.targeting import resolved, spec_of, target_options, why_nothing
from onegraph.apps.traces import show_traces
from onegraph.apps.writing import render, show

if TYPE_CHECKING:
    from onegraph.model import Findings, Program
    from onegraph.targets import Script


@click.command()
@target_options
@quiet_option
@click.option(
    "--from",
    "traces",
    metavar="DIR",
    type=click.Path(exists=True),
    help="Run nothing; read the traces that torch wrote into DIR (TORCH_TRACE=DIR), one a rank.",
)
@click.pass_context
def run(
    ctx: click.Context,
    words: tuple[str, ...],
    module: str | None,
    form: str,
    out: str | None,
    traces: str | None,
) -> None:
    """Run TARGET and show where its graphs break. Exit code 1 when they do."""
    if traces is not None:
        if words or module:
            raise click.UsageError("give a TARGET or --from DIR, not both")
        ctx.exit(show_traces(traces, form, out))
    quiet = form != "text"
    spec, target = resolved(*spec_of(words, module), quiet=quiet)
    from onegraph import pipeline

    with stdout_is_ours(quiet), shown(ctx):
        findings = pipeline.run(target)
    if findings.nothing_compiled:
        ctx.exit(nothing_compiled(spec, target, findings, form, out))
    if form == "text":
        from onegraph.report.text import run_text

        show(run_text(findings, spec), out)
    else:
        from onegraph.report.rows import run_report

        render(run_report(findings, spec), form, out)
    ctx.exit(exits.after_run(findings))


def nothing_compiled(
    spec: str, target: Program | Script, findings: Findings, form: str, out: str | None
) -> int:
    """The report that nothing was compiled, and its exit code."""
    if form == "text":
        from onegraph.report import text

        show(text.nothing_compiled(spec, findings.trace, *why_nothing(target)), out)
    else:
        from onegraph.report.rows import run_report

        render(run_report(findings, spec), form, out)
    return exits.NOTHING
