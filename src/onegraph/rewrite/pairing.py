"""From a changed file to pairs of code objects: the function as it was loaded and the function of the
new text."""

from __future__ import annotations

import ast
import difflib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from types import CodeType
from typing import Literal

from onegraph.model import MENDED, FileChange
from onegraph.rewrite import source, text

Lines = Literal["current", "user"]
CodePair = tuple[CodeType, CodeType]  # as loaded, and of the mended text
Instrument = Callable[[ast.Module], ast.Module]


class SwapError(Exception):
    """A mended function can't take the place of the running one; the message says which and why."""


@dataclass(frozen=True, slots=True)
class Helper:
    """One new top-level statement of the mended text: a helper, an op, an import."""

    names: frozenset[str]  # that it binds in the module
    reads: frozenset[str]  # names of other helpers that it uses
    words: str  # its source
    code: CodeType
    registers: bool  # may register something with torch: executed once for its text


@dataclass(frozen=True, slots=True)
class Pairs:
    """The functions of one file before and after, and what the new text adds at top level."""

    change: FileChange
    filename: str
    pairs: Mapping[tuple[str, int], tuple[CodePair, ...]]  # by name and first line
    helpers: tuple[Helper, ...]

    def new(self, live: CodeType) -> CodeType | None:
        """The new code for a loaded one; None when the file holds no such function."""
        found = self.pairs.get((live.co_qualname, live.co_firstlineno), ())
        if len(found) > 1:  # lambdas of one line
            column = source.column(live)
            same = tuple(p for p in found if p[0] == live)
            found = same or tuple(p for p in found if source.column(p[0]) == column)
        return found[0][1] if found else None


def virtual_path(path: str) -> str:
    """The file name under which the current text of a file is compiled."""
    return MENDED + path


def real_path(name: str) -> str:
    """The path behind a file name that :func:`virtual_path` made; any other name unchanged."""
    return name.removeprefix(MENDED)


def pair(change: FileChange, lines: Lines, instrument: Instrument | None = None) -> Pairs:
    """Pairs of code objects for one file.

    ``instrument`` gets a tree of its own to change. It changes statements inside functions only, and may drop
    top-level statements: the functions in them are then paired without instrumentation.

    Raises SwapError when a changed function does not fit its place, SyntaxError for a text that does not
    compile.
    """
    plain = _pair(change.path, change.original, change.mended, change.functions, lines)
    if instrument is None:
        return plain
    tree = ast.fix_missing_locations(instrument(ast.parse(change.mended)))
    return replace(plain, pairs={**plain.pairs, **_by_place(_code_pairs(change, lines, tree))})


@lru_cache(maxsize=32)
def _pair(path: str, original: str, mended: str, functions: tuple[str, ...], lines: Lines) -> Pairs:
    change = FileChange(path, original, mended, functions)
    tree = ast.parse(mended)
    pairs = _code_pairs(change, lines, tree)
    found = {old.co_qualname for old, _ in pairs}
    for name in functions:
        if name not in found:
            raise SwapError(f"{name} of {path} is not in both texts")
    filename = _filename(change, lines)
    return Pairs(change, filename, _by_place(pairs), _helpers(change, tree, filename))


def _filename(change: FileChange, lines: Lines) -> str:
    return change.path if lines == "user" else virtual_path(change.path)


def _by_place(pairs: Iterable[CodePair]) -> dict[tuple[str, int], tuple[CodePair, ...]]:
    found: dict[tuple[str, int], tuple[CodePair, ...]] = {}
    for old, new in pairs:
        place = old.co_qualname, old.co_firstlineno
        found[place] = (*found.get(place, ()), (old, new))
    return found


def _code_pairs(change: FileChange, lines: Lines, tree: ast.Module) -> tuple[CodePair, ...]:
    """Compiles the tree (and changes it on the way: lines of the user, dead references)."""
    if lines == "user":
        _use_lines_of(tree, change)
    filename = _filename(change, lines)
    old = source.original_code(change.original, change.path)
    module = compile(tree, filename, "exec", dont_inherit=True)
    pairs = tuple(_matched(old, module, change, tree))
    missing = {new: lost for o, new in pairs if (lost := set(o.co_freevars) - set(new.co_freevars))}
    if missing:
        module = compile(_with_references(tree, module, missing), filename, "exec", dont_inherit=True)
        pairs = tuple(_matched(old, module, change, tree))
    return tuple(_fitting(pairs, change))


