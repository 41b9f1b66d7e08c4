"""Commands that need no target: ``explain``, ``env`` and ``schema``."""

from __future__ import annotations

import click


@click.command(short_help="What a kind of break, a GB id or an error message means.")
@click.argument("topic", metavar="KIND|GBnnnn|MESSAGE")
def explain(topic: str) -> None:
    """What a kind of break is, why it breaks, and its repair by example.

    MESSAGE is an error of torch.compile, pasted in quotes: what it means, and what to write in the line it names.
    """
    from onegraph.apps.pages import page
    from onegraph.report.text import show

    show(page(topic))


@click.command()
@click.option(
    "--check", "check_", is_flag=True, help="Also compile something, and look whether torch answers."
)
@click.pass_context
def env(ctx: click.Context, check_: bool) -> None:
    """Versions that matter for a bug report, and the settings in force here."""
    from onegraph.apps import environment, exits, pages

    click.echo(pages.environment(), nl=False)
    for name, words in environment.project():
        click.echo(f"{name:14}{words}")
    fine = True
    for name, words, good in environment.checked() if check_ else ():
        click.echo(f"{name:14}{'' if good else 'NOT FINE: '}{words}")
        fine = fine and good
    ctx.exit(exits.CLEAN if fine else exits.FINDINGS)


@click.command()
def schema() -> None:
    """The JSON Schema of the JSON reports."""
    from importlib import resources

    click.echo(
        resources.files("onegraph.report").joinpath("schema.json").read_text(encoding="utf-8"), nl=False
    )
