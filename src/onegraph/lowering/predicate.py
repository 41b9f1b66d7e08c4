"""The test of a branch, split into what Python decides and what a tensor decides."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from onegraph.lowering import builtin_helpers, choice, ops
from onegraph.lowering.refused import Refused
from onegraph.lowering.source import Source, operand
from onegraph.rewrite.request import Fact, Facts

Force = Mapping[ast.expr, bool]


@dataclass(frozen=True)
class Test:
    """``python op tensor``: ``python`` are the operands that Python decides, in front of the tensor
    condition.

    ``when_true`` and ``when_false`` are forced outcomes of tensor conditions that lead to the one side or
    the other.
    """

    python: tuple[str, ...]
    is_or: bool
    tensor: str
    sure: str  # the same, and a tensor whatever Python values another caller passes
    negated: bool  # the branch is taken where ``tensor`` is false
    proven: bool  # a tensor on every call, by the text alone
    compared: bool  # a comparison, at least: a bool or a tensor of bools
    shape: tuple[int, ...]
    dtype: str
    boolean: bool  # of dtype bool on every call, by the text alone
    leaves: tuple[ast.expr, ...]
    before: tuple[str, ...]  # the conditions in the text before the repair that ``tensor`` stands for
    when_true: Force
    when_false: Force

    @property
    def selectable(self) -> bool:
        """Whether ``torch.where`` can take it: what may be None or a list on another call is for ``_cond`` alone."""
        return not self.python and (self.proven or self.compared)

    def branch_code(self) -> str:
        """The predicate for ``_cond``: right for Python values too."""
        word = " or " if self.is_or else " and "
        return word.join(
            [*self.python, operand_of_boolop(self.tensor, self.is_or) if self.python else self.tensor]
        )

    def python_code(self) -> str:
        """The test of a Python ``if`` around the tensor branch."""
        return " and ".join(self.python)

    def select_code(self, torch: str) -> str:
        """The predicate for ``torch.where``: one value, bool, whatever the type on other calls."""
        if not self.proven:
            return self.sure if self.dtype == "torch.bool" and self.shape == () else _flag(self.sure)
        code = self.tensor
        if self.shape != ():
            code = f"{operand(code)}.reshape(())"
        if self.boolean:
            return code
        # Bool on the recorded calls: `any()` of another caller's uint8 mask is uint8.
        return f"{operand(code)}.bool()" if self.dtype == "torch.bool" else f"{operand(code, of='<')} != 0"


def _flag(code: str) -> str:
    """One truth value of a tensor of one element."""
    return f"{operand(code)}.reshape(()).bool()"


def operand_of_boolop(code: str, is_or: bool) -> str:
    node = ast.parse(code.strip(), mode="eval").body
    loose = isinstance(node, ast.IfExp | ast.Lambda | ast.NamedExpr)
    return f"({code})" if loose or (isinstance(node, ast.BoolOp) and not is_or) else code


@dataclass(frozen=True)
class Forced:
    """Facts of one side of a branch: where nothing was measured naturally, measured with the side forced."""

    facts: Facts
    force: Force

    def values(
        self, *nodes: ast.expr, force: Mapping[ast.expr, bool] | None = None
    ) -> tuple[tuple[Fact, ...], ...]:
        """See ``Facts.values``."""
        natural = self.facts.values(*nodes, force=force)
        return natural if all(natural) else self.facts.values(*nodes, force=force or self.force)

    def names(
        self,
        at: ast.stmt,
        names: Iterable[str],
        *,
        after: bool = False,
        force: Mapping[ast.expr, bool] | None = None,
    ) -> Mapping[str, tuple[Fact, ...]]:
        """See ``Facts.names``."""
        wanted = list(names)
        natural = self.facts.names(at, wanted, after=after, force=force)
        if any(natural.values()):
            return natural
        return self.facts.names(at, wanted, after=after, force=force or self.force)


def tensor_facts(facts: Facts, node: ast.expr, force: Force) -> tuple[Fact, ...]:
    """The facts of an expression where it was a tensor."""
    return tuple(fact for fact in facts.values(node, force=force or None)[0] if fact.is_tensor)


def is_tensor_test(facts: Facts, test: ast.expr, force: Force) -> bool:
    """Whether a tensor decides the test, or an operand of it."""
    if isinstance(test, ast.BoolOp):
        return any(tensor for _, tensor in operands(facts, test, force))
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return is_tensor_test(facts, test.operand, force)
    if not facts.values(test, force=force or None)[0]:  # not reached on any recorded call
        return _proven(test, frozenset(), "torch")
    return bool(tensor_facts(facts, test, force))


def operands(facts: Facts, test: ast.BoolOp, force: Force) -> list[tuple[ast.expr, bool]]:
    """The operands of ``and``/``or``, and whether each is a tensor. The later ones are measured with the
    earlier
    ones forced to let them be evaluated."""
    going_on = isinstance(test.op, ast.And)
    found = []
    for value in test.values:
        tensor = is_tensor_test(facts, value, force)
        found.append((value, tensor))
        if tensor and not isinstance(value, ast.BoolOp):
            leaf, outcome = value, going_on
            while isinstance(leaf, ast.UnaryOp) and isinstance(leaf.op, ast.Not):
                leaf, outcome = leaf.operand, not outcome
            force = {**force, leaf: outcome}
    return found


class Tests:
    """Splits tests of one function."""

    def __init__(
        self, source: Source, facts: Facts, function: ast.AST | None, torch: str, cond: str = "_cond"
    ) -> None:
        self.source, self.facts, self.torch, self.cond = source, facts, torch, cond
        self.function = function
        self.truths = frozenset(builtin_helpers.helper_name(source.text, each) for each in ("any", "all"))
        self.proven_names = _proven_names(function, torch) if function is not None else frozenset()
        self.boolean_names = (
            _boolean_names(function, self.proven_names) if function is not None else frozenset()
        )

    def split(self, test: ast.expr, force: Force) -> Test:
        """Raises Refused where no order of evaluation is right."""
        negated = False
        while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            negated, test = not negated, test.operand
        if isinstance(test, ast.BoolOp):
            found = operands(self.facts, test, force)
            python = [value for value, tensor in found if not tensor]
            tensors = [value for value, tensor in found if tensor]
            is_or = isinstance(test.op, ast.Or)
            if python and (negated or not tensors):
                return _test(self._mixed(test, force), (), False, negated, (ast.unparse(test),))
            self._check_order(test, found)
            joined = self._joined(tensors, is_or, force)
            before = tuple(ast.unparse(value) for value in tensors) if python else (ast.unparse(test),)
            codes = tuple(operand_of_boolop(self.source.code(p), is_or) for p in python)
            return _test(joined, codes, is_or, negated, before)
        return _test(self._joined([test], False, force), (), False, negated, (ast.unparse(test),))

    def _check_order(self, test: ast.BoolOp, found: list[tuple[ast.expr, bool]]) -> None:
        """Python values are asked in front of tensors: right where asking them early changes nothing."""
        kinds = [tensor for _, tensor in found]
        if kinds != sorted(kinds) and not all(choice.plain(value) for value, tensor in found if not tensor):
            raise Refused(
                f"`{self.source.code(test)}` evaluates Python code after a tensor condition",
                "Put the conditions that need no tensor first.",
            )

    def _mixed(self, test: ast.BoolOp, force: Force) -> _Joined:
        """Python and tensor conditions inside another condition: Python's part decides while the graph is made."""
        found = operands(self.facts, test, force)
        self._check_order(test, found)
        is_or = isinstance(test.op, ast.Or)
        joined = self._joined([value for value, tensor in found if tensor], is_or, force)
        asked = [self._truth(value) for value, tensor in found if not tensor]
        value = joined.code if joined.boolean and joined.fact.shape == () else _flag(joined.sure)
        word = " or " if is_or else " and "
        code = f"{self.torch}.as_tensor({word.join([*asked, operand_of_boolop(value, is_or)])})"
        fact = Fact("torch.Tensor", shape=(), dtype="torch.bool")
        return replace(joined, code=code, sure=code, proven=True, compared=True, boolean=True, fact=fact)

    def _truth(self, value: ast.expr) -> str:
        """A Python condition as a bool; a comparison of sizes or numbers may be symbolic while compiling."""
        code = self.source.code(value)
        negation = isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.Not)
        constant = isinstance(value, ast.Constant) and isinstance(value.value, bool)
        same = isinstance(value, ast.Compare) and all(isinstance(op, ast.Is | ast.IsNot) for op in value.ops)
        return code if negation or constant or same else f"bool({code})"

    def _joined(self, values: list[ast.expr], is_or: bool, force: Force) -> _Joined:
        parts = [self._tensor(value, force) for value in values]
        if len(parts) == 1:
            return parts[0]
        for value, part in zip(values, parts, strict=True):
            if not (part.proven or part.compared):
                raise Refused(
                    f"`{self.source.code(value)}` may be a Python value on another call",
                    "Annotate it as a torch.Tensor, or nest two ifs.",
                )
        joined = parts[0]
        for value, part in zip(values[1:], parts[1:], strict=True):
            code = self._two(joined, value, part, is_or)
            shape = max((joined.fact.shape or (), part.fact.shape or ()), key=len)
            fact = Fact("torch.Tensor", shape=shape, dtype="torch.bool")
            joined = replace(
                joined, code=code, sure=code, proven=True, compared=True, boolean=True, fact=fact
            )
        all_ = {
            leaf: outcome for part in parts for leaf, outcome in (part.false if is_or else part.true).items()
        }
        one = parts[0].true if is_or else parts[0].false
        leaves = tuple(leaf for part in parts for leaf in part.leaves)
        true, false = (one, all_) if is_or else (all_, one)
        return replace(joined, leaves=leaves, true=true, false=false)

    def _two(self, first: _Joined, value: ast.expr, second: _Joined, is_or: bool) -> str:
        """Two conditions as one; the second is evaluated for nothing only where that can't fail."""
        if choice.unsafe_to_evaluate(value, known=self.truths):
            known, asked = (f"lambda: {self._one_bool(part)}" for part in (first, second))
            arms = (known, asked) if is_or else (asked, known)
            return f"{self.cond}({self._one_bool(first)}, {', '.join(arms)})"
        if first.boolean and second.boolean:
            return (" | " if is_or else " & ").join(operand(part.code, of="&") for part in (first, second))
        name = "logical_or" if is_or else "logical_and"
        return f"{self.torch}.{name}({first.sure}, {second.sure})"

    def _one_bool(self, part: _Joined) -> str:
        alone = part.boolean and part.fact.shape == ()
        return part.code if alone else _flag(part.sure)

    def _tensor(self, node: ast.expr, force: Force) -> _Joined:
        if isinstance(node, ast.BoolOp):
            if not all(tensor for _, tensor in operands(self.facts, node, force)):
                return self._mixed(node, force)
            return self._joined(node.values, isinstance(node.op, ast.Or), force)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            inner = self._tensor(node.operand, force)
            if not (inner.proven or inner.compared):
                raise Refused(
                    f"`{self.source.code(node.operand)}` may be a Python value on another call",
                    "Annotate it as a torch.Tensor.",
                )
            # `~` of an integer is no `not`
            code = f"~{operand(inner.code)}" if inner.boolean else f"{self.torch}.logical_not({inner.sure})"
            fact = Fact("torch.Tensor", shape=inner.fact.shape, dtype="torch.bool")
            return _Joined(code, code, inner.leaves, inner.false, inner.true, True, True, True, fact)
        found = tensor_facts(self.facts, node, force)
        fact = found[0] if found else Fact("torch.Tensor", shape=(), dtype="torch.bool")
        proven = self.proven(node)
        if isinstance(node, ast.Compare):
            code = self._comparison(node)
        elif isinstance(node, ast.NamedExpr | ast.Await | ast.Yield):
            raise Refused(
                f"`{self.source.code(node)}` binds a name inside the test", "Bind the name before the branch."
            )
        else:
            code = self.source.code(node)
        searched = isinstance(node, ast.Compare) and any(
            isinstance(op, ast.In | ast.NotIn) for op in node.ops
        )
        compared = (isinstance(node, ast.Compare) and not searched) or self._is_truth(node)
        boolean = proven and (_boolean(node, self.boolean_names) or self._is_truth(node))
        sure = code if proven else self._sure(node, code, force)
        alike = self._asked_again(node)
        true, false = (dict.fromkeys(alike, outcome) for outcome in (True, False))
        return _Joined(code, sure, (node,), true, false, proven, compared, boolean, fact)

    def _asked_again(self, node: ast.expr) -> list[ast.expr]:
        """The tests that have the outcome of this one: of the same name, where that is bound only once."""
        names = [n for n in ast.walk(self.function or node) if isinstance(n, ast.Name)]
        mine = [n for n in names if isinstance(node, ast.Name) and n.id == node.id]
        if sum(isinstance(n.ctx, ast.Store) for n in mine) != 1:
            return [node]
        tests = {id(test) for test in _tests(self.function)}
        return [node, *(n for n in mine if n is not node and id(n) in tests)]

    def _sure(self, node: ast.expr, code: str, force: Force) -> str:
        """A tensor also where another caller passes Python numbers: `torch.as_tensor(t) > 1`, which torch can
        compare in the graph; the outcome of `t > 1` it may only know later."""
        if not isinstance(node, ast.Compare) or len(node.ops) > 1:
            return f"{self.torch}.as_tensor({code})"
        tensor = next((v for v in (node.left, *node.comparators) if tensor_facts(self.facts, v, force)), None)
        if tensor is None:
            return f"{self.torch}.as_tensor({code})"
        return self.source.code(node, {tensor: f"{self.torch}.as_tensor({self.source.code(tensor)})"})

    def _comparison(self, node: ast.Compare) -> str:
        if len(node.ops) == 1:
            return self.source.code(node)
        values = [node.left, *node.comparators]
        for number, value in enumerate(values[1:], 1):
            # What stands in the middle is written twice; what comes behind it may not have been evaluated at all.
            if why := choice.unsafe_to_evaluate(value, twice=number == 1):
                raise Refused(
                    f"`{self.source.code(node)}` is evaluated step by step ({why})",
                    "Bind the middle to a name.",
                )
        codes = [operand(self.source.code(value), of="<") for value in values]
        signs = [_SIGNS.get(type(op)) for op in node.ops]
        if None in signs:
            raise Refused(
                f"`{self.source.code(node)}` compares by `is` or `in`",
                "Split the comparison before the branch.",
            )
        steps = zip(codes, signs, codes[1:], strict=False)
        return " & ".join(f"({left} {sign} {right})" for left, sign, right in steps)

    def proven(self, node: ast.expr) -> bool:
        """Whether the text alone shows that the expression is a tensor on every call."""
        if self._is_truth(node):
            values = node.args[0] if isinstance(node, ast.Call) and node.args else None
            written = _written_out(values) if values is not None else []
            return bool(written) and all(self.proven(value) for value in written)
        return _proven(node, self.proven_names, self.torch)

    def _is_truth(self, node: ast.expr) -> bool:
        """Whether it is a call of our ``_any`` or ``_all``: a bool, or a tensor of one."""
        return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in self.truths


