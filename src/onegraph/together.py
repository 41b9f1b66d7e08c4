"""Several programs of one script, mended one by one, become one result.

Each was mended from the texts on disk. Where two of them change one file, their changes are merged line by
line; a program whose changes don't fit is left out, with its reason.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from itertools import pairwise, product

from onegraph.model import (
    Attempt,
    Check,
    Evidence,
    FileChange,
    Findings,
    FixResult,
    Repair,
    Status,
    Trace,
)

NOTHING_CHECKED = Check("verification", None, "nothing was checked")
Hunk = tuple[int, int, tuple[str, ...]]  # lines [start, end) of the original, and what replaces them


def one_result(name: str, before: Findings, results: Sequence[FixResult]) -> FixResult:
    """The results as one. ``before`` stands in where there are none."""
    if not results:
        return FixResult(name, before, before, (), (), Evidence())
    changes: dict[str, FileChange] = {}
    fitting: list[FixResult] = []
    for result in results:
        merged = _merged(changes, result.changes)
        if merged is None:
            fitting.append(_left_out(result))
        else:
            changes = merged
            fitting.append(result)
    return FixResult(
        program=name,
        before=findings_together([result.before for result in fitting]),
        after=findings_together([result.after for result in fitting]),
        repairs=_repairs(fitting),
        changes=tuple(change for _, change in sorted(changes.items())),
        evidence=evidence_together([result.evidence for result in fitting if result.changes]),
        seconds=_summed([result.seconds for result in fitting]),
    )


def findings_together(findings: Sequence[Findings]) -> Findings:
    """One site for each source position; graphs and recompiles of all."""
    traces = [each.trace for each in findings]
    return Findings(
        tuple({site.span: site for each in findings for site in each.sites}.values()),
        Trace(
            breaks=tuple(item for trace in traces for item in trace.breaks),
            graphs=tuple(item for trace in traces for item in trace.graphs),
            recompiles=tuple(item for trace in traces for item in trace.recompiles),
            frames_given_up=tuple(item for trace in traces for item in trace.frames_given_up),
            limits_reached=tuple(item for trace in traces for item in trace.limits_reached),
            disagreements=tuple(item for trace in traces for item in trace.disagreements),
            attempts=tuple(_attempts(traces)),
            unseen=tuple(item for trace in traces for item in trace.unseen),
            compiled_calls=sum(trace.compiled_calls for trace in traces),
            error=next((trace.error for trace in traces if trace.error is not None), None),
            seconds=sum(trace.seconds for trace in traces),
        ),
    )


def _attempts(traces: Sequence[Trace]) -> Iterator[Attempt]:
    """One after the other, with positions in the joined lists."""
    graphs = breaks = recompiles = 0
    start = 0.0
    for trace in traces:
        for each in trace.attempts:
            yield replace(
                each,
                start=start + each.start,
                graphs=tuple(graphs + at for at in each.graphs),
                breaks=tuple(breaks + at for at in each.breaks),
                recompile=None if each.recompile is None else recompiles + each.recompile,
            )
        graphs, breaks = graphs + len(trace.graphs), breaks + len(trace.breaks)
        recompiles, start = recompiles + len(trace.recompiles), start + trace.seconds


def evidence_together(evidence: Sequence[Evidence]) -> Evidence:
    """All checks of all; verified only if each of them is. One without any check counts as unverified."""
    return Evidence(
        checks=tuple(check for each in evidence for check in each.checks or [NOTHING_CHECKED]),
        inputs=sum(each.inputs for each in evidence),
        max_abs=max((each.max_abs for each in evidence), default=0.0),
        max_rel=max((each.max_rel for each in evidence), default=0.0),
        seconds=sum(each.seconds for each in evidence),
    )


def merged_text(original: str, first: str, second: str) -> str | None:
    """Both changes of one text; None where they touch the same lines in different ways.

    Definitions that both insert at one place (helpers) are put one after the other, the same ones once."""
    lines = original.splitlines(keepends=True)
    ours, theirs = set(_hunks(lines, first)), set(_hunks(lines, second))
    for one, other in product(ours - theirs, theirs - ours):
        if one[:2] == other[:2] and one[0] == one[1]:
            both = _both_inserted("".join(one[2]), "".join(other[2]))
            if both is None:
                return None
            ours, theirs = ours - {one}, (theirs - {other}) | {(one[0], one[1], (both,))}
    hunks = sorted(ours | theirs)
    if any(_touch(one, other) for one, other in pairwise(hunks)):
        return None
    for start, end, new in reversed(hunks):
        lines[start:end] = new
    return "".join(lines)


def _both_inserted(first: str, second: str) -> str | None:
    """The statements of ``first``, then those only in ``second``; None where a name gets two meanings."""
    known, more = _statements(first), _statements(second)
    if known is None or more is None:
        return None
    new = {text: names for text, names in more.items() if text not in known}
    if any(names & other for names in new.values() for other in known.values()):
        return None
    lead = first[: len(first) - len(first.lstrip("\n"))]
    tail = first[len(first.rstrip("\n")) :]
    gap = "\n" if all(text.startswith(("import ", "from ")) for text in (*known, *new)) else "\n\n\n"
    return lead + gap.join((first.strip("\n"), *new)) + tail


def _statements(text: str) -> dict[str, set[str]] | None:
    """The top-level statements of a text, each with the names that it binds; None where it isn't Python."""
    try:
        nodes = ast.parse(text).body
    except SyntaxError:
        return None
    lines = text.splitlines()
    found = {}
    for node in nodes:
        start = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
        found["\n".join(lines[start - 1 : node.end_lineno])] = _bound(node)
    return found


