"""Names that a reader would have chosen: for an op from what it says, for a parameter from what it holds."""

from __future__ import annotations

import ast
import builtins
import keyword
import re
from collections.abc import Container

LONGEST = 32  # characters of a generated name; longer ones are called by their role

_STOP = frozenset(
    (
        "a",
        "an",
        "the",
        "is",
        "are",
        "was",
        "were",
        "of",
        "for",
        "in",
        "on",
        "to",
        "and",
        "or",
        "with",
        "from",
        "by",
        "at",
        "be",
        "been",
        "but",
        "it",
        "its",
        "this",
        "that",
        "has",
        "have",
        "had",
        "you",
        "your",
        "we",
        "our",
        "will",
        "would",
        "should",
        "must",
        "can",
        "not",
        "no",
        "nor",
        "so",
        "as",
        "if",
        "when",
        "than",
        "then",
        "there",
        "here",
    )
)
_COMPARE = {
    ast.Gt: "above",
    ast.GtE: "at_least",
    ast.Lt: "below",
    ast.LtE: "at_most",
    ast.Eq: "equals",
    ast.NotEq: "differs_from",
}


def of_effect(verb: str, texts: list[str], function: str) -> str:
    """The name of an op: ``_log_rms`` from the text that it writes, else ``_log_in_forward``."""
    for text in texts:
        plain = re.sub(r"%[-#0 +]*[\d*.]*[a-zA-Z]|\{[^}]*\}|https?://\S+|\(.*?\)", " ", text)
        plain = re.split(r"[.;:!?]\s", plain.strip())[0]
        words = [w.lower() for w in re.findall(r"[A-Za-z][A-Za-z0-9_]*", plain)]
        words = [w.strip("_") for w in words if w not in _STOP and 1 < len(w.strip("_")) <= 20][:3]
        while words and len("_".join(words)) > LONGEST:
            words.pop()
        if words:
            return f"_{verb}_{'_'.join(words)}"
    plain = re.sub(r"\W", "", function, flags=re.ASCII).strip("_")  # names of ops are ASCII
    return f"_{verb}_in_{plain or 'function'}"


def of_value(node: ast.expr, local: Container[str]) -> str:
    """The name of a parameter that holds the value of an expression: ``x.max()`` is ``x_max``.

    ``local`` are the names of variables; what other names lead to is a module (``torch.isnan``).
    """
    words = re.sub(r"_+", "_", re.sub(r"\W", "_", _words(node, local) or "", flags=re.ASCII)).strip("_")
    unfit = not words.isidentifier() or keyword.iskeyword(words) or hasattr(builtins, words)
    if unfit or len(words) > LONGEST:
        return "flag" if isinstance(node, ast.Compare | ast.BoolOp | ast.UnaryOp) else "value"
    return words


def _words(node: ast.expr, local: Container[str]) -> str | None:
    match node:
        case ast.Name(id=name):
            return "" if name in ("self", "cls") else name
        case ast.Constant(value=int() | float() | str() as value):
            return str(value).replace("-", "minus_")
        case ast.Attribute(value=inner, attr=attribute):
            return attribute if _is_module(inner, local) else _joined(_words(inner, local) or "", attribute)
        case ast.Call(func=ast.Attribute(value=inner, attr="size"), args=[ast.Constant(value=int(dim))]):
            return _joined(_words(inner, local), f"size_{dim}")
        case ast.Call(func=function, args=arguments):
            called = _words(function, local)
            if not isinstance(function, ast.Attribute) or _is_module(function.value, local):
                return _joined(_words(arguments[0], local) if arguments else None, called)
            return called
        case ast.Subscript(
            value=ast.Attribute(value=inner, attr="shape"), slice=ast.Constant(value=int(dim))
        ):
            return _joined(_words(inner, local), f"size_{dim}")
        case ast.Subscript(value=inner, slice=index):
            return _joined(_words(inner, local), _words(index, local))
        case ast.Compare(left=left, ops=[operator], comparators=[right]) if type(operator) in _COMPARE:
            return _joined(_words(left, local), _COMPARE[type(operator)], _words(right, local))
        case ast.UnaryOp(op=ast.Not() | ast.Invert(), operand=inner):
            return _joined("not", _words(inner, local))
        case ast.Starred(value=inner) | ast.NamedExpr(target=inner):
            return _words(inner, local)
    return None


def _joined(*parts: str | None) -> str | None:
    return None if None in parts else "_".join(part for part in parts if part)


def _is_module(node: ast.expr, local: Container[str]) -> bool:
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name) and node.id not in local
