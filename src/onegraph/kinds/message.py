"""A message of the compiler that somebody pasted: which kind it is, where it points, what to write there instead.

Needs no torch and no program: the text is all there is.
"""

from __future__ import annotations

import ast
import re
import textwrap
from dataclasses import dataclass

from onegraph.kinds import families, gb_table
from onegraph.kinds.families import Family
from onegraph.tracebacks import frames


@dataclass(frozen=True, slots=True)
class Advice:
    """What a message says. ``place`` is "file:line", ``code`` the line there; both "" where the message has none."""

    name: str  # of the cause, in torch's words
    gb_id: str
    family: Family
    meaning: str
    next_step: str
    place: str = ""
    code: str = ""


_GUARD = re.compile(
    r"Could not (?:guard on|extract specialized (?:integer|float|bool) from) data-dependent expression (.+?)"
    r"(?: \(unhinted: .*\))?\.?\s*$",
    re.MULTILINE,
)
_GB_LINK = re.compile(r"\bgb(\d{4})\b", re.IGNORECASE)
_WRAPPERS = re.compile(
    r"^(?:[\w.]+\.)*(?:Unsupported|UserError|RuntimeError|[A-Z]\w+(?:Error|Exception|SymNode)): "
)
_LIBRARY = re.compile(r"[/\\]torch[/\\](?:_dynamo|_subclasses|fx|_functorch|_ops|nn[/\\]modules[/\\]module)")


def is_message(text: str) -> bool:
    """Whether a text is a pasted message: more than one word."""
    return len(text.split()) > 2 or "\n" in text


def read(text: str, gb_types: dict[str, str]) -> Advice | None:
    """What a message means; None where it is none of the compiler's. ``gb_types``: torch's ids and their names."""
    own = [frame for frame in frames(text) if not _LIBRARY.search(frame.file)]
    place, code = (own[-1].place, own[-1].code) if own else ("", "")
    if guard := _GUARD.search(text):
        return _of_guard(guard[0], guard[1].strip(), place, code)
    gb_id, name = _named(text, gb_types)
    family = families.of(name) if name else gb_table.family_of(gb_id) if gb_id else None
    if family is None:
        return None
    step = _instead(code, family.name) or family.next_step
    return Advice(name or gb_id, gb_id, family, family.meaning, step, place, code)


def _named(text: str, gb_types: dict[str, str]) -> tuple[str, str]:
    """The id and the name of the cause."""
    link = _GB_LINK.search(text)
    if link and f"GB{link[1]}" in gb_types:
        return f"GB{link[1]}", gb_types[f"GB{link[1]}"]
    lines = [_WRAPPERS.sub("", line.strip()) for line in text.strip().splitlines()]
    lines = [re.sub(r"^(?:Reason|Explanation|Graph break[^:]*): ", "", line) for line in lines]
    for line in lines:
        known = [(len(n), i, n) for i, n in gb_types.items() if n and line.lower().startswith(n.lower())]
        if known:
            return max(known)[1:]
    for line in lines:
        if line and families.of(line).pattern:
            return (f"GB{link[1]}" if link else ""), line
    return (f"GB{link[1]}" if link else ""), ""


def _of_guard(message: str, expression: str, place: str, code: str) -> Advice:
    """Python asks a size or a number that only the data gives."""
    size = re.fullmatch(r"Eq\((u\d+), ([01])\)", expression)
    asks = f"whether it is {size[2]}" if size else f"`{expression}`"
    meaning = f"The graph holds a number or a size that only the data gives, and Python asks {asks}."
    return Advice(
        message.split(" expression")[0],
        "",
        families.named("dynamic_shape"),
        meaning,
        _guarded(code),
        place,
        code,
    )


def _guarded(code: str) -> str:
    node = _statement(code)
    if isinstance(node, ast.If | ast.While) or _has(node, ast.IfExp):
        return (
            "Test a tensor in place of the size or number (mask.any() for x[mask].numel() > 0, n_tensor > 3 for "
            "n > 3): `onegraph fix` mends branches on tensors. Only where the outcome is always the same, say so "
            "with torch._check(...) in front."
        )
    return (
        "Say in front what is always true, with torch._check(n >= 0) and torch._check(n <= limit); or keep the size "
        "fixed and use a mask (torch.where)."
    )


def _instead(code: str, family: str) -> str:
    """What to write in place of a line; "" where its form says nothing."""
    node = _statement(code)
    if node is None or family not in ("scalar_out_of_tensor", "dynamic_shape", "tensor_as_index"):
        return ""
    if isinstance(node, ast.If | ast.While | ast.Assert):
        return "Test the tensor itself, without .item(): `onegraph fix` mends branches and assertions on tensors."
    if isinstance(node, ast.For):
        return "Loop a fixed number of times, and mask what is too much."
    if any(isinstance(n, ast.Subscript) and _takes_number(n.slice) for n in ast.walk(node)):
        if any(isinstance(n, ast.Slice) and _takes_number(n) for n in ast.walk(node)):
            return (
                "Keep the whole tensor and mask it: torch.where(torch.arange(len(x)) < n, x, 0). " + _CAPTURE
            )
        return "Index with the tensor: x[i.view(1)].squeeze(0). `onegraph fix` does it."
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and _takes_number(node.value):
        return (
            "Leave .item() out where the number only goes into tensor arithmetic or an index: `onegraph fix` follows "
            f"it and does that. As a size: {_CAPTURE}"
        )
    return ""


_CAPTURE = (
    "compile with fullgraph=True, or set torch._dynamo.config.capture_scalar_outputs = True (sizes of results: "
    "capture_dynamic_output_shape_ops)."
)


def _takes_number(node: ast.AST) -> bool:
    return any(
        (isinstance(n, ast.Attribute) and n.attr in ("item", "tolist"))
        or (
            isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id in ("int", "float", "bool")
        )
        for n in ast.walk(node)
    )


def _has(node: ast.AST | None, what: type[ast.AST]) -> bool:
    return node is not None and any(isinstance(n, what) for n in ast.walk(node))


def _statement(code: str) -> ast.stmt | None:
    """The statement that a line is, or begins."""
    code = textwrap.dedent(code).strip()
    if not code:
        return None
    for form in (code, f"{code}\n    pass", f"if True:\n    pass\n{code}\n    pass"):
        try:
            return ast.parse(form).body[-1]
        except SyntaxError:
            continue
    return None
