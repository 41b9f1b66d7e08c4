"""An expression whose result has a size that values decide, written with ops that make that size a symbol of the graph.

``c.nonzero()``, ``x[mask]`` and their like become places, an op of its own, and an index by them: what torch does
itself, with the same gradients.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from onegraph.lowering import choice, sized_ops
from onegraph.model import Candidate, Level
from onegraph.rewrite import text as text_
from onegraph.rewrite.request import Fact, Request


def with_symbols(request: Request, kind: str) -> Iterator[Candidate]:
    """The expression at the site by such an op; nothing where there is none for it."""
    text = request.text
    path = text_.path_at(text_.parse(text), request.site.span)
    written = _Written(request, sized_ops.names_in(text))
    function = text_.find_function(text_.parse(text), request.site.function, request.site.span.line)
    edits = [(*text_.position(node), code) for node, code in _stored(written, function)]
    shown = "`x[mask] = values`"
    for node in (n for n in reversed(path) if isinstance(n, ast.expr)):
        code = written.of(node)
        if code is not None:
            shown = "`" + " ".join(text_.segment(text, node).split()) + "`"
            edits = [edit for edit in edits if edit[:4] != text_.position(node)]
            edits.append((*text_.position(node), code))
            break
    else:
        if not _in_a_backend(request):
            return
    if edits:
        changed = sized_ops.with_ops(text, edits, written.used)
        title = f"{shown} by an op whose size is a symbol of the graph"
        functions = (request.site.function,)
        yield Candidate(kind, Level.EXACT, title, changed, functions, sized_ops.NOTES, symbols=True)


def _in_a_backend(request: Request) -> bool:
    """Whether it is the compiler behind the graph that can't go on: it doesn't say where."""
    return any(each.gb_type.lower().startswith("backend") for each in request.site.breaks)


def _stored(written: _Written, function: ast.AST | None) -> Iterator[tuple[ast.expr, str]]:
    """``x[mask] = values`` of a function, where a value is given for each place: inductor has no backward pass for
    them."""
    for node in ast.walk(function) if function is not None else ():
        match node:
            case ast.Assign(targets=[ast.Subscript() as place], value=value) if written.is_each(value):
                code = written.of(place)
                if code is not None:
                    yield place, code


@dataclass(frozen=True, slots=True)
class _Call:
    """A call of torch: ``torch.f(tensor, ...)`` or ``tensor.f(...)``."""

    name: str
    tensor: ast.expr
    arguments: tuple[ast.expr, ...]
    keywords: Mapping[str, ast.expr]

    def given(self, at: int, keyword: str) -> ast.expr | None:
        """An argument behind the tensor, by place or by name."""
        return self.arguments[at] if at < len(self.arguments) else self.keywords.get(keyword)


class _Written:
    """Expressions as code with ops of ``sized_ops``; ``used`` are the ops."""

    def __init__(self, request: Request, names: Mapping[str, str]) -> None:
        self._request = request
        self._text = request.text
        self._names = names
        self._torch = text_.ensure_torch_import(request.text)[1]
        self.used: list[str] = []

    def of(self, node: ast.expr) -> str | None:
        if isinstance(node, ast.Subscript):
            return self._selected(node)
        call = self._call(node)
        rule = _RULES.get(call.name) if call is not None else None
        if call is None or rule is None or not self._tensors(call.tensor):
            return None
        return rule(self, call)

    def is_each(self, node: ast.expr) -> bool:
        """Whether an expression has several values, of a number that differs between calls, and takes gradients."""
        facts = self._tensors(node)
        return any(fact.requires_grad and (fact.shape or (1,))[0] != 1 for fact in facts)

    def _op(self, base: str, *arguments: str) -> str:
        self.used.append(base)
        return f"{self._names[base]}({', '.join(arguments)})"

    # --- places ---

    def _selected(self, node: ast.Subscript) -> str | None:
        """``x[mask]``, ``x[mask, 1:]``."""
        parts = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
        masks = [n for n, part in enumerate(parts) if self._is_mask(part)]
        if len(masks) != 1 or not self._tensors(node.value):
            return None
        (at,) = masks
        ranks = {len(fact.shape or ()) for fact in self._tensors(parts[at])}
        if ranks == {1}:
            index = f"{self._op('_places', self._code(parts[at]))}[0]"
        elif 0 in ranks:
            return None
        else:
            index = f"*{self._op('_places', self._code(parts[at]))}"
        codes = [index if n == at else self._code(part) for n, part in enumerate(parts)]
        return f"{self._owner(node.value)}[{', '.join(codes)}]"

    def _masked(self, call: _Call) -> str | None:
        mask = call.given(0, "mask")
        if mask is None or not self._is_mask(mask) or self._sizes(call.tensor) != self._sizes(mask):
            return None
        return f"{self._owner(call.tensor)}[*{self._op('_places', self._code(mask))}]"

    def _nonzero(self, call: _Call) -> str | None:
        tuple_ = call.keywords.get("as_tuple")
        if call.arguments or call.keywords.keys() - {"as_tuple"}:
            return None
        if tuple_ is not None and not isinstance(tuple_, ast.Constant):
            return None
        if any(not fact.shape for fact in self._tensors(call.tensor)):
            return None
        places = self._op("_places", self._code(call.tensor))
        return f"{places}.unbind()" if tuple_ is not None and tuple_.value else f"{places}.t()"

    def _where(self, call: _Call) -> str | None:
        if call.arguments or call.keywords or any(not fact.shape for fact in self._tensors(call.tensor)):
            return None
        return f"{self._op('_places', self._code(call.tensor))}.unbind()"

    # --- repeated, unique, counted ---

    def _repeated(self, call: _Call) -> str | None:
        repeats, dim = call.given(0, "repeats"), call.given(1, "dim")
        if "output_size" in call.keywords:
            return None
        if repeats is None:
            return None if call.keywords else self._op("_repeated", self._code(call.tensor))
        if not self._tensors(repeats):
            return None
        whole = self._owner(call.tensor)
        size = f"{whole}.numel()" if dim is None else f"{whole}.shape[{self._code(dim)}]"
        each = f"{self._owner(repeats)}.expand({size})"
        if dim is None:
            return f"{whole}.flatten().index_select(0, {self._op('_repeated', each)})"
        return f"{whole}.index_select({self._code(dim)}, {self._op('_repeated', each)})"

    def _unique(self, call: _Call) -> str | None:
        flags = {"return_inverse": 1, "return_counts": 2}
        consecutive = call.name == "unique_consecutive"
        if call.arguments or call.keywords.keys() - flags.keys() - (set() if consecutive else {"sorted"}):
            return None
        if any(not isinstance(value, ast.Constant) for value in call.keywords.values()):
            return None
        if any(fact.requires_grad for fact in self._tensors(call.tensor)):
            return None
        found = self._op("_unique", self._code(call.tensor), str(consecutive))
        wanted = [at for flag, at in flags.items() if getattr(call.keywords.get(flag), "value", False)]
        return found + {(): "[0]", (1,): "[:2]", (2,): "[::2]", (1, 2): ""}[tuple(wanted)]

    def _counts(self, call: _Call) -> str | None:
        least = call.given(1, "minlength")
        if call.given(0, "weights") is not None or call.keywords.keys() - {"minlength"}:
            return None
        return self._op("_counts", self._code(call.tensor), "0" if least is None else self._code(least))

    def _one_hot(self, call: _Call) -> str | None:
        number = call.given(0, "num_classes")
        if number is not None and not self._is_negative(number):
            return None
        return self._op("_one_hot", self._code(call.tensor))

    # --- small questions ---

    def _call(self, node: ast.expr) -> _Call | None:
        if not isinstance(node, ast.Call) or any(isinstance(a, ast.Starred) for a in node.args):
            return None
        keywords = {k.arg: k.value for k in node.keywords if k.arg is not None}
        if len(keywords) < len(node.keywords):
            return None
        arguments, name = list(node.args), choice.called(node)
        if isinstance(node.func, ast.Attribute) and self._tensors(node.func.value):
            arguments.insert(0, node.func.value)
        elif not self._is_torchs(node.func):
            return None
        if not arguments:
            return None
        return _Call(name, arguments[0], tuple(arguments[1:]), keywords)

    def _is_torchs(self, func: ast.expr) -> bool:
        """``torch.where``, ``F.one_hot``: a function of torch, not of the user's."""
        types = {fact.type for fact in self._request.facts.values(func)[0]}
        if isinstance(func, ast.Attribute):
            owner = ast.unparse(func.value)
            return owner in (self._torch, "F", f"{self._torch}.nn.functional")
        return isinstance(func, ast.Name) and bool(types) and all("torch" in each for each in types)

    def _tensors(self, node: ast.expr) -> tuple[Fact, ...]:
        """The facts of an expression that was a tensor on every call; none for any other."""
        (facts,) = self._request.facts.values(node)
        return facts if facts and all(fact.is_tensor for fact in facts) else ()

    def _is_mask(self, node: ast.expr) -> bool:
        facts = self._tensors(node)
        return bool(facts) and all(fact.dtype == "torch.bool" for fact in facts)

    def _sizes(self, node: ast.expr) -> tuple[tuple[int, ...] | None, ...]:
        return tuple(fact.shape for fact in self._tensors(node))

    def _is_negative(self, node: ast.expr) -> bool:
        return all(fact.value == "-1" for fact in self._request.facts.values(node)[0])

    def _code(self, node: ast.expr) -> str:
        return text_.segment(self._text, node)

    def _owner(self, node: ast.expr) -> str:
        """The code of an expression in front of a dot or bracket."""
        code = self._code(node)
        return code if isinstance(node, ast.Name | ast.Attribute | ast.Call | ast.Subscript) else f"({code})"


_RULES: Mapping[str, Callable[[_Written, _Call], str | None]] = {
    "nonzero": _Written._nonzero,
    "argwhere": _Written._nonzero,
    "where": _Written._where,
    "masked_select": _Written._masked,
    "repeat_interleave": _Written._repeated,
    "unique": _Written._unique,
    "unique_consecutive": _Written._unique,
    "bincount": _Written._counts,
    "one_hot": _Written._one_hot,
}
