"""``onegraph verify``: does the program, as it is compiled today, do what eager does?"""

from __future__ import annotations

import click

from onegraph.apps import exits
from onegraph.apps.output import stdout_is_ours
from onegraph.apps.progress import quiet_option, shown
from onegraph.apps.targeting import out_option, resolved, spec_of
from onegraph.apps.writing import show, write


@click.command(short_help="What torch.compile itself gets wrong in TARGET, with nothing rewritten.")
@click.argument("words", metavar="TARGET [-- ARGS]", nargs=-1)
@click.option("-m", "module", metavar="MODULE", help="Run a module as a script, as python -m does.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
@quiet_option
@out_option
@click.pass_context
def verify(
    ctx: click.Context, words: tuple[str, ...], module: str | None, form: str, out: str | None
) -> None:
    """Compare TARGET in eager mode with TARGET as it is compiled today: outputs, gradients, state, random numbers,
    exceptions, prints and logs, on its inputs and on variations of them.

    Nothing is rewritten. Exit code 0 when all agree, 1 when something differs.
    """
    spec, target = resolved(*spec_of(words, module), quiet=form != "text")
    from onegraph import pipeline

    with stdout_is_ours(form != "text"), shown(ctx):
        results = pipeline.as_compiled(target)
    if not any(result.compiled for result in results):
        click.echo("nothing was compiled: no call of the target reached torch.compile", err=True)
        ctx.exit(exits.NOTHING)
    if form == "json":
        from onegraph.report.verify_json import encoded

        write(encoded(results, spec), out)
    else:
        from onegraph.report.verify_text import verify_text

        show([part for result in results for part in verify_text(result, spec)], out)
    ctx.exit(exits.CLEAN if all(result.same for result in results) else exits.FINDINGS)