def _tests(function: ast.AST | None) -> Iterator[ast.expr]:
    """The conditions in the tests of a function, each for itself."""
    parts = [n.test for n in ast.walk(function) if isinstance(n, ast.If | ast.IfExp)] if function else []
    while parts:
        part = parts.pop()
        if isinstance(part, ast.BoolOp):
            parts += part.values
        elif isinstance(part, ast.UnaryOp) and isinstance(part.op, ast.Not):
            parts.append(part.operand)
        else:
            yield part


@dataclass(frozen=True)
class _Joined:
    code: str
    sure: str  # the same as a tensor, whatever Python numbers another caller passes
    leaves: tuple[ast.expr, ...]
    true: Force
    false: Force
    proven: bool
    compared: bool
    boolean: bool
    fact: Fact


def _test(
    joined: _Joined, python: tuple[str, ...], is_or: bool, negated: bool, before: tuple[str, ...]
) -> Test:
    true, false = (joined.false, joined.true) if negated else (joined.true, joined.false)
    shape, dtype = joined.fact.shape or (), joined.fact.dtype or "torch.bool"
    return Test(
        python,
        is_or,
        joined.code,
        joined.sure,
        negated,
        joined.proven,
        joined.compared,
        shape,
        dtype,
        joined.boolean,
        joined.leaves,
        before,
        true,
        false,
    )


