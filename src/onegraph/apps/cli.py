"""The command line: options in, one call of the pipeline, a report out, an exit code.

Nothing here imports torch; a command that needs it does so through the pipeline.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

import onegraph
from onegraph.apps import exits
from onegraph.apps.output import stdout_is_ours

if TYPE_CHECKING:
    from onegraph.model import Findings, FixResult, Program
    from onegraph.targets import Script

F = TypeVar("F", bound=Callable[..., Any])

EXIT_CODES = """\b
Exit codes:
  0    clean: no break, or everything mended and verified
  1    breaks are left
  2    wrong usage, or a target that can't be used
  3    the target itself failed
  4    a fix did not verify; nothing was written
  5    nothing was compiled
  101  a fault of onegraph"""


@click.group(
    cls=exits.Group,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=EXIT_CODES,
)
@click.version_option(onegraph.__version__, prog_name="onegraph")
def main() -> None:
    """Find, mend and verify graph breaks: give torch.compile one graph.

    \b
    TARGET is one of
      train.py [-- ARGS]       a script, run as it is
      -m pkg.mod [-- ARGS]     a module, run as it is
      pkg.mod:factory          a function that takes nothing and
      path/file.py:factory     returns (callable_or_module, inputs)
    """


def target_options(command: F) -> F:
    """TARGET and its arguments, the format and the file of the report."""
    for option in (
        click.argument("words", metavar="TARGET [-- ARGS]", nargs=-1),
        click.option("-m", "module", metavar="MODULE", help="Run a module as a script, as python -m does."),
        click.option(
            "--output-format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True
        ),
        click.option(
            "-o", "out", metavar="FILE", type=click.Path(dir_okay=False), help="Write the report to FILE."
        ),
    ):
        command = option(command)
    return command


@main.command()
@target_options
@click.pass_context
def run(ctx: click.Context, words: tuple[str, ...], module: str | None, form: str, out: str | None) -> None:
    """Run TARGET and show where its graphs break. Exit code 1 when they do."""
    ctx.exit(_observe("run", words, module, form, out))


@main.command()
@target_options
@click.pass_context
def check(ctx: click.Context, words: tuple[str, ...], module: str | None, form: str, out: str | None) -> None:
    """As run, for CI: exit code 1 on any break that isn't intended."""
    ctx.exit(_observe("check", words, module, form, out))


@main.command(short_help="Mend the breaks of TARGET, verify, show or write the change.")
@target_options
@click.option("--diff", "diff_only", is_flag=True, help="Show the change, write nothing (the default).")
@click.option("--apply", "apply_", is_flag=True, help="Write the verified change into your files.")
@click.option(
    "--overlay",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Write changed functions, also of dependencies, to FILE.",
)
@click.option(
    "--level",
    type=click.Choice(["exact", "relaxed", "lossy"]),
    default="relaxed",
    show_default=True,
    help="What a repair may change.",
)
@click.option(
    "--select", multiple=True, metavar="KIND", help="Mend only these kinds (repeat, or separate by commas)."
)
@click.option("--ignore", multiple=True, metavar="KIND", help="Leave these kinds alone.")
@click.pass_context
def fix(
    ctx: click.Context,
    words: tuple[str, ...],
    module: str | None,
    form: str,
    out: str | None,
    diff_only: bool,
    apply_: bool,
    overlay: str | None,
    level: str,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
) -> None:
    """Mend the breaks of TARGET, verify the result against eager, show the change."""
    if sum((diff_only, apply_, overlay is not None)) > 1:
        raise click.UsageError("--diff, --apply and --overlay exclude each other")
    kinds = _kinds(select), _kinds(ignore)
    spec, target = _target(words, module, quiet=form == "json")
    from onegraph import pipeline
    from onegraph.model import Level

    with stdout_is_ours(form == "json"):
        result = pipeline.fix(target, level=Level(level), select=kinds[0], ignore=kinds[1])
    if not result.before.trace.graphs and not result.before.sites:
        ctx.exit(_nothing_compiled(spec, target, result.before, form, out))
    code = exits.after_fix(result)
    done = None
    if code == exits.UNVERIFIED:
        done = "nothing was written: the change is not verified" if apply_ or overlay else None
    elif result.changes and apply_:
        done = _apply(result)
    elif result.changes and overlay is not None:
        done = _write_overlay(result, overlay)
    _deliver_fix(result, spec, form, out, done)
    ctx.exit(code)


@main.command(short_help="What a kind of break or a GB id means, with examples.")
@click.argument("topic", metavar="KIND|GBnnnn")
def explain(topic: str) -> None:
    """What a kind of break is, why it breaks, and its repair by example."""
    from onegraph.apps.pages import page
    from onegraph.report.text import show

    show(page(topic))


