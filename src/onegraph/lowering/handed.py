"""Python numbers that are put into a tensor and read back further down are handed along as they are.

A tensor made by ``torch.tensor(sizes)`` is iterated over, maybe in a function further down the call chain. It carries
the list that it was made of as an attribute. A tensor without it, from another caller, is iterated over as before.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from onegraph.lowering import pure_code
from onegraph.lowering.effect_scope import scope_of
from onegraph.lowering.refused import Refused
from onegraph.model import Candidate, Frame, Level
from onegraph.rewrite import text as text_
from onegraph.rewrite.request import Request

Def = ast.FunctionDef | ast.AsyncFunctionDef
_MAKERS = frozenset(("torch.tensor", "torch.as_tensor"))
_ATTRIBUTE = "python_numbers"
_NOTE = (
    "numbers take the place of integer tensors without dimensions: beside a tensor of another dtype, and beyond 2**24, "
    "results may be rounded otherwise"
)


def handed_along(request: Request, kind: str) -> Iterator[Candidate]:
    """The loop around the site over the numbers themselves, where they are known as Python numbers."""
    tree = text_.parse(request.text)
    statement = text_.statement_at(tree, request.site.span)
    function = scope_of(tree, statement).function if statement is not None else None
    if statement is None or function is None:
        return
    for use in _uses(statement, function):
        facts = request.facts.values(use)[0]
        if not facts or any(not f.is_tensor or f.dtype not in ("torch.int64", "torch.int32") for f in facts):
            continue
        try:
            chain = _chain(request, tree, function, use.id)
        except Refused:
            continue
        yield _candidate(request, tree, chain, use, kind)
        return


@dataclass(frozen=True, slots=True)
class _Chain:
    """``reader`` reads the numbers; ``made`` is the statement, in ``maker``, that makes the tensor of them."""

    reader: Def
    maker: Def
    made: ast.Assign


def _uses(statement: ast.stmt, function: Def) -> Iterator[ast.Name]:
    """The names that the loops around a statement run over."""
    for node in ast.walk(function):
        if isinstance(node, ast.For) and any(part is statement for part in ast.walk(node)):
            yield from (part for part in _iterated(node.iter))


def _iterated(node: ast.expr) -> Iterator[ast.Name]:
    if isinstance(node, ast.Name):
        yield node
    elif (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("enumerate", "zip")
    ):
        for argument in node.args:
            yield from _iterated(argument)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "tolist":
        yield from _iterated(node.func.value)


def _chain(request: Request, tree: ast.Module, function: Def, name: str) -> _Chain:
    """Where the numbers come from. Raises Refused."""
    longest = max((b.stack for b in request.site.breaks), key=len, default=())
    frames = [frame for frame in longest if text_.find_function(tree, frame.function, frame.span.line)]
    reader = function
    while True:
        made = _made(tree, function, name)
        if made is not None:
            return _Chain(reader, function, made)
        if name not in [a.arg for a in _parameters(function)] or _changed(function, name):
            raise Refused(f"`{name}` is made of more than a list.", "")
        caller, call = _call_of(tree, frames, function)
        argument = _argument(tree, call, function, name)
        if not isinstance(argument, ast.Name):
            raise Refused(f"`{name}` is computed at the call.", "")
        function, name = caller, argument.id


def _made(tree: ast.Module, function: Def, name: str) -> ast.Assign | None:
    """The statement that makes a tensor of the function from a list, where nothing writes into the tensor."""
    made = [n for n in ast.walk(function) if isinstance(n, ast.Assign) and name in _stored(n)]
    if len(made) != 1 or name in [a.arg for a in _parameters(function)]:
        return None
    call = made[0].value
    if not (isinstance(call, ast.Call) and call.args and isinstance(call.args[0], ast.Name)):
        return None
    head, _, rest = ast.unparse(call.func).partition(".")
    if f"{pure_code.imported(tree).get(head, head)}.{rest}" not in _MAKERS:
        return None
    stores = [n for n in ast.walk(function) if isinstance(n, ast.stmt) and name in _stored(n)]
    single = len(made[0].targets) == 1 and _is(made[0].targets[0], name)
    return None if _written(function, name) or stores != made or not single else made[0]


def _stored(node: ast.AST) -> set[str]:
    targets: Sequence[ast.expr] = ()
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.For | ast.AugAssign | ast.AnnAssign):
        targets = (node.target,)
    return {name for target in targets for name in pure_code.names_stored(target)}


def _written(function: Def, name: str) -> bool:
    return any(_is(pure_code.root_of(place), name) for place in pure_code.written_roots(function.body))


def _changed(function: Def, name: str) -> bool:
    stored = any(isinstance(n, ast.stmt) and name in _stored(n) for n in ast.walk(function))
    return stored or _written(function, name)


def _is(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _parameters(function: Def) -> list[ast.arg]:
    return [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]


def _call_of(tree: ast.Module, frames: Sequence[Frame], function: Def) -> tuple[Def, ast.Call]:
    """The call of a function that Dynamo saw, in the tree of the current text. Raises Refused."""
    at = [n for n, f in enumerate(frames) if text_.find_function(tree, f.function, f.span.line) is function]
    if not at or at[0] == 0:
        raise Refused(f"Nobody saw who calls `{function.name}`.", "")
    frame = frames[at[0] - 1]
    caller = text_.find_function(tree, frame.function, frame.span.line)
    seen = text_.path_at(text_.parse("".join(linecache.getlines(frame.span.file))), frame.span)
    call = next((node for node in reversed(seen) if isinstance(node, ast.Call)), None)
    if call is None or not isinstance(caller, Def):
        raise Refused(f"The call of `{function.name}` was not found.", "")
    code = ast.unparse(call.func)
    found = [n for n in ast.walk(caller) if isinstance(n, ast.Call) and ast.unparse(n.func) == code]
    if len(found) > 1:
        found = [n for n in found if ast.unparse(n) == ast.unparse(call)]
    if len(found) != 1:
        raise Refused(f"The call of `{function.name}` was not found.", "")
    return caller, found[0]


def _argument(tree: ast.Module, call: ast.Call, function: Def, name: str) -> ast.expr | None:
    """What a call passes for a parameter."""
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    in_class = any(isinstance(n, ast.ClassDef) and function in n.body for n in ast.walk(tree))
    static = any(ast.unparse(d) == "staticmethod" for d in function.decorator_list)
    names = [a.arg for a in (*function.args.posonlyargs, *function.args.args)][in_class and not static :]
    place = names.index(name) if name in names else len(call.args)
    if place < len(call.args) and not any(isinstance(a, ast.Starred) for a in call.args[: place + 1]):
        return call.args[place]
    return None


# --- text -------------------------------------------------------------------------------------------------


def _candidate(request: Request, tree: ast.Module, chain: _Chain, use: ast.Name, kind: str) -> Candidate:
    text = request.text
    assert isinstance(chain.made.value, ast.Call) and isinstance(chain.made.targets[0], ast.Name)
    tensor, source = chain.made.targets[0].id, ast.unparse(chain.made.value.args[0])
    keeps = f"{tensor}.{_ATTRIBUTE} = list({source})"
    place = _listed(tree, use)
    edits = [(*text_.position(place), f'getattr({use.id}, "{_ATTRIBUTE}", {text_.segment(text, place)})')]
    if keeps not in [ast.unparse(s) for s in ast.walk(chain.maker) if isinstance(s, ast.Assign)]:
        line = text_.position(chain.made)[2]
        indent = text_.indent_of(text, chain.made.lineno)
        edits.append((line + 1, 0, line + 1, 0, f"{indent}{keeps}\n"))
    qualified = {id(node): name for name, node in text_.functions(tree)}
    return Candidate(
        kind=kind,
        level=Level.RELAXED,
        title=f"the loop runs over the numbers of `{source}`, of which `{tensor}` is made",
        text=text_.replace_spans(text, edits),
        functions=tuple(dict.fromkeys(qualified[id(f)] for f in (chain.reader, chain.maker))),
        notes=(_NOTE,),
    )


def _listed(tree: ast.Module, use: ast.Name) -> ast.expr:
    """The use with the ``.tolist()`` behind it."""
    path = text_.path_at(tree, text_.span_of(use))
    match path[-3:]:
        case [ast.Call() as call, ast.Attribute(attr="tolist"), _]:
            return call
    return use
