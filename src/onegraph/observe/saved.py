"""Traces that torch wrote (``TORCH_TRACE=DIR``), read back: one process, one file, one Trace.

The records are those of ``torch._logging.trace_structured``: a line ``V1130 13:19:09.488 PID file:line] {JSON}``, and
the payload behind it, each line after a tab. A break is told there as text, without the program: its columns are those
that Python's carets mark, counted in the source where it is at hand.
"""

from __future__ import annotations

import ast
import json
import linecache
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from onegraph.model import Break, Frame, Graph, Outcome, Recompile, Span, Trace
from onegraph.observe import positions
from onegraph.observe.recorder import INTENDED, follows
from onegraph.tracebacks import frames

_HEAD = re.compile(r"^(?:\[rank\d+\]:)?V\d{4} \S+ \d+ \S+\] (?P<record>\{.*)$")
_RANK = re.compile(r"_rank_(\d+)_")
_RESUMED = re.compile(r"^torch_dynamo_resume_in_(?P<function>.+)_at_\d+$")
_REASON = "Graph Break Reason: "
_ANOTHER = "*** While handling this graph break, another graph break occurred: ***"
_LATER = re.compile(r"^(?:Stack variable source attribution|User code traceback|Traceback \()", re.MULTILINE)
_MORE = re.compile(r"^ *For more details about this graph break.*$", re.MULTILINE)


class NoTrace(ValueError):
    """Nothing there is a trace of torch."""


@dataclass(frozen=True, slots=True)
class SavedTrace:
    """What one process did. ``name`` is "rank 3", or the name of the file; ``torch`` the version that wrote it."""

    name: str
    torch: str
    trace: Trace


def read(place: Path) -> list[SavedTrace]:
    """The traces in a folder (or in one file), by rank. Raises NoTrace, and OSError where it can't be read."""
    files = sorted(place.glob("*.log")) if place.is_dir() else [place]
    found = [saved for file in files if (saved := _read_file(file)) is not None]
    if not found:
        raise NoTrace(f"{place} holds no trace of torch; write one with: TORCH_TRACE={place} python train.py")
    return [saved for _, saved in sorted(found, key=lambda pair: pair[0])]


Order = tuple[int, str]


def _read_file(file: Path) -> tuple[Order, SavedTrace] | None:
    process = _Process()
    for record, payload in _records(file):
        process.take(record, payload)
    if not process.records:
        return None
    named = _RANK.search(file.name)
    rank = process.rank if process.rank is not None else int(named[1]) if named else None
    name = file.name if rank is None else f"rank {rank}"
    return (-1 if rank is None else rank, file.name), SavedTrace(name, process.torch, process.trace())


def _records(file: Path) -> Iterator[tuple[dict[str, Any], str]]:
    """Every record with its payload. A line that was cut off (the job was killed) is left out."""
    record: dict[str, Any] | None = None
    payload: list[str] = []
    with file.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if line.startswith("\t"):
                payload.append(line[1:])
                continue
            if record is not None:
                yield record, "".join(payload).rstrip("\n")
            record, payload = _record(line), []
    if record is not None:
        yield record, "".join(payload).rstrip("\n")


def _record(line: str) -> dict[str, Any] | None:
    head = _HEAD.match(line)
    try:
        found = json.loads(head["record"]) if head else None
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


@dataclass(slots=True)
class _Compilation:
    """One frame that Dynamo compiled, or tried to."""

    breaks: list[str] = field(default_factory=list)
    graphs: int = 0
    recompiled: tuple[str, ...] = ()
    metrics: dict[str, Any] = field(default_factory=dict)