@main.command()
def env() -> None:
    """Versions that matter for a bug report."""
    from onegraph.apps.pages import environment

    click.echo(environment(), nl=False)


@main.command()
def schema() -> None:
    """The JSON Schema of the JSON reports."""
    from importlib import resources

    click.echo(
        resources.files("onegraph.report").joinpath("schema.json").read_text(encoding="utf-8"), nl=False
    )


def _target(words: tuple[str, ...], module: str | None, *, quiet: bool) -> tuple[str, Program | Script]:
    """The target and its name for people. What a factory prints goes where the program's output goes."""
    if module is not None:
        spec, arguments = f"-m {module}", words
    elif words:
        spec, arguments = words[0], words[1:]
    else:
        raise click.UsageError("give a TARGET: train.py, -m pkg.mod, pkg.mod:factory or path/file.py:factory")
    from onegraph.targets import resolve

    with stdout_is_ours(quiet):
        target = resolve(spec, arguments)
    return " ".join((spec, "--", *arguments)) if arguments else spec, target


def _observe(verb: str, words: tuple[str, ...], module: str | None, form: str, out: str | None) -> int:
    spec, target = _target(words, module, quiet=form == "json")
    from onegraph import pipeline

    with stdout_is_ours(form == "json"):
        findings = pipeline.run(target)
    if not findings.trace.graphs and not findings.sites:
        return _nothing_compiled(spec, target, findings, form, out)
    if form == "json":
        from onegraph.report import json

        _write(json.encode(json.run_report(findings, spec)), out)
    else:
        from onegraph.report.text import run_text

        _show(run_text(findings, spec, verb=verb), out)
    return exits.after_run(findings)


def _nothing_compiled(
    spec: str, target: Program | Script, findings: Findings, form: str, out: str | None
) -> int:
    from onegraph.report.text import nothing_compiled

    if form == "json":
        from onegraph.report import json

        _write(json.encode(json.run_report(findings, spec)), out)
    else:
        _show(nothing_compiled(spec, findings.trace, *_why_nothing(target)), out)
    return exits.NOTHING


def _why_nothing(target: Program | Script) -> tuple[str, str]:
    from onegraph.targets import Script, holds_tensor

    if isinstance(target, Script):
        return (
            "The script ran to its end, and nothing in it went through torch.compile.",
            "compile the model in the script, or name a factory: file.py:factory",
        )
    if not any(holds_tensor(call) for call in target.calls):
        return (
            f"No argument of {target.name} holds a tensor; Dynamo compiles only what computes with tensors.",
            "give tensors as inputs",
        )
    return (
        f"{target.name} does nothing with its tensors that could be compiled.",
        "check the inputs of the factory",
    )


def _kinds(names: tuple[str, ...]) -> tuple[str, ...]:
    wanted = [part.strip() for name in names for part in name.split(",") if part.strip()]
    if wanted:
        from onegraph.kinds import registry

        for name in wanted:
            if name not in registry.names():
                raise click.BadParameter(f"no kind {name!r}; there are: {', '.join(registry.names())}")
    return tuple(wanted)


def _apply(result: FixResult) -> str:
    from onegraph.deliver import apply

    return f"wrote {', '.join(apply(result.changes))}"


def _write_overlay(result: FixResult, overlay: str) -> str:
    from onegraph.deliver import write_overlay

    write_overlay(result.changes, overlay)
    return f"wrote {overlay}; in the program:  import onegraph.overlay; onegraph.overlay.install({overlay!r})"


def _deliver_fix(result: FixResult, spec: str, form: str, out: str | None, done: str | None) -> None:
    from onegraph.deliver import diff

    patch = diff(result.changes)
    if form == "json":
        from onegraph.report import json

        _write(json.encode(json.fix_report(result, spec, patch)), out)
        if done:
            click.echo(done, err=True)
    else:
        from onegraph.report.fix_text import fix_text

        _show(fix_text(result, spec, patch, next_step=done), out)


def _show(renderable: Any, out: str | None) -> None:
    from onegraph.report.text import show, to_text

    if out is None:
        sys.stdout.flush()
        show(renderable)
    else:
        _write(to_text(renderable), out)


def _write(text: str, out: str | None) -> None:
    if out is None:
        click.echo(text, nl=False)
        return
    try:
        Path(out).write_text(text, encoding="utf-8")
    except OSError as error:
        raise click.FileError(out, error.strerror or str(error)) from None
    click.echo(f"wrote {out}", err=True)