_SIGNS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
}  # fmt: skip


def _written_out(values: ast.expr) -> list[ast.expr]:
    """The elements of a list that the text shows to have some, as expressions."""
    if isinstance(values, ast.List | ast.Tuple):
        return [] if any(isinstance(each, ast.Starred) for each in values.elts) else values.elts
    if isinstance(values, ast.ListComp) and len(values.generators) == 1:
        (each,) = values.generators
        return [values.elt] if not each.ifs and _written_out(each.iter) else []
    return []


def _proven(node: ast.expr, names: frozenset[str], torch: str) -> bool:
    if isinstance(node, ast.Name):
        return node.id in names
    if isinstance(node, ast.Compare):
        if any(isinstance(op, ast.Is | ast.IsNot | ast.In | ast.NotIn) for op in node.ops):
            return False
        return any(_proven(value, names, torch) for value in (node.left, *node.comparators))
    if isinstance(node, ast.BinOp):
        return _proven(node.left, names, torch) or _proven(node.right, names, torch)
    if isinstance(node, ast.UnaryOp):
        return not isinstance(node.op, ast.Not) and _proven(node.operand, names, torch)
    if isinstance(node, ast.Subscript):
        return _proven(node.value, names, torch)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if isinstance(node.func.value, ast.Name) and node.func.value.id == torch:
            return node.func.attr not in ops.NO_TENSOR and not node.func.attr[:1].isupper()
        return node.func.attr in ops.TENSOR_METHODS or (
            _proven(node.func.value, names, torch) and node.func.attr in ops.SAME_KIND
        )
    return False