class _Process:
    """Collects the records of one file by the compilation that they belong to."""

    def __init__(self) -> None:
        self.records = 0
        self.rank: int | None = None
        self.torch = ""
        self._compilations: dict[str, _Compilation] = {}

    def take(self, record: dict[str, Any], payload: str) -> None:
        self.records += 1
        if isinstance(rank := record.get("rank"), int):
            self.rank = rank
        label = record.get("artifact", {}).get("name", "")
        if label == "torch_version":
            self.torch = str(_parsed(payload).get("pytorch_version", ""))
        elif label == "dynamo_graph_break_reason":
            self._of(record).breaks.append(payload)
        elif label == "recompile_reasons":
            self._of(record).recompiled = _reasons(payload)
        elif "dynamo_output_graph" in record:
            self._of(record).graphs += 1
        elif "compilation_metrics" in record:
            self._of(record).metrics = record["compilation_metrics"]

    def _of(self, record: dict[str, Any]) -> _Compilation:
        metrics = record.get("compilation_metrics", {})
        key = metrics.get("compile_id") or f"{record.get('frame_id')}/{record.get('frame_compile_id')}"
        return self._compilations.setdefault(str(key), _Compilation())

    def trace(self) -> Trace:
        breaks: list[Break] = []
        graphs: list[Graph] = []
        recompiles: list[Recompile] = []
        given_up: list[str] = []
        limits: list[str] = []
        for each in self._compilations.values():
            file, line, function, resumed = _place(each.metrics)
            where = f"{function} ({file}:{line})"
            nodes = each.metrics.get("graph_op_count") or 0
            graphs += [Graph(function, file, line, nodes)] * each.graphs
            if each.recompiled:
                caused = resumed and any("___stack" in reason for reason in each.recompiled)
                recompiles.append(Recompile(function, file, line, each.recompiled, caused))
            failed = bool(each.metrics.get("fail_type"))
            if failed and "RecompileLimit" in each.metrics["fail_type"]:
                limits.append(where)
                continue
            outcome = Outcome.FRAME_SKIPPED if failed else Outcome.RESUMED
            told = each.breaks or ([_failure(each.metrics)] if failed else [])
            for text in told:
                breaks += _breaks(text, outcome, breaks)
            given_up += [where] if failed else []
        return Trace(
            breaks=tuple(breaks),
            graphs=tuple(graphs),
            recompiles=tuple(recompiles),
            frames_given_up=tuple(dict.fromkeys(given_up)),
            limits_reached=tuple(dict.fromkeys(limits)),
            compiled_calls=len(self._compilations),
            seconds=sum(
                each.metrics.get("entire_frame_compile_time_s") or 0.0 for each in self._compilations.values()
            ),
        )


def _parsed(payload: str) -> dict[str, Any]:
    try:
        found = json.loads(payload)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _reasons(payload: str) -> tuple[str, ...]:
    """One reason is written as it is, several as a JSON list."""
    try:
        found = json.loads(payload)
    except ValueError:
        return (payload,)
    return tuple(map(str, found)) if isinstance(found, list) else (payload,)


def _place(metrics: dict[str, Any]) -> tuple[str, int, str, bool]:
    """File, first line and name of the user's function; whether it was the part behind a break."""
    name, line = str(metrics.get("co_name") or "?"), int(metrics.get("co_firstlineno") or 0)
    file = _at_hand(str(metrics.get("co_filename") or "?"))
    resumed = _RESUMED.match(name)
    first, full = _function(file, resumed["function"] if resumed else name, line)
    return file, first, full, resumed is not None


def _failure(metrics: dict[str, Any]) -> str:
    """A frame that was skipped without a record of the break: its text, in the words of one."""
    file, line = metrics.get("fail_user_frame_filename"), metrics.get("fail_user_frame_lineno")
    where = (
        f'\n\nUser code traceback:\n  File "{file}", line {line}, in {metrics.get("co_name")}' if file else ""
    )
    return f"{_REASON}{metrics.get('fail_reason') or metrics['fail_type']}{where}"


# --- the text of a break ----------------------------------------------------------------------------------------------


def _breaks(text: str, outcome: Outcome, before: Sequence[Break]) -> list[Break]:
    """The break in a record, and the one that came of it where there is one."""
    reason, _, rest = text.partition(_REASON)[2].partition("User code traceback:")
    stack = tuple(_frames(_LATER.split(rest, maxsplit=1)[0]))
    parts = _LATER.split(reason, maxsplit=1)[0].split(_ANOTHER)
    found: list[Break] = []
    for part in parts:
        type_, message = _type_and_message(part)
        known = any(not each.consequence for each in (*before, *found))
        found.append(
            Break(
                gb_type=type_,
                message=message,
                outcome=outcome,
                stack=stack,
                context=_section(message, "Developer debug context: "),
                explanation=_section(message, "Explanation: "),
                hints=tuple(re.findall(r"^  Hint: (.*)$", message, re.MULTILINE)),
                consequence=follows(type_, known),
                intended=type_ in INTENDED,
            )
        )
    return found


