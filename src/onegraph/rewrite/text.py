"""Edits on source text that leave everything else byte for byte.

Lines count from 1, columns are UTF-8 byte offsets from 0, as in ``ast``. Trees from :func:`parse` are
shared and cached: read them, never change them.
"""

from __future__ import annotations

import ast
import builtins
import io
import re
import tokenize
from collections.abc import Iterable, Iterator
from functools import lru_cache

from onegraph.model import Span

WIDTH = 100  # columns; a longer generated call is written one argument a line

Edit = tuple[int, int, int, int, str]  # line, column, end line, end column, new text
Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z")
_COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")


@lru_cache(maxsize=64)
def parse(text: str) -> ast.Module:
    """The tree of a module text, cached and shared. Raises SyntaxError."""
    return ast.parse(text)


@lru_cache(maxsize=64)
def lines(text: str) -> tuple[str, ...]:
    """The lines with their endings, split where Python's own tokenizer splits (not at form feeds)."""
    return tuple(_LINE.findall(text))


@lru_cache(maxsize=64)
def _starts(text: str) -> tuple[int, ...]:
    starts = [0]
    for line in lines(text):
        starts.append(starts[-1] + len(line))
    return tuple(starts)


def newline(text: str) -> str:
    """The line ending that the text uses (that of its first line)."""
    found = re.search(r"\r\n|\r|\n", text)
    return found.group() if found else "\n"


def offset(text: str, line: int, column: int) -> int:
    """Index into ``text`` of a line and a UTF-8 byte column."""
    rows = lines(text)
    if line > len(rows):
        return len(text)
    row = rows[line - 1]
    return _starts(text)[line - 1] + (column if row.isascii() else len(row.encode()[:column].decode()))


def span_of(node: ast.AST, file: str = "") -> Span:
    """The span of an expression or statement (decorators not included, as in ``ast``)."""
    return Span(file, *position(node))


def position(node: ast.AST) -> tuple[int, int, int, int]:
    """``(line, column, end line, end column)`` of a node that has a place in the text."""
    assert isinstance(
        node, ast.expr | ast.stmt | ast.excepthandler | ast.arg | ast.keyword | ast.alias | ast.pattern
    )
    assert node.end_lineno is not None and node.end_col_offset is not None
    return node.lineno, node.col_offset, node.end_lineno, node.end_col_offset


def segment(text: str, node: ast.AST) -> str:
    """The source text of one node."""
    line, column, end_line, end_column = position(node)
    return text[offset(text, line, column) : offset(text, end_line, end_column)]


def replace_spans(text: str, edits: Iterable[Edit]) -> str:
    """The text with every span replaced. New text takes the line ending of the file.

    Raises ValueError when two spans overlap.
    """
    ending = newline(text)
    places = sorted(
        (offset(text, line, column), offset(text, end_line, end_column), new)
        for line, column, end_line, end_column, new in edits
    )
    parts, at = [], 0
    for start, end, new in places:
        if start < at or end < start:
            raise ValueError(f"edits overlap at character {start}")
        parts += [text[at:start], re.sub(r"\r\n|\r|\n", ending, new)]
        at = end
    return "".join([*parts, text[at:]])


def replace_lines(text: str, first: int, last: int, block: str) -> str:
    """The text with the whole lines ``first`` to ``last`` replaced by ``block`` (closed by a line
    ending)."""
    return replace_spans(text, [(first, 0, last + 1, 0, _closed(block))])


def _closed(block: str) -> str:
    return block if not block or block.endswith(("\n", "\r")) else block + "\n"


# --- where is a node? ----------------------------------------------------------------


def node_at(tree: ast.AST, span: Span) -> ast.expr | ast.stmt | None:
    """The innermost expression or statement that is the span exactly, else the innermost that holds it."""
    path = path_at(tree, span)
    return path[-1] if path else None


def statement_at(tree: ast.AST, span: Span) -> ast.stmt | None:
    """The innermost statement that holds the span."""
    return next((node for node in reversed(path_at(tree, span)) if isinstance(node, ast.stmt)), None)


def path_at(tree: ast.AST, span: Span) -> tuple[ast.expr | ast.stmt, ...]:
    """The expressions and statements that hold the span, outermost first."""
    start, end = (span.line, span.column), (span.end_line, span.end_column)
    path: list[ast.expr | ast.stmt] = []
    node: ast.AST | None = tree
    while node is not None:
        if isinstance(node, ast.expr | ast.stmt):
            path.append(node)
        node = next((child for child in ast.iter_child_nodes(node) if _holds(child, start, end)), None)
    return tuple(path)