# --- which code belongs to which? -----------------------------------------------------------------


def _by_name(codes: Iterable[CodeType]) -> dict[str, list[CodeType]]:
    found: dict[str, list[CodeType]] = defaultdict(list)
    for code in codes:
        if source.is_function(code):
            found[code.co_qualname].append(code)
    for named in found.values():
        if len(named) > 1:
            named.sort(key=lambda code: (code.co_firstlineno, source.column(code)))
    return found


def _matched(old: CodeType, new: CodeType, change: FileChange, tree: ast.Module) -> Iterator[CodePair]:
    """By qualified name; functions of one name by order, or by unchanged line when their number changed."""
    before, after = _by_name(source.code_objects(old)), _by_name(source.code_objects(new))
    for name, codes in before.items():
        others = after.get(name, [])
        if len(codes) == len(others):
            yield from zip(codes, others, strict=True)
        elif others:
            yield from _by_line(name, codes, others, change, tree)


def _by_line(
    name: str, codes: list[CodeType], others: list[CodeType], change: FileChange, tree: ast.Module
) -> Iterator[CodePair]:
    # A tree that has the user's lines no longer tells where a function stands in the mended text.
    tree = tree if others[0].co_filename == virtual_path(change.path) else text.parse(change.mended)
    starts = sorted(text.first_line(node) for named, node in text.functions(tree) if named == name)
    if len(starts) != len(others):  # comprehensions, or a tree from which statements were dropped
        return
    places = user_lines(change.original, change.mended)
    kept = {places[at][0]: other for at, other in zip(starts, others, strict=True) if places[at][1]}
    yield from ((code, kept[code.co_firstlineno]) for code in codes if code.co_firstlineno in kept)


def _fitting(pairs: Iterable[CodePair], change: FileChange) -> Iterator[CodePair]:
    """The pairs that can stand in for each other. Raises SwapError when a changed function is not among
    them.
    """
    for old, new in pairs:
        reason = _misfit(old, new)
        if reason is None:
            yield old, new
        elif old.co_qualname in change.functions:
            raise SwapError(f"{old.co_qualname} ({change.path}:{old.co_firstlineno}) {reason}")


def _misfit(old: CodeType, new: CodeType) -> str | None:
    if old.co_freevars != new.co_freevars:
        more = set(new.co_freevars) - set(old.co_freevars)
        less = set(old.co_freevars) - set(new.co_freevars)
        words = (
            [f"uses {', '.join(sorted(more))} of the function around it, which it did not before"]
            if more
            else []
        )
        words += [f"has lost {', '.join(sorted(less))} of the function around it"] if less else []
        return " and ".join(words)
    if _signature(old) != _signature(new):
        return "takes other parameters than before"
    kinds = 0x20 | 0x80 | 0x100 | 0x200  # generator, coroutine, iterable coroutine, async generator
    if (old.co_flags ^ new.co_flags) & kinds:
        return "is no longer the same sort of function (generator, coroutine)"
    return None


def _signature(code: CodeType) -> tuple[object, ...]:
    starred = code.co_flags & 0x4, code.co_flags & 0x8  # *args, **kwargs
    count = code.co_argcount + code.co_kwonlyargcount + bool(starred[0]) + bool(starred[1])
    return (
        code.co_argcount,
        code.co_posonlyargcount,
        code.co_kwonlyargcount,
        starred,
        code.co_varnames[:count],
    )


# --- lines of the user ----------------------------------------------------------------------------


@lru_cache(maxsize=32)
def user_lines(original: str, current: str) -> tuple[tuple[int, bool], ...]:
    """For each line of the current text (index 0 is unused): the line of the original it stands for, and
    whether it is that line unchanged. Never decreasing."""
    before, after = text.lines(original), text.lines(current)
    head = 0
    while head < min(len(before), len(after)) and before[head] == after[head]:
        head += 1
    tail = 0
    while tail < min(len(before), len(after)) - head and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    places = [(0, False), *((line + 1, True) for line in range(head))]
    middle = before[head : len(before) - tail], after[head : len(after) - tail]
    for tag, i1, i2, j1, j2 in difflib.SequenceMatcher(None, *middle, autojunk=False).get_opcodes():
        last = max(i2 - 1, i1 - (i1 == i2), 0 if head == 0 else -head)
        for j in range(j1, j2):
            places.append((max(1, head + min(i1 + j - j1, last) + 1), tag == "equal"))
    places += [(len(before) - tail + line + 1, True) for line in range(tail)]
    return tuple(places)


