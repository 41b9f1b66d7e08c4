"""Make a failing program smaller while it still fails in the same way."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from fuzzing.grammar import Generated
from fuzzing.tried import Outcome, tried

MOST = 120  # programs that are tried


def shrunk(program: Generated, outcome: Outcome, folder: Path, backends: tuple[str, ...]) -> str:
    """The smallest text found that gets the same verdict."""
    tries = 0

    def fails(text: str) -> bool:
        nonlocal tries
        tries += 1
        try:
            again = tried(replace(program, text=text), folder, backends)
        except TimeoutError:
            raise
        except Exception:  # noqa: BLE001 (a smaller program that makes the tool fail is another fault)
            return False
        return again.verdict == outcome.verdict and _sort(again.reason) == _sort(outcome.reason)

    return smallest(program.text, fails, lambda: tries < MOST)


def _sort(reason: str) -> str:
    return reason.partition(":")[0]


def smallest(text: str, fails: Callable[[str], bool], more: Callable[[], bool]) -> str:
    """Greedy: each simpler text that still fails takes the place of the last one."""
    progress = True
    while progress and more():
        progress = False
        for simpler in _simpler(text):
            if not more():
                break
            if len(simpler) < len(text) and fails(simpler):
                text, progress = simpler, True
                break
    return text


def _simpler(text: str) -> Iterator[str]:
    """Texts with one statement less, one block in place of its statement, or one expression made smaller."""
    tree = ast.parse(text)
    head = text[: text.index("class Net") if "class Net" in text else text.index("def f(")]
    root = next(
        n for n in tree.body if isinstance(n, ast.ClassDef | ast.FunctionDef) and n.name in ("Net", "f")
    )
    at = tree.body.index(root)

    def written(changed: ast.stmt) -> str:
        return (
            head
            + "\n\n".join(ast.unparse(ast.fix_missing_locations(n)) for n in [changed, *tree.body[at + 1 :]])
            + "\n"
        )

    count = sum(1 for _ in ast.walk(root))
    for number in range(count):
        for change in (_without, _unwrapped, _smaller):
            changed = copy.deepcopy(root)
            node = list(ast.walk(changed))[number]
            for _ in range(change(changed, node, dry=True)):
                again = copy.deepcopy(root)
                target = list(ast.walk(again))[number]
                if change(again, target, dry=False, which=_):
                    yield written(again)


def _blocks(root: ast.AST) -> Iterator[list[ast.stmt]]:
    for node in ast.walk(root):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
                yield block


def _without(root: ast.AST, node: ast.AST, *, dry: bool, which: int = 0) -> int:
    """Delete a statement."""
    if not isinstance(node, ast.stmt) or isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Pass):
        return 0
    if not dry:
        for block in _blocks(root):
            if any(each is node for each in block):
                block[:] = [each for each in block if each is not node] or [ast.Pass()]
                return 1
        return 0
    return 1


def _unwrapped(root: ast.AST, node: ast.AST, *, dry: bool, which: int = 0) -> int:
    """The block of a statement in its place."""
    if not isinstance(node, ast.If | ast.For | ast.With):
        return 0
    inner = [node.body, *([node.orelse] if getattr(node, "orelse", None) else [])]
    if not dry:
        for block in _blocks(root):
            if any(each is node for each in block):
                i = next(i for i, each in enumerate(block) if each is node)
                block[i : i + 1] = inner[which]
                return 1
        return 0
    return len(inner)


def _smaller(root: ast.AST, node: ast.AST, *, dry: bool, which: int = 0) -> int:
    """An operand or argument in place of the expression."""
    if not isinstance(node, ast.BinOp | ast.Call | ast.UnaryOp | ast.BoolOp | ast.IfExp | ast.Subscript):
        return 0
    if isinstance(node, ast.Call):
        receiver = [node.func.value] if isinstance(node.func, ast.Attribute) else []
        parts = [
            p for p in (*receiver, *node.args) if not (isinstance(p, ast.Name) and p.id in ("torch", "F"))
        ]
    elif isinstance(node, ast.BinOp):
        parts = [node.left, node.right]
    elif isinstance(node, ast.UnaryOp):
        parts = [node.operand]
    elif isinstance(node, ast.BoolOp):
        parts = list(node.values)
    elif isinstance(node, ast.IfExp):
        parts = [node.body, node.orelse]
    else:
        parts = [node.value]
    parts = [part for part in parts if not isinstance(part, ast.Constant | ast.Starred)]
    if not dry and which < len(parts):
        for parent in ast.walk(root):
            for name, value in ast.iter_fields(parent):
                if value is node:
                    setattr(parent, name, parts[which])
                    return 1
                if isinstance(value, list) and any(v is node for v in value):
                    value[:] = [parts[which] if v is node else v for v in value]
                    return 1
        return 0
    return len(parts)
