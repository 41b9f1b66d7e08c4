"""Exit codes, and what becomes of an exception on the command line."""

from __future__ import annotations

import platform
import sys
import traceback
from typing import TYPE_CHECKING, Any

import click

import onegraph

if TYPE_CHECKING:
    from onegraph.model import Findings, FixResult, Verdict

CLEAN, FINDINGS, USAGE, TARGET_FAILED, UNVERIFIED, NOTHING, OUR_FAULT = 0, 1, 2, 3, 4, 5, 101


def after_run(findings: Findings) -> int:
    """1 on a break that isn't intended, on a reached recompile limit, and when the compiler itself failed.

    An exception of the program's own is its behaviour: it raises without torch.compile too."""
    from onegraph.torch_private.dynamo import is_compiler_error

    trace = findings.trace
    broken = any(not site.intended for site in findings.sites)
    failed = trace.error is not None and is_compiler_error(trace.error)
    return FINDINGS if broken or trace.limits_reached or failed else CLEAN


def after_check(verdict: Verdict) -> int:
    """5 when nothing was compiled, 1 when the gate doesn't let the run pass, 0 otherwise."""
    if not verdict.compiled:
        return NOTHING
    return CLEAN if verdict.passed else FINDINGS


def after_fix(result: FixResult) -> int:
    """4 when a change did not verify, 1 when breaks are left, 0 otherwise."""
    from onegraph.report.verdict import verified

    if result.changes and not verified(result):
        return UNVERIFIED
    left = any(not site.intended for site in result.after.sites)
    return FINDINGS if left else CLEAN


class Group(click.Group):
    """A command group that turns our exceptions into messages and exit codes."""

    def invoke(self, ctx: click.Context) -> Any:
        from onegraph.apps.ranks import leaving_together

        try:
            with leaving_together():
                return super().invoke(ctx)
        except (click.exceptions.Exit, click.ClickException, click.Abort):
            raise
        except KeyboardInterrupt:
            raise click.Abort from None
        except Exception as error:  # noqa: BLE001 (the last line of defence: exit code 101)
            ctx.exit(_told(error))


def _told(error: Exception) -> int:
    """Say what happened on stderr and return the exit code. Imports no torch for a target that can't be
    used."""
    from onegraph.targets import TargetError, TargetFailed
    from onegraph.torch_private.version import UnsupportedTorch

    if isinstance(error, TargetFailed):
        from onegraph.targets.traceback import text

        click.echo(text(error.error), nl=False, err=True)
        click.echo("\nonegraph: the target itself failed", err=True)
        return TARGET_FAILED
    if isinstance(error, TargetError | UnsupportedTorch):
        click.echo(f"onegraph: {error}", err=True)
        return USAGE
    from onegraph.deliver import CannotApply
    from onegraph.gate import BaselineError, SettingsError

    if isinstance(error, CannotApply | BaselineError | SettingsError):
        click.echo(f"onegraph: {error}", err=True)
        return USAGE
    return _our_fault(error)


def _our_fault(error: Exception) -> int:
    traceback.print_exception(error, file=sys.stderr)
    click.echo(
        f"\nonegraph {onegraph.__version__}: this is a fault of onegraph, not of your program.\n"
        "Please send the text above, the output of `onegraph env`, and the smallest target that shows it\n"
        f"(python {platform.python_version()}; arguments: {' '.join(sys.argv[1:])}).",
        err=True,
    )
    return OUR_FAULT