def _boolean(node: ast.expr, names: frozenset[str] = frozenset()) -> bool:
    """Whether the text alone shows that a tensor is of dtype bool: `any()` and `all()` of uint8 are uint8."""
    if isinstance(node, ast.Compare) or (isinstance(node, ast.Name) and node.id in names):
        return True
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitAnd | ast.BitOr | ast.BitXor):
        return _boolean(node.left, names) and _boolean(node.right, names)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert):
        return _boolean(node.operand, names)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr in ops.BOOLEAN:
            return True
        if node.func.attr in ("any", "all", "reshape", "view", "squeeze", "flatten"):
            return _boolean(node.func.value, names) or bool(node.args and _boolean(node.args[0], names))
    return False


def _boolean_names(function: ast.AST, tensors: frozenset[str]) -> frozenset[str]:
    """Of the names that are tensors by the text, those that are only ever bound to one of dtype bool."""
    found = set[str]()
    for name in tensors:
        stores = [
            n
            for n in ast.walk(function)
            if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Store)
        ]
        values = [
            n.value
            for n in ast.walk(function)
            if isinstance(n, ast.Assign) and len(n.targets) == 1 and any(n.targets[0] is s for s in stores)
        ]
        if values and len(values) == len(stores) and all(_boolean(value) for value in values):
            found.add(name)
    return frozenset(found)