def _bound(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.Import | ast.ImportFrom):
        return {alias.asname or alias.name for alias in node.names}
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return {node.name}
    names = (each for each in ast.walk(node) if isinstance(each, ast.Name))
    return {name.id for name in names if isinstance(name.ctx, ast.Store)}


def _touch(one: Hunk, other: Hunk) -> bool:
    """Whether two hunks, the first one in front, overlap, or insert at the same place."""
    (start, end, _), (next_start, next_end, _) = one, other
    inserts = start == end or next_start == next_end
    return next_start < end or start == next_start or (inserts and end == next_start)


def _hunks(lines: list[str], text: str) -> Iterator[Hunk]:
    new = text.splitlines(keepends=True)
    matcher = SequenceMatcher(None, lines, new, autojunk=False)
    for tag, start, end, new_start, new_end in matcher.get_opcodes():
        if tag != "equal":
            yield start, end, tuple(new[new_start:new_end])


def _merged(known: Mapping[str, FileChange], more: Sequence[FileChange]) -> dict[str, FileChange] | None:
    changes = dict(known)
    for change in more:
        before = changes.get(change.path)
        if before is None:
            changes[change.path] = change
            continue
        text = merged_text(change.original, before.mended, change.mended)
        if text is None:
            return None
        functions = tuple(dict.fromkeys((*before.functions, *change.functions)))
        changes[change.path] = FileChange(change.path, change.original, text, functions)
    return changes


def _left_out(result: FixResult) -> FixResult:
    """A result whose changes were not taken: everything is as before."""
    reason = "another program of this script needs a different change of the same lines"
    step = "Apply the change shown, then run onegraph fix again."
    repairs = tuple(
        _rejected(repair, reason, step) if repair.status is Status.APPLIED else repair
        for repair in result.repairs
    )
    return replace(result, after=result.before, repairs=repairs, changes=(), evidence=Evidence())


def _rejected(repair: Repair, reason: str, step: str) -> Repair:
    return replace(
        repair, status=Status.REJECTED, level=None, reason=reason, next_step=step, evidence=Evidence()
    )


def _repairs(results: Sequence[FixResult]) -> tuple[Repair, ...]:
    """One decision for each site: an applied one where there is one."""
    best: dict[object, Repair] = {}
    for result in results:
        for repair in result.repairs:
            known = best.get(repair.site.span)
            if known is None or (repair.status is Status.APPLIED and known.status is not Status.APPLIED):
                best[repair.site.span] = repair
    return tuple(best.values())


def _summed(tables: Sequence[Mapping[str, float]]) -> dict[str, float]:
    total: dict[str, float] = {}
    for table in tables:
        for stage, seconds in table.items():
            total[stage] = total.get(stage, 0.0) + seconds
    return total
