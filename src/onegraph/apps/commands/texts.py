"""Commands that need no target: ``explain``, ``env`` and ``schema``."""

from __future__ import annotations

import click


@click.command(short_help="What a kind of break or a GB id means, with examples.")
@click.argument("topic", metavar="KIND|GBnnnn")
def explain(topic: str) -> None:
    """What a kind of break is, why it breaks, and its repair by example."""
    from onegraph.apps.pages import page
    from onegraph.report.text import show

    show(page(topic))


@click.command()
def env() -> None:
    """Versions that matter for a bug report."""
    from onegraph.apps.pages import environment

    click.echo(environment(), nl=False)


@click.command()
def schema() -> None:
    """The JSON Schema of the JSON reports."""
    from importlib import resources

    click.echo(
        resources.files("onegraph.report").joinpath("schema.json").read_text(encoding="utf-8"), nl=False
    )
