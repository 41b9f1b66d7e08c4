"""``onegraph baseline``: accept the breaks of today, so that only new ones fail."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from onegraph.apps import exits
from onegraph.apps.commands.check import gate_options, read_settings, verdict_of
from onegraph.apps.targeting import resolved, spec_of, why_nothing
from onegraph.apps.writing import show

if TYPE_CHECKING:
    from onegraph.gate import Baseline, Settings
    from onegraph.model import Verdict

_target = click.argument("words", metavar="TARGET [-- ARGS]", nargs=-1)
_module = click.option("-m", "module", metavar="MODULE", help="Run a module as a script, as python -m does.")


@click.group()
def baseline() -> None:
    """Accept the breaks of today, so that `onegraph check` fails only on new ones."""


@baseline.command("write")
@_target
@_module
@gate_options
@click.pass_context
def write_(ctx: click.Context, words: tuple[str, ...], module: str | None, baseline_file: str | None) -> None:
    """Run TARGET and accept every break that it has now (for this version of torch)."""
    settings, file, verdict, spec = _looked(ctx, words, module, baseline_file)
    from onegraph.gate import torch_minor
    from onegraph.model import Standing

    passing = {each.key for each in verdict.judged if each.standing not in (Standing.NEW, Standing.BASELINED)}
    keys = [key for key in verdict.keys if key not in passing]
    before = set(file.accepted(torch_minor(), spec))
    _save(file.with_keys(torch_minor(), spec, keys), settings)
    click.echo(f"{len(set(keys) - before)} added, {len(before - set(keys))} removed, {len(keys)} in all")
    click.echo(f"next: commit {_name(settings)}; onegraph check {spec}")


@baseline.command()
@_target
@_module
@gate_options
@click.pass_context
def prune(ctx: click.Context, words: tuple[str, ...], module: str | None, baseline_file: str | None) -> None:
    """Run TARGET and take out the entries whose break is no more. Nothing is added."""
    settings, file, verdict, spec = _looked(ctx, words, module, baseline_file)
    from onegraph.gate import torch_minor

    if verdict.gone:
        _save(file.without(torch_minor(), spec, verdict.gone), settings)
    click.echo(
        f"{len(verdict.gone)} removed, {len(file.accepted(torch_minor(), spec)) - len(verdict.gone)} kept"
    )


@baseline.command("show")
@gate_options
def show_(baseline_file: str | None) -> None:
    """What is accepted, by version of torch and target. Runs nothing."""
    from onegraph.gate import Baseline

    settings = read_settings(baseline_file)
    assert settings.baseline is not None
    file = Baseline.read(settings.baseline)
    if not file.sections:
        click.echo(
            f"no entry in {_name(settings)}; onegraph baseline write TARGET accepts the breaks of today"
        )
        return
    for minor, lists in sorted(file.sections.items()):
        for target, keys in sorted(lists.items()):
            click.echo(f"torch {minor} · {target} · {len(keys)}")
            for key in keys:
                again = f"  ({key.occurrence + 1})" if key.occurrence else ""
                click.echo(f"  {key.file}  {key.function}  {key.kind}{again}\n      {key.statement}".rstrip())


def _looked(
    ctx: click.Context, words: tuple[str, ...], module: str | None, baseline_file: str | None
) -> tuple[Settings, Baseline, Verdict, str]:
    """Run the target and judge it; ends the command where nothing was compiled, or the program stopped."""
    from onegraph import pipeline
    from onegraph.gate import Baseline

    settings = read_settings(baseline_file)
    assert settings.baseline is not None
    file = Baseline.read(settings.baseline)
    spec, target = resolved(*spec_of(words, module, settings.target), quiet=False)
    findings = pipeline.run(target)
    if findings.nothing_compiled:
        from onegraph.report import text

        show(text.nothing_compiled(spec, findings.trace, *why_nothing(target)), None)
        ctx.exit(exits.NOTHING)
    return settings, file, verdict_of(findings, settings, file, spec), spec


def _save(file: Baseline, settings: Settings) -> None:
    assert settings.baseline is not None
    try:
        file.write(settings.baseline)
    except OSError as error:
        raise click.FileError(str(settings.baseline), error.strerror or str(error)) from None


def _name(settings: Settings) -> str:
    return settings.baseline.name if settings.baseline else ""
