"""The stages on one page: observe → probe → diagnose → mend (which verifies) → a result to report and
deliver."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from onegraph import mend, observe
from onegraph.diagnose import diagnose
from onegraph.kinds import families, registry
from onegraph.model import Break, Evidence, Findings, FixResult, Level, Program, Trace
from onegraph.state import preserved
from onegraph.state.copying import copy_call
from onegraph.state.run import run_call
from onegraph.targets import Recorded, Script, TargetFailed, recorded
from onegraph.targets.traceback import trimmed
from onegraph.torch_private import dynamo, version

Target = Program | Script


def run(target: Target) -> Findings:
    """Where the graph breaks in ``target``, and what hides behind a break.

    A script runs as it is, with everything that it sends through torch.compile watched; a program is compiled
    with the user's own keywords, and its calls are made on copies. Raises TargetFailed where the target
    itself raises.
    """
    version.require()
    if isinstance(target, Script):
        trace, entries = _run_script(target)
        return _findings(trace, _hidden(trace, entries))
    trace = observe.observe(target)
    if trace.error is not None and not dynamo.is_compiler_error(trace.error):
        _raise_if_always(target)
    return _findings(trace, observe.probe(target) if trace.breaks else ())


def fix(
    target: Target,
    *,
    level: Level = Level.RELAXED,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
) -> FixResult:
    """Mend what breaks in ``target`` up to ``level``, and verify it.

    ``select`` and ``ignore`` are names of kinds. Of a script every compiled callable is mended, one after the
    other, with the inputs that the script gave it. Nothing is written: ``FixResult.changes`` go to
    ``deliver``.
    """
    version.require()
    if isinstance(target, Program):
        return _fix_program(target, level, select, ignore)
    trace, entries = _run_script(target)
    results = []
    for entry in entries:
        with entry.mode():
            results.append(_fix_program(entry.program, level, select, ignore))
    return merged(str(target), _findings(trace, ()), results)


@contextmanager
def watching() -> Iterator[Callable[[], Findings]]:
    """Watch everything compiled inside; the value gives the findings so far."""
    version.require()
    with observe.watch() as seen:
        yield lambda: _findings(seen.trace(), ())


def reason(break_: Break) -> str:
    """One sentence on why the graph breaks: the kind's own, else what its page says happens, else its
    family's."""
    kind = registry.get(registry.classify(break_))
    own: Callable[[Break], str] | None = getattr(kind, "reason", None)
    if own is not None:
        return own(break_)
    happens = re.search(r"^What happens: (.+?)[.;:](?:\s|$)", kind.__doc__ or "", re.MULTILINE | re.DOTALL)
    if happens is None:
        return families.of(break_.gb_type).meaning
    sentence = " ".join(happens[1].split()).replace("``", "`")
    return sentence[0].upper() + sentence[1:] + "."


def merged(name: str, before: Findings, results: Sequence[FixResult]) -> FixResult:
    """The results of several programs of one script as one. ``before`` stands in where nothing was
    recorded."""
    if not results:
        return FixResult(name, before, before, (), (), Evidence())
    evidence = [result.evidence for result in results if result.changes] or [results[0].evidence]
    return FixResult(
        program=name,
        before=_together([result.before for result in results]),
        after=_together([result.after for result in results]),
        repairs=tuple(repair for result in results for repair in result.repairs),
        changes=tuple({change.path: change for result in results for change in result.changes}.values()),
        evidence=Evidence(
            checks=tuple(check for each in evidence for check in each.checks),
            inputs=sum(each.inputs for each in evidence),
            max_abs=max(each.max_abs for each in evidence),
            max_rel=max(each.max_rel for each in evidence),
            seconds=sum(each.seconds for each in evidence),
        ),
        seconds=_summed([result.seconds for result in results]),
    )


def _fix_program(program: Program, level: Level, select: Sequence[str], ignore: Sequence[str]) -> FixResult:
    return mend.mend(program, run(program), level=level, select=select, ignore=ignore)


def _run_script(script: Script) -> tuple[Trace, tuple[Recorded, ...]]:
    with observe.watch() as seen, recorded() as recording:
        try:
            script.run()
        except TargetFailed as failed:
            if not (dynamo.is_compiler_error(failed.error) and seen.trace().breaks):
                raise
            return replace(seen.trace(), error=failed.error), recording.entries()
    return seen.trace(), recording.entries()


def _hidden(trace: Trace, entries: Sequence[Recorded]) -> list[Break]:
    hidden: list[Break] = []
    if trace.breaks:
        for entry in entries:
            with entry.mode():
                hidden += observe.probe(entry.program)
    return hidden


def _findings(trace: Trace, hidden: Sequence[Break]) -> Findings:
    return diagnose(trace, hidden, classify=registry.classify, explain=reason)


def _raise_if_always(program: Program) -> None:
    """A program may raise on some inputs, and that is its behaviour. If it never does anything else, it is
    broken."""
    for call in program.calls:
        if run_call(program.target, call, grad=None).error is None:
            return
    raise TargetFailed(_eager_error(program))


def _eager_error(program: Program) -> BaseException:

    call = copy_call(program.calls[0])
    with preserved(program):
        try:
            program.target(*call.args, **call.kwargs)
        except Exception as error:  # noqa: BLE001 (shown to the user)
            return trimmed(error)
    return RuntimeError("the target raised only under torch.compile")


def _together(findings: Sequence[Findings]) -> Findings:
    traces = [each.trace for each in findings]
    return Findings(
        tuple({site.span: site for each in findings for site in each.sites}.values()),
        Trace(
            breaks=sum((t.breaks for t in traces), ()),
            graphs=sum((t.graphs for t in traces), ()),
            recompiles=sum((t.recompiles for t in traces), ()),
            frames_given_up=sum((t.frames_given_up for t in traces), ()),
            limits_reached=sum((t.limits_reached for t in traces), ()),
            disagreements=sum((t.disagreements for t in traces), ()),
            compiled_calls=sum(t.compiled_calls for t in traces),
            error=next((t.error for t in traces if t.error is not None), None),
            seconds=sum(t.seconds for t in traces),
        ),
    )


def _summed(tables: Sequence[Any]) -> dict[str, float]:
    total: dict[str, float] = {}
    for table in tables:
        for stage, seconds in table.items():
            total[stage] = total.get(stage, 0.0) + seconds
    return total
