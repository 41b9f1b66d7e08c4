"""``onegraph cudagraphs``: will ``mode="reduce-overhead"`` capture the target?"""

from __future__ import annotations

import click

from onegraph.apps import exits
from onegraph.apps.output import stdout_is_ours
from onegraph.apps.targeting import out_option, resolved, spec_of
from onegraph.apps.writing import show, write


@click.command(short_help="What CUDA graphs can't capture of TARGET, predicted without a GPU.")
@click.argument("words", metavar="TARGET", nargs=-1)
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
@out_option
@click.pass_context
def cudagraphs(ctx: click.Context, words: tuple[str, ...], form: str, out: str | None) -> None:
    """Predict which lines of TARGET (a factory) split a CUDA graph, forward and backward.

    Nothing is computed: the program is traced on a device that isn't there. Exit code 0 when all of it is captured
    as one graph for each direction, 1 otherwise.
    """
    spec, target = resolved(*spec_of(words, None), quiet=form != "text")
    from onegraph import pipeline
    from onegraph.targets import Script

    if isinstance(target, Script):
        raise click.UsageError(
            "name a factory (file.py:factory): a script runs on the devices that it chooses"
        )
    with stdout_is_ours(form != "text"):
        prediction = pipeline.cudagraphs(target)
    if form == "json":
        import msgspec

        from onegraph.report.json import indented

        fields = {
            **msgspec.to_builtins(prediction),
            "whole": prediction.whole,
            "captured": prediction.captured,
        }
        write(indented(fields), out)
    else:
        from onegraph.report.cudagraphs_text import cudagraphs_text

        show(cudagraphs_text(prediction, spec), out)
    ctx.exit(exits.CLEAN if prediction.whole else exits.FINDINGS)