def _type_and_message(part: str) -> tuple[str, str]:
    """Without the line on which Dynamo says at which instruction it met the break."""
    blocks = [block for block in _MORE.sub("", part).strip().split("\n\n") if block.strip()]
    if len(blocks) > 1 and blocks[0].rstrip().endswith(":") and "\n" not in blocks[0].strip():
        blocks = blocks[1:]
    message = "\n\n".join(blocks).strip()
    return message.partition("\n")[0].strip(), message


def _section(message: str, label: str) -> str:
    """The text behind a label, to the end of its block."""
    return message.partition(f"  {label}")[2].partition("\n  Hint: ")[0].partition("\n\n")[0].strip()


# --- positions --------------------------------------------------------------------------------------------------------


def _frames(text: str) -> Iterator[Frame]:
    """The frames in a text, each with the columns that its carets mark."""
    lines = text.splitlines()
    heads = [number for number, line in enumerate(lines) if line.lstrip().startswith('File "')]
    for start, end in zip(heads, [*heads[1:], len(lines)], strict=True):
        at = frames("\n".join(lines[start:end]))[0]
        file = _at_hand(at.file, at.line, at.code)
        carets = next((line for line in lines[start + 2 : end] if line.strip() and not line.strip("^~ ")), "")
        name = _RESUMED.sub(r"\g<function>", at.function)
        span = _span(file, at.line, at.code, lines[start + 1 : start + 2], carets)
        yield Frame(span, _function(file, name, at.line)[1])


def _span(file: str, line: int, code: str, shown: Sequence[str], carets: str) -> Span:
    """The marked part of a line; the line where nothing is marked. Without source the line begins at column 0."""
    whole = linecache.getline(file, line).rstrip("\n") or code
    indent = len(whole) - len(whole.lstrip())
    margin = len(shown[0]) - len(shown[0].lstrip()) if shown else 0
    first = len(carets) - len(carets.lstrip()) - margin if carets else 0
    last = len(carets.rstrip()) - margin if carets else len(whole.strip())
    start, end = (len(whole[: indent + at].encode()) for at in (first, last))
    return positions.tested_at(file, line, start) or Span(file, line, start, line, end)


def _at_hand(file: str, line: int = 0, code: str = "") -> str:
    """Where the file of another machine is here: at its own path, or at the end of it from the current folder. A file
    whose line reads otherwise is another one."""
    if not file.startswith("/") or Path(file).exists():
        return file
    parts = Path(file).parts[1:]
    for skipped in range(len(parts)):
        here = Path.cwd().joinpath(*parts[skipped:])
        if here.is_file() and (not code or linecache.getline(str(here), line).strip() == code):
            return str(here)
    return file


def _function(file: str, name: str, line: int) -> tuple[int, str]:
    """The first line and the qualified name (``Model.forward``) of the ``forward`` around a line; as they are where
    the source is not at hand."""
    around = (
        (first, full)
        for full, short, first, last in _functions(file)
        if short == name and first <= line <= last
    )
    return next(around, (line, name))


@lru_cache(maxsize=256)
def _functions(file: str) -> tuple[tuple[str, str, int, int], ...]:
    """Qualified name, name and lines of every function, the innermost first."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return ()
    return tuple(reversed(list(_defined(tree, ""))))


def _defined(node: ast.AST, prefix: str) -> Iterator[tuple[str, str, int, int]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([child.lineno, *(each.lineno for each in child.decorator_list)])
            yield prefix + child.name, child.name, first, child.end_lineno or child.lineno
            yield from _defined(child, f"{prefix}{child.name}.<locals>.")
        elif isinstance(child, ast.ClassDef):
            yield from _defined(child, f"{prefix}{child.name}.")
        else:
            yield from _defined(child, prefix)
