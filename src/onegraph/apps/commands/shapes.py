"""``onegraph shapes``: do these sizes share one compiled artifact?"""

from __future__ import annotations

import click

from onegraph.apps import exits
from onegraph.apps.output import stdout_is_ours
from onegraph.apps.targeting import out_option, resolved, spec_of
from onegraph.apps.writing import show, write


@click.command(short_help="Which sizes recompile, which line asks for it, what makes it stop.")
@click.argument("words", metavar="TARGET [-- ARGS]", nargs=-1)
@click.option("-m", "module", metavar="MODULE", help="Run a module as a script, as python -m does.")
@click.option(
    "--vary",
    metavar="NAME:DIM=LOW..HIGH,...",
    default="",
    help="Sizes that change, joined by + where they change together: ids:1+mask:1=8..128. "
    "Without it: every dimension that eager lets vary, from 2 to 64.",
)
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
@out_option
@click.pass_context
def shapes(
    ctx: click.Context, words: tuple[str, ...], module: str | None, vary: str, form: str, out: str | None
) -> None:
    """Run TARGET over sizes, tell each recompile and its cause, and prove that a range shares one artifact.

    Exit code 0 when one artifact serves all sizes, at least with the setting that is named; 1 otherwise.
    """
    spec, target = resolved(*spec_of(words, module), quiet=form != "text")
    from onegraph import pipeline
    from onegraph.shapes import AxisError

    try:
        with stdout_is_ours(form != "text"):
            results = pipeline.shapes(target, vary)
    except AxisError as error:
        raise click.BadParameter(str(error), param_hint="--vary") from None
    if not any(trial.artifacts for result in results for trial in result.trials):
        click.echo("nothing was compiled: no call of the target reached torch.compile", err=True)
        ctx.exit(exits.NOTHING)
    if form == "json":
        from onegraph.report.shapes_json import encoded

        write(encoded(results, spec), out)
    else:
        from onegraph.report.shapes_text import shapes_text

        show([part for result in results for part in shapes_text(result, spec)], out)
    ctx.exit(exits.CLEAN if all(result.best.shared for result in results) else exits.FINDINGS)
