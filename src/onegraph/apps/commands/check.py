"""``onegraph check``: the gate for CI."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from onegraph.apps import exits
from onegraph.apps.commands.run import nothing_compiled
from onegraph.apps.output import stdout_is_ours
from onegraph.apps.progress import quiet_option, shown
from onegraph.apps.targeting import resolved, spec_of, target_options
from onegraph.apps.writing import render, show

if TYPE_CHECKING:
    from onegraph.gate import Settings
    from onegraph.model import Findings, Verdict

F = TypeVar("F", bound=Callable[..., Any])


def gate_options(command: F) -> F:
    """Where the baseline is."""
    return click.option(
        "--baseline",
        "baseline_file",
        metavar="FILE",
        type=click.Path(dir_okay=False),
        help="The baseline file, instead of that of pyproject.toml (onegraph-baseline.json).",
    )(command)


@click.command(short_help="The gate: as run, and fail on what is new.")
@target_options
@quiet_option
@gate_options
@click.option("--no-baseline", is_flag=True, help="Accept nothing that stands in the baseline.")
@click.option("--max-breaks", type=click.IntRange(min=0), metavar="N", help="How many new breaks pass.")
@click.option("--max-recompiles", type=click.IntRange(min=0), metavar="N", help="How many recompiles pass.")
@click.pass_context
def check(
    ctx: click.Context,
    words: tuple[str, ...],
    module: str | None,
    form: str,
    out: str | None,
    baseline_file: str | None,
    no_baseline: bool,
    max_breaks: int | None,
    max_recompiles: int | None,
) -> None:
    """Run TARGET and fail (exit code 1) on breaks that are not accepted, and on limits passed.

    \b
    A break is accepted when
      it is in the baseline       onegraph baseline write TARGET
      a comment says so           # onegraph: ignore[kind] why
      pyproject.toml says so      [tool.onegraph] ignore, per-file-ignores
      the code asks for it        torch.compiler.disable
    """
    from dataclasses import replace

    from onegraph.model import Limits

    if no_baseline and baseline_file:
        raise click.UsageError("--baseline and --no-baseline exclude each other")
    settings = read_settings(baseline_file)
    if no_baseline:
        settings = replace(settings, baseline=None)
    limits = settings.limits
    limits = Limits(
        limits.breaks if max_breaks is None else max_breaks,
        limits.recompiles if max_recompiles is None else max_recompiles,
    )
    quiet = form != "text"
    spec, target = resolved(*spec_of(words, module, settings.target), quiet=quiet)
    from onegraph import pipeline
    from onegraph.gate import Baseline

    baseline = Baseline.read(settings.baseline) if settings.baseline else Baseline()
    with stdout_is_ours(quiet), shown(ctx):
        findings = pipeline.run(target)
    verdict = verdict_of(findings, replace(settings, limits=limits), baseline, spec)
    if form == "text" and findings.nothing_compiled:
        ctx.exit(nothing_compiled(spec, target, findings, form, out))
    shrunk = _shrink(settings, baseline, verdict, spec)
    if form == "text":
        from onegraph.report.check_text import check_text

        show(check_text(findings, verdict, spec, shrunk=shrunk), out)
    else:
        from onegraph.report.rows import check_report

        render(check_report(findings, verdict, spec, settings.root), form, out)
    ctx.exit(exits.after_check(verdict))


def read_settings(baseline_file: str | None) -> Settings:
    """The settings of the project around the current folder."""
    from dataclasses import replace

    from onegraph.gate import load_settings
    from onegraph.kinds import registry

    settings = load_settings(Path.cwd(), registry.names())
    return replace(settings, baseline=Path(baseline_file).absolute()) if baseline_file else settings


def verdict_of(findings: Findings, settings: Settings, baseline: Any, spec: str) -> Verdict:
    """The gate's verdict on one run of the target ``spec``."""
    from onegraph.gate import judge
    from onegraph.kinds import registry
    from onegraph.torch_private.dynamo import is_compiler_error

    error = findings.trace.error
    failed = error is not None and is_compiler_error(error)
    words = str(error).strip().splitlines() if failed else []
    return judge(
        findings,
        settings,
        baseline,
        spec,
        kinds=registry.names(),
        failed=f"{type(error).__name__}: {(words or [''])[0]}" if failed else "",
    )


def _shrink(settings: Settings, baseline: Any, verdict: Verdict, spec: str) -> str:
    """Take entries out of the baseline whose break is no more; the name of the file when it changed."""
    if not verdict.gone or settings.baseline is None:
        return ""
    from onegraph.gate import torch_minor

    try:
        baseline.without(torch_minor(), spec, verdict.gone).write(settings.baseline)
    except OSError as error:
        click.echo(f"onegraph: {settings.baseline} can't be written: {error.strerror}", err=True)
        return ""
    return settings.baseline.name
