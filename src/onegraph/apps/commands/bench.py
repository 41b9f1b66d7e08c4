"""``onegraph bench``: what mending buys, measured side by side."""

from __future__ import annotations

import click

from onegraph.apps import exits
from onegraph.apps.output import stdout_is_ours
from onegraph.apps.targeting import out_option, resolved, spec_of
from onegraph.apps.writing import show, write


@click.command(short_help="Time TARGET eager, as it is compiled today, and mended, side by side.")
@click.argument("words", metavar="TARGET", nargs=-1)
@click.option(
    "--rounds", default=15, show_default=True, type=click.IntRange(4), help="Each times every arm once."
)
@click.option("--no-grad", is_flag=True, help="Forward alone, under torch.no_grad().")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
@out_option
@click.pass_context
def bench(
    ctx: click.Context, words: tuple[str, ...], rounds: int, no_grad: bool, form: str, out: str | None
) -> None:
    """Mend TARGET (a factory) and measure what it buys: latency, first call, graphs, memory kept for backward.

    A training step (forward and backward of the sum) where the results require grad, else forward. Exit code 0; 4
    when the mended program did not verify (then it is not measured).
    """
    spec, target = resolved(*spec_of(words, None), quiet=form != "text")
    from onegraph import pipeline
    from onegraph.targets import Script

    if isinstance(target, Script):
        raise click.UsageError("name a factory (file.py:factory): what a script does is timed by the script")
    with stdout_is_ours(form != "text"):
        result = pipeline.bench(target, rounds=rounds, grad=not no_grad)
    if result is None:
        click.echo("the mended program did not verify: see onegraph fix", err=True)
        ctx.exit(exits.UNVERIFIED)
    if form == "json":
        from onegraph.report.json import indented

        write(indented(result), out)
    else:
        from onegraph.report.bench_text import bench_text

        show(bench_text(result, spec), out)
    ctx.exit(exits.CLEAN)