def _holds(node: ast.AST, start: tuple[int, int], end: tuple[int, int]) -> bool:
    if getattr(node, "end_lineno", None) is None:  # arguments, comprehension, withitem
        return any(_holds(child, start, end) for child in ast.iter_child_nodes(node))
    line, column, end_line, end_column = position(node)
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    first = min([(line, column), *((d.lineno, d.col_offset) for d in decorators)])
    return first <= start and end <= (end_line, end_column)


@lru_cache(maxsize=32)
def functions(tree: ast.Module) -> tuple[tuple[str, Function], ...]:
    """Every function and lambda with its qualified name, in source order."""
    return tuple(_functions(tree, ""))


def _functions(node: ast.AST, prefix: str) -> Iterator[tuple[str, Function]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            outside = [
                *child.decorator_list,
                *([child.args] if not isinstance(child, ast.ClassDef) else child.bases),
            ]
            for part in outside:  # decorators and defaults run in the scope around
                yield from _functions(ast.Expression(part), prefix)
            inner = f"{prefix}{child.name}."
            if not isinstance(child, ast.ClassDef):
                yield prefix + child.name, child
                inner += "<locals>."
            yield from _functions(ast.Module(child.body, []), inner)
        elif isinstance(child, ast.Lambda):
            yield from _functions(child.args, prefix)
            yield f"{prefix}<lambda>", child
            yield from _functions(ast.Expression(child.body), f"{prefix}<lambda>.<locals>.")
        else:
            yield from _functions(child, prefix)


def first_line(function: ast.AST) -> int:
    """The first line of a statement, decorators included; what ``code.co_firstlineno`` of a function is."""
    decorators: list[ast.expr] = getattr(function, "decorator_list", [])
    return min([position(function)[0], *(d.lineno for d in decorators)])


def find_function(tree: ast.Module, qualname: str, line: int) -> Function | None:
    """The function of that qualified name that holds the line; else the nearest of that name. A
    comprehension counts as the function around it. None when there is no function of the name."""
    while qualname.rpartition(".")[2] in _COMPREHENSIONS:
        qualname = qualname.rpartition(".")[0].removesuffix(".<locals>")
    named = [node for name, node in functions(tree) if name == qualname]

    def distance(node: Function) -> tuple[int, int]:
        start, end = first_line(node), position(node)[2]
        return (0 if start <= line <= end else min(abs(start - line), abs(end - line))), end - start

    return min(named, key=distance, default=None)


# --- names ---------------------------------------------------------------------------


@lru_cache(maxsize=32)
def names(tree: ast.AST) -> frozenset[str]:
    """Every identifier that the tree reads, binds, declares or imports (attributes not counted)."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Global | ast.Nonlocal):
            found.update(node.names)
        elif isinstance(node, ast.alias):
            found.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            found.add(node.name)
        elif isinstance(node, ast.MatchMapping) and node.rest:
            found.add(node.rest)
    return frozenset(found)


def unused_name(tree: ast.AST, base: str, taken: Iterable[str] = ()) -> str:
    """``base``, or ``base_2``, ``base_3``, ...: the first that is free in tree, ``taken`` and builtins."""
    used = names(tree) | frozenset(taken) | frozenset(dir(builtins))
    if base not in used:
        return base
    count = 2
    while f"{base}_{count}" in used:
        count += 1
    return f"{base}_{count}"


# --- blocks of lines -----------------------------------------------------------------


def indent_of(text: str, line: int) -> str:
    """The white space before the first character of a line."""
    row = lines(text)[line - 1]
    return row[: len(row) - len(row.lstrip(" \t\f"))]


def indent_unit(text: str) -> str:
    """One step of indentation as the file writes it; four spaces where it has none."""
    for _, function in functions(parse(text)):
        if not isinstance(function, ast.Lambda) and function.body[0].lineno > function.lineno:
            outer, inner = indent_of(text, function.lineno), indent_of(text, function.body[0].lineno)
            if inner.startswith(outer) and len(inner) > len(outer):
                return inner[len(outer) :]
    return "    "


def block_of(text: str, first: ast.stmt, last: ast.stmt) -> str:
    """The whole lines from one statement to another, comments between and behind them included."""
    return "".join(lines(text)[first_line(first) - 1 : position(last)[2]])


def reindent(block: str, indent: str) -> str:
    """A block of whole lines moved to another indentation. Comments move along; the inside of a multi-line
    string stays as it is; a continuation line keeps its distance to the first line."""
    rows = lines(block)
    old = next((row[: len(row) - len(row.lstrip(" \t\f"))] for row in rows if row.strip()), "")
    inside = _string_lines(block)
    moved = []
    for number, row in enumerate(rows, 1):
        if number in inside or not row.strip():
            moved.append(row)
        elif row.startswith(old):
            moved.append(indent + row[len(old) :])
        else:
            moved.append(indent + row.lstrip(" \t\f"))
    return "".join(moved)


def _string_lines(block: str) -> set[int]:
    """Lines of the block that begin inside a string."""
    inside: set[int] = set()
    starts: list[int] = []
    start_types = {getattr(tokenize, name, None) for name in ("FSTRING_START", "TSTRING_START")} - {None}
    end_types = {getattr(tokenize, name, None) for name in ("FSTRING_END", "TSTRING_END")} - {None}
    first = next((row for row in lines(block) if row.strip()), "")
    shield = "if 1:\n" if first[:1] in " \t" else ""  # an indented block tokenizes only inside another one
    shift = 1 if shield else 0
    try:
        source = io.StringIO(shield + re.sub(r"\r\n|\r", "\n", block))
        for token in tokenize.generate_tokens(source.readline):
            if token.type in start_types:
                starts.append(token.start[0])
            elif token.type in end_types:
                inside.update(range(starts.pop() + 1 - shift, token.end[0] + 1 - shift))
            elif token.type == tokenize.STRING:
                inside.update(range(token.start[0] + 1 - shift, token.end[0] + 1 - shift))
    except (tokenize.TokenError, IndentationError) as error:
        raise ValueError(f"not a block of whole statements: {error}") from error
    return inside


def wrap_call(code: str, limit: int = WIDTH) -> str:
    """One statement on one line; when it is too long, its outermost call is written one argument a line."""
    if len(code.rstrip("\r\n")) <= limit:
        return code
    indent = code[: len(code) - len(code.lstrip(" \t"))]
    body = code[len(indent) :].rstrip("\r\n")
    try:
        statement = ast.parse(f"def _():\n {body}").body[0]
    except SyntaxError:
        return code
    assert isinstance(statement, ast.FunctionDef)
    source = f"def _():\n {body}"
    call = next(
        (n for n in _breadth(statement.body[0]) if isinstance(n, ast.Call) and (n.args or n.keywords)), None
    )
    if call is None:
        return code
    arguments = sorted([*call.args, *call.keywords], key=position)
    open_at = offset(source, *position(call.func)[2:])
    open_at += source[open_at:].index("(") + 1
    close_at = offset(source, *position(call)[2:]) - 1
    trailing = "" if len(arguments) == 1 and isinstance(arguments[0], ast.GeneratorExp) else ","
    start = len("def _():\n ")
    rows = [indent + source[start:open_at]]
    rows += [f"{indent}    {segment(source, argument)}{trailing}" for argument in arguments]
    rows.append(indent + source[close_at:])
    return "\n".join(rows) + code[len(code.rstrip("\r\n")) :]


def _breadth(node: ast.AST) -> Iterator[ast.AST]:
    """Nodes level by level, not into functions."""
    level = [node]
    while level:
        yield from level
        level = [c for n in level if not isinstance(n, ast.Lambda) for c in ast.iter_child_nodes(n)]


# --- new top-level definitions -------------------------------------------------------


def insert_before_toplevel(text: str, line: int, block: str) -> str:
    """The text with a top-level block before the top-level statement that holds ``line`` (above its
    decorators and the comment lines that stand directly on it), with two blank lines around it."""
    statement = next((s for s in parse(text).body if first_line(s) <= line <= position(s)[2]), None)
    if statement is None:
        raise ValueError(f"no top-level statement at line {line}")
    at = first_line(statement)
    rows = lines(text)
    while at > 1 and rows[at - 2].startswith("#") and at - 1 > _preamble_end(text):
        at -= 1
    blank = 0
    while blank < at - 1 and not rows[at - 2 - blank].strip():
        blank += 1
    before = "" if blank == at - 1 else "\n" * max(0, 2 - blank)
    return replace_spans(text, [(at, 0, at, 0, before + block.strip("\r\n") + "\n\n\n")])


def insert_after_imports(text: str, block: str) -> str:
    """The text with a top-level block, set off by two blank lines, after the imports at its head."""
    rows = lines(text)
    at = _head(text)
    blank = 0
    while at + blank < len(rows) and not rows[at + blank].strip():
        blank += 1
    rest = at + blank < len(rows)
    before = "" if at == 0 else "\n\n" if rows[at - 1].endswith(("\n", "\r")) else "\n\n\n"
    new = before + block.strip("\r\n") + "\n" + ("\n\n" if rest else "")
    return replace_spans(text, [(at + 1, 0, at + blank + 1, 0, new)])


def _preamble_end(text: str) -> int:
    """Last line of shebang and encoding comment."""
    count = 0
    for row in lines(text)[:2]:
        if row.startswith("#!") or re.match(r"[ \t\f]*#.*?coding[:=]", row):
            count += 1
    return count


def _head(text: str) -> int:
    """The last line of the head of the file: shebang, docstring, imports (also in ``if``, ``try``)."""
    end = _preamble_end(text)
    body = parse(text).body
    for number, statement in enumerate(body):
        docstring = number == 0 and ast.get_docstring(parse(text), clean=False) is not None
        if docstring or isinstance(statement, ast.Import | ast.ImportFrom):
            end = position(statement)[2]
        elif isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            break
        elif isinstance(statement, ast.If | ast.Try) and _only_imports(statement):
            end = position(statement)[2]
    return end


def _only_imports(statement: ast.If | ast.Try) -> bool:
    inner = [s for s in ast.walk(statement) if isinstance(s, ast.stmt) and s is not statement]
    allowed = ast.Import | ast.ImportFrom | ast.Assign | ast.Pass | ast.If | ast.Try
    return any(isinstance(s, ast.Import | ast.ImportFrom) for s in inner) and all(
        isinstance(s, allowed) for s in inner
    )


def ensure_torch_import(text: str) -> tuple[str, str]:
    """The text with ``torch`` imported at top level, and its name there (``torch``, ``th``, ...)."""
    tree = parse(text)
    for statement in toplevel(tree):
        if isinstance(statement, ast.Import):
            for alias in statement.names:
                if alias.name == "torch":
                    return text, alias.asname or "torch"
                if alias.name.startswith("torch.") and alias.asname is None:
                    return text, "torch"
    taken = "torch" in {name for s in toplevel(tree) for name in bound_names(s)}
    name = unused_name(tree, "_torch") if taken else "torch"
    return _insert_import(text, "import torch" if name == "torch" else f"import torch as {name}"), name


def ensure_import(text: str, module: str) -> str:
    """The text with a module imported at top level under its own name. Raises ValueError where that is taken."""
    tree = parse(text)
    for statement in toplevel(tree):
        if isinstance(statement, ast.Import) and any(
            a.name == module and not a.asname for a in statement.names
        ):
            return text
    bound = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
    bound |= {n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)}
    bound |= {name for statement in toplevel(tree) for name in bound_names(statement)}
    if module in bound:
        raise ValueError(f"`{module}` is another thing in this file")
    return _insert_import(text, f"import {module}")


def _insert_import(text: str, line: str) -> str:
    """Behind the docstring and ``__future__`` imports, before the first other import."""
    tree = parse(text)
    end, rest = _preamble_end(text), list(tree.body)
    if ast.get_docstring(tree, clean=False) is not None:
        end = position(rest.pop(0))[2]
    while rest and isinstance(rest[0], ast.ImportFrom) and rest[0].module == "__future__":
        end = position(rest.pop(0))[2]
    if rest and isinstance(rest[0], ast.Import | ast.ImportFrom):
        at = rest[0].lineno
        return replace_spans(text, [(at, rest[0].col_offset, at, rest[0].col_offset, line + "\n")])
    rows = lines(text)
    before = ("" if rows[end - 1].endswith(("\n", "\r")) else "\n") + "\n" if end else ""
    after = "\n" if end < len(rows) and rows[end].strip() else ""
    return replace_spans(text, [(end + 1, 0, end + 1, 0, f"{before}{line}\n{after}")])


def toplevel(tree: ast.Module) -> Iterator[ast.stmt]:
    """The statements that run when the module is imported, also those in ``if`` and ``try``, except under
    ``TYPE_CHECKING``."""
    yield from _running(tree.body)


def _running(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        yield statement
        if isinstance(statement, ast.If):
            if "TYPE_CHECKING" not in ast.unparse(statement.test):
                yield from _running(statement.body)
            yield from _running(statement.orelse)
        elif isinstance(statement, ast.Try):
            yield from _running(statement.body)
            for handler in statement.handlers:
                yield from _running(handler.body)
            yield from _running([*statement.orelse, *statement.finalbody])
        elif isinstance(statement, ast.With | ast.For | ast.While):
            yield from _running(statement.body)


def bound_names(statement: ast.stmt) -> frozenset[str]:
    """The names that one statement itself binds in its scope (not what statements inside it bind)."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return frozenset({statement.name})
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return frozenset((alias.asname or alias.name).partition(".")[0] for alias in statement.names)
    if isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.For | ast.With):
        return frozenset(n.id for n in _stores(statement))
    return frozenset()


def _stores(statement: ast.stmt) -> Iterator[ast.Name]:
    for child in ast.iter_child_nodes(statement):
        if not isinstance(child, ast.stmt):
            yield from (
                n for n in ast.walk(child) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
            )