def _use_lines_of(tree: ast.Module, change: FileChange) -> None:
    """Give every node the line of the user's text. A node on a changed line has no columns."""
    places = user_lines(change.original, change.mended)
    for node in ast.walk(tree):
        if isinstance(
            node, ast.expr | ast.stmt | ast.excepthandler | ast.arg | ast.keyword | ast.alias | ast.pattern
        ):
            end = node.lineno if node.end_lineno is None else node.end_lineno
            first, last = places[node.lineno], places[end]
            node.lineno, node.end_lineno = first[0], last[0]
            if not (first[1] and last[1]):
                node.col_offset = node.end_col_offset = -1


# --- captured names that are no longer read -------------------------------------------------------


def _with_references(tree: ast.Module, module: CodeType, missing: dict[CodeType, set[str]]) -> ast.Module:
    """The tree with a dead reference in each function that must go on capturing a name."""
    codes = [c for c in source.code_objects(module) if source.is_function(c)]
    nodes: dict[str, list[text.Function]] = defaultdict(list)
    for name, node in text.functions(tree):
        nodes[name].append(node)
    for name, found in nodes.items():
        named = [code for code in codes if code.co_qualname == name]
        for code, node in zip(named, found, strict=False):
            if lost := missing.get(code):
                _refer(node, sorted(lost))
    return ast.fix_missing_locations(tree)


def _refer(function: text.Function, names: list[str]) -> None:
    reads: list[ast.expr] = [ast.Name(name, ast.Load()) for name in names]
    if isinstance(function, ast.Lambda):
        function.body = ast.IfExp(ast.Constant(True), function.body, ast.Tuple(reads, ast.Load()))
        return
    at = 0
    while isinstance(function.body[at], ast.Global | ast.Nonlocal) or (
        at == 0 and ast.get_docstring(function, clean=False) is not None
    ):
        at += 1
    dead = ast.If(ast.Constant(False), [ast.Expr(ast.Tuple(reads, ast.Load()))], [])
    function.body.insert(at, ast.copy_location(dead, function.body[min(at, len(function.body) - 1)]))


# --- new top-level statements ---------------------------------------------------------------------


def _helpers(change: FileChange, tree: ast.Module, filename: str) -> tuple[Helper, ...]:
    """The top-level statements that the new text adds: those that bind names which the old text does not
    bind, and bare expressions about such names."""
    if change.mended == change.original:
        return ()
    known = {name for s in text.toplevel(text.parse(change.original)) for name in text.bound_names(s)}
    mended = text.parse(change.mended)
    added: set[str] = set()
    helpers = []
    for statement, compiled in zip(mended.body, tree.body, strict=True):
        bound = text.bound_names(statement)
        reads = text.names(statement) & added
        if bound - known or _acts_on(statement, reads):
            added |= bound - known
            code = compile(
                ast.Module([compiled], []), filename, "exec", dont_inherit=True, flags=_future(mended)
            )
            words = ast.unparse(statement)
            helpers.append(Helper(bound - known, frozenset(reads), words, code, _registers(statement)))
    return tuple(helpers)


def _acts_on(statement: ast.stmt, added: frozenset[str]) -> bool:
    """A statement that does something to new names: a bare call, or a definition handed to a decorator of theirs.

    A decorated class or function of the user that only uses them inside isn't executed again: it would be another.
    """
    decorators = getattr(statement, "decorator_list", [])
    return any(
        text.names(each) & added for each in [*decorators, *([statement] * isinstance(statement, ast.Expr))]
    )


def _future(tree: ast.Module) -> int:
    """The compiler flags of the module's ``from __future__`` imports."""
    import __future__

    flags = 0
    for statement in tree.body:
        if isinstance(statement, ast.ImportFrom) and statement.module == "__future__":
            for alias in statement.names:
                flags |= getattr(__future__, alias.name).compiler_flag
    return flags


def _registers(statement: ast.stmt) -> bool:
    """Plain definitions and imports can be executed again; anything else may register something with
    torch."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return bool(statement.decorator_list)
    return not isinstance(statement, ast.Import | ast.ImportFrom)
