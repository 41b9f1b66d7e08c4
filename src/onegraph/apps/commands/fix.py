"""``onegraph fix``: mend, verify, show or write the change."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from onegraph.apps import exits
from onegraph.apps.commands.run import nothing_compiled
from onegraph.apps.output import stdout_is_ours
from onegraph.apps.progress import quiet_option, shown
from onegraph.apps.targeting import resolved, spec_of, target_options
from onegraph.apps.writing import render, show

if TYPE_CHECKING:
    from onegraph.model import FixResult


@click.command(short_help="Mend the breaks of TARGET, verify, show or write the change.")
@target_options
@quiet_option
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
    quiet = form != "text"
    spec, target = resolved(*spec_of(words, module), quiet=quiet)
    from onegraph import pipeline
    from onegraph.model import Level

    with stdout_is_ours(quiet), shown(ctx):
        result = pipeline.fix(target, level=Level(level), select=kinds[0], ignore=kinds[1])
    if result.before.nothing_compiled:
        ctx.exit(nothing_compiled(spec, target, result.before, form, out))
    code = exits.after_fix(result)
    done, step = "", None
    if code == exits.UNVERIFIED and (apply_ or overlay):
        done = "nothing was written: the change is not verified"
    elif result.changes and code != exits.UNVERIFIED and apply_:
        done, step = _apply(result), f"git diff, and onegraph check {spec} in CI"
    elif result.changes and code != exits.UNVERIFIED and overlay is not None:
        done, step = _write_overlay(result, overlay)
    _deliver_fix(result, spec, form, out, done, step)
    ctx.exit(code)


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


def _write_overlay(result: FixResult, overlay: str) -> tuple[str, str]:
    from onegraph.deliver import write_overlay

    write_overlay(result.changes, overlay)
    install = f"import onegraph.overlay; onegraph.overlay.install({overlay!r})"
    return f"wrote {overlay}", f"in the program, before the model is used:  {install}"


def _deliver_fix(
    result: FixResult, spec: str, form: str, out: str | None, done: str, step: str | None
) -> None:
    """The report; ``done`` says what was written, ``step`` what comes next because of that."""
    from onegraph.deliver import diff

    patch = diff(result.changes)
    if form == "text":
        from onegraph.report.fix_text import fix_text

        show(fix_text(result, spec, patch, done=done, next_step=step), out)
        return
    from onegraph.report.rows import fix_report

    render(fix_report(result, spec, patch), form, out)
    for line in (done, f"next: {step}" if step else ""):
        if line:
            click.echo(line, err=True)