def _proven_names(function: ast.AST, torch: str) -> frozenset[str]:
    """Names that are only ever bound to what is a tensor by its text, or annotated as one."""
    bound: dict[str, list[ast.expr | None]] = {}
    names = set[str]()
    arguments = getattr(function, "args", None)
    for argument in ast.walk(arguments) if arguments is not None else ():
        if isinstance(argument, ast.arg):
            annotation = ast.unparse(argument.annotation) if argument.annotation else ""
            if annotation in ("Tensor", f"{torch}.Tensor"):
                names.add(argument.arg)
            else:
                bound[argument.arg] = [None]
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            bound.setdefault(node.targets[0].id, []).append(node.value)
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            pass  # a tensor stays one
    simple = {
        id(n.targets[0]) for n in ast.walk(function) if isinstance(n, ast.Assign) and len(n.targets) == 1
    }
    simple |= {id(n.target) for n in ast.walk(function) if isinstance(n, ast.AugAssign)}
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and id(node) not in simple:
            bound.setdefault(node.id, []).append(None)
    while True:
        now = frozenset(names)
        names |= {
            name
            for name, values in bound.items()
            if all(value is not None and _proven(value, now, torch) for value in values)
        }
        names -= {name for name in now if any(value is None for value in bound.get(name, []))}
        if names == now:
            return now
