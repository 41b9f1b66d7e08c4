"""One use of a carried number at a time: what the result is, which cast keeps the meaning, or why there is none."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from onegraph.lowering import numbers
from onegraph.lowering.inserts import Inserts
from onegraph.lowering.numbers import Carried, Cast, Number, Unlike
from onegraph.rewrite import text as source
from onegraph.rewrite.request import Fact, Facts

_KEEP = "Keep the value a tensor there, or compute it outside the compiled function."


class Bound(Enum):
    """A use that only a Python number can serve: what it is, and the next step."""

    RETURN = ("is returned", "Return the tensor, and call .item() on it outside the compiled function.")
    RAISED = (
        "is part of an exception",
        "Raise with a constant message, or check outside the compiled function.",
    )
    CONDITION = ("decides a condition", "Test the tensor itself: onegraph mends branches on tensors.")
    LOOP = ("sets the course of a loop", "Loop a fixed number of times, and mask what is too much.")
    INDEX = (
        "is used as an index or a bound",
        "Index with the tensor: x.index_select(0, i.view(1)).squeeze(0).",
    )
    SIZE = (
        "is used as a size",
        "Use the largest size and a mask, or set torch._dynamo.config.capture_scalar_outputs.",
    )
    TEXT = ("is put into a text", "Make the text outside the compiled function.")
    PRINT = ("is printed", "Print outside the compiled function.")
    LOG = ("is logged", "Log outside the compiled function.")
    COLLECTED = ("is kept in a list, tuple, set or dict", _KEEP)
    STORED = ("is stored outside the function's own variables", "Store the detached tensor instead.")
    ATTRIBUTE = ("is asked for an attribute of Python numbers", _KEEP)
    INNER = ("is read by an inner function", "Pass the tensor to it as an argument.")
    CALL = ("is passed to a function", _KEEP)
    PATHS = ("has another type on another path", _KEEP)
    OTHER = ("is used in a way that needs a Python number", _KEEP)


class NotAlike(Exception):
    """A use that a 0-dim tensor can't serve exactly. ``use`` ends the sentence "the number ..."."""

    def __init__(self, node: ast.AST, use: Bound | str, next_step: str = _KEEP) -> None:
        self.node = node
        self.use, self.next_step = use.value if isinstance(use, Bound) else (use, next_step)
        super().__init__(self.use)


@dataclass(frozen=True, slots=True)
class Operation:
    """A torch function or method that takes a number or a 0-dim tensor: its parameters, and those it may take it in."""

    parameters: tuple[str, ...]
    numbers: frozenset[str]


_TWO = Operation(("input", "other"), frozenset({"other"}))
_CLAMP = Operation(("input", "min", "max"), frozenset({"min", "max"}))
_ARITHMETIC = "add sub mul div subtract multiply divide true_divide remainder floor_divide"
_COMPARISONS = "eq ne lt le gt ge not_equal less less_equal greater greater_equal"
OPERATIONS: dict[str, Operation] = {
    **dict.fromkeys(f"{_ARITHMETIC} {_COMPARISONS}".split(), _TWO),
    **dict.fromkeys(("clamp", "clip"), _CLAMP),
    "clamp_min": Operation(("input", "min"), frozenset({"min"})),
    "clamp_max": Operation(("input", "max"), frozenset({"max"})),
    "masked_fill": Operation(("input", "mask", "value"), frozenset({"value"})),
    "where": Operation(("condition", "input", "other"), frozenset({"input", "other"})),
}

OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%",
}  # fmt: skip

_USE_OF: dict[str, Bound] = {
    **dict.fromkeys(("print", "pprint"), Bound.PRINT),
    **dict.fromkeys("debug info warning warn error exception critical log".split(), Bound.LOG),
    **dict.fromkeys("format str repr".split(), Bound.TEXT),
    **dict.fromkeys(
        "narrow view reshape expand repeat zeros ones empty full new_zeros new_ones new_empty new_full arange linspace "
        "eye topk split chunk unfold repeat_interleave tile randn rand randint pad unflatten".split(),
        Bound.SIZE,
    ),
    **dict.fromkeys("range enumerate zip".split(), Bound.LOOP),
    **dict.fromkeys("append extend insert add setdefault".split(), Bound.COLLECTED),
}


class Operators:
    """Checks uses of carried numbers in one function, and asks ``inserts`` for the casts that they need."""

    def __init__(self, facts: Facts, inserts: Inserts, function: ast.AST) -> None:
        self.facts, self.inserts = facts, inserts
        self.stored = {
            n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
        }
        self._torch = source.ensure_torch_import(inserts.text)[1]
        self.names_torch = False  # whether an edit names the torch module

    @property
    def torch(self) -> str:
        """The name of the torch module in this file, for an edit."""
        self.names_torch = True
        return self._torch

    # --- operators --------------------------------------------------------------------------------------------

    def binary(
        self,
        node: ast.expr | ast.stmt,
        left_node: ast.expr,
        left: Carried | None,
        op: ast.operator,
        right_node: ast.expr,
        right: Carried | None,
        *,
        statement: ast.AugAssign | None = None,
    ) -> Carried | None:
        """``left op right``; ``statement`` where it is written ``left op= right``."""
        self.inserts.clear(node)
        if left is None and right is None:
            return None
        sign = OPERATORS.get(type(op))
        if sign is None:
            raise NotAlike(node, f"is an operand of `{_sign(op)}`, which rounds differently for tensors")
        if statement is not None:
            self.inserts.write_out(statement, sign)
        if left is not None and right is not None:
            return self._two_numbers(node, sign, (left_node, left), (right_node, right))
        carried_node, carried, other_node = (
            (left_node, left, right_node) if left is not None else (right_node, right, left_node)
        )
        assert carried is not None
        other = self.classify(other_node, carried_node)
        if isinstance(other, Number):
            return self._number_and_plain(
                node, sign, (carried_node, carried), (other_node, other), right is None
            )
        if right is None and sign in ("//", "%"):
            raise NotAlike(node, f"is divided by a tensor with `{sign}`")
        if right is None and sign == "/":
            self._reciprocal(node, carried_node, carried, other_node, other)
        else:
            self._beside_tensor(node, carried_node, carried, other_node, other, operand=True)
        return None

    def _two_numbers(
        self, node: ast.AST, sign: str, left: tuple[ast.expr, Carried], right: tuple[ast.expr, Carried]
    ) -> Carried:
        if sign in ("/", "//", "%"):
            raise NotAlike(node, "is a divisor: Python raises on zero, a tensor does not")
        result = numbers.arithmetic(left[1].number, right[1].number)
        if sign == "*" and result is Number.INT and Number.BOOL not in (left[1].number, right[1].number):
            raise NotAlike(node, "is an integer times another: the product may not fit into 64 bits")
        if left[1].device != right[1].device:
            raise NotAlike(node, "comes from another device than the number it meets")
        for operand, carried in (left, right):
            if carried.number is Number.BOOL:
                self._cast(node, operand, carried, ".long()", operand=True)
        same = isinstance(left[0], ast.Name) and isinstance(right[0], ast.Name) and left[0].id == right[0].id
        both = left[1].nonnegative and right[1].nonnegative
        return Carried(
            result,
            left[1].device,
            left[1].certain or right[1].certain,
            (sign in "+*" and both) or (sign == "*" and same),
        )

    def _number_and_plain(
        self,
        node: ast.AST,
        sign: str,
        held: tuple[ast.expr, Carried],
        other: tuple[ast.expr, Number],
        left: bool,
    ) -> Carried:
        """A carried number and a plain Python number. ``left``: the carried one stands left."""
        operand, carried = held
        literal = _literal(other[0])
        if sign in ("/", "//", "%"):
            if not left:
                raise NotAlike(node, "is a divisor: Python raises on zero, a tensor does not")
            if not literal:
                raise NotAlike(
                    node,
                    f"is divided by `{ast.unparse(other[0])}`, which may be zero: Python raises then, a tensor does not",
                    "Multiply by a factor made outside the compiled function.",
                )
        if literal is not None and abs(literal) > numbers.EXACT_INT and isinstance(literal, int):
            raise NotAlike(node, "meets an integer that double can't hold")
        result = numbers.arithmetic(carried.number, other[1], division=sign == "/")
        if carried.number is Number.MIXED and result is Number.INT:
            result = Number.MIXED
        if result is Number.FLOAT and carried.number in (Number.BOOL, Number.INT):
            self._cast(node, operand, carried, ".double()", operand=True)
        elif carried.number is Number.BOOL:
            self._cast(node, operand, carried, ".long()", operand=True)
        grows = sign in ("+", "*") or (left and sign != "-")
        nonnegative = carried.nonnegative and literal is not None and literal >= 0 and grows
        return replace(carried, number=result, nonnegative=nonnegative)

    def unary(self, node: ast.UnaryOp, carried: Carried | None) -> Carried | None:
        self.inserts.clear(node)
        if carried is None:
            return None
        if isinstance(node.op, ast.Not):
            raise NotAlike(node, Bound.CONDITION)
        if isinstance(node.op, ast.Invert):
            raise NotAlike(node, Bound.OTHER)
        if carried.number is Number.BOOL:
            self._cast(node, node.operand, carried, ".long()", operand=True)
            carried = replace(carried, number=Number.INT)
        return replace(carried, nonnegative=carried.nonnegative and isinstance(node.op, ast.UAdd))

    def compare(self, node: ast.Compare, values: Sequence[Carried | None]) -> Carried | None:
        """A comparison of two numbers is a carried bool; one with a tensor is a tensor."""
        self.inserts.clear(node)
        if not any(values):
            return None
        allowed = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)
        if len(values) > 2 or not isinstance(node.ops[0], allowed):
            raise NotAlike(node, Bound.CONDITION)
        (left_node, left), (right_node, right) = zip((node.left, node.comparators[0]), values, strict=True)
        if left is not None and right is not None:
            if left.number.dtype != right.number.dtype or left.device != right.device:
                raise NotAlike(node, "is compared with a number of another type")
            return Carried(Number.BOOL, left.device, left.certain or right.certain)
        held, carried, other_node = (left_node, left, right_node) if left else (right_node, right, left_node)
        assert carried is not None
        other = self.classify(other_node, held)
        if not isinstance(other, Number):
            self._beside_tensor(node, held, carried, other_node, other, operand=True)
            return None
        if carried.number is not Number.FLOAT and other is Number.FLOAT:
            raise NotAlike(node, "is an integer compared with a float")
        return Carried(Number.BOOL, carried.device, carried.certain)

    def choice(self, node: ast.IfExp, body: Carried | None, orelse: Carried | None) -> Carried | None:
        """``body if test else orelse`` with a test that isn't carried."""
        self.inserts.clear(node)
        if body is None and orelse is None:
            return None
        if body is not None and orelse is not None:
            joined = numbers.join(body, orelse)
            if joined is None:
                raise NotAlike(node, Bound.PATHS)
            return joined
        held, other_node = (body, node.orelse) if body is not None else (orelse, node.body)
        assert held is not None
        if not isinstance(self.classify(other_node, other_node), Number):
            raise NotAlike(other_node, Bound.PATHS)
        return replace(held, certain=False, nonnegative=False)

    # --- calls ------------------------------------------------------------------------------------------------

    def call(self, node: ast.Call, values: Mapping[ast.expr, Carried]) -> Carried | None:
        """A call with carried numbers among its arguments (given by their nodes)."""
        self.inserts.clear(node)
        func = node.func
        name = func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else ""
        plain = not node.keywords and not any(isinstance(a, ast.Starred) for a in node.args)
        if isinstance(func, ast.Name) and name not in self.stored and plain:
            if name in ("abs", "float", "int", "bool") and len(node.args) == 1:
                return self._converted(node, name, values[node.args[0]])
            if name in ("min", "max") and len(node.args) == 2:
                return self._extremum(node, name, values)
        if plain and ast.unparse(func) in ("math.sqrt", "math.fabs"):
            return self._math(node, name, values[node.args[0]])
        if (
            isinstance(func, ast.Attribute)
            and name.removesuffix("_") in OPERATIONS
            and not name.startswith("_")
        ):
            self._torch_call(node, func, name, values)
            return None
        use = _USE_OF.get(name)
        if use is not None:
            raise NotAlike(node, use)
        raise NotAlike(node, f"is passed to `{ast.unparse(func)}`")

    def _converted(self, node: ast.Call, name: str, carried: Carried) -> Carried:
        """``abs``, ``float``, ``int``, ``bool`` of a carried number."""
        argument, number = node.args[0], carried.number
        if name == "abs":
            if number is Number.BOOL:
                self._cast(node, argument, carried, ".long()", operand=False)
                number = Number.INT
            return replace(carried, number=number, nonnegative=True)
        if name == "int" and number not in (Number.INT, Number.BOOL):
            raise NotAlike(node, "is cut to an integer: Python raises on NaN and infinity, a tensor does not")
        suffix, result = {
            "float": (".double()", Number.FLOAT),
            "int": (".long()", Number.INT),
            "bool": (".bool()", Number.BOOL),
        }[name]
        if not carried.certain:
            raise NotAlike(node, Bound.PATHS)
        start, end = self.inserts.span(argument)
        inner = self.inserts.text[start:end]
        simple = (
            isinstance(argument, ast.Name | ast.Attribute | ast.Call | ast.Subscript) and "\n" not in inner
        )
        call_start, call_end = self.inserts.span(node)
        cast = "" if result is number else suffix
        self.inserts.cut(node, call_start, start, "" if simple else "(")
        self.inserts.cut(node, end, call_end, cast if simple else ")" + cast)
        return replace(carried, number=result)

    def _extremum(self, node: ast.Call, name: str, values: Mapping[ast.expr, Carried]) -> Carried:
        """``max(a, b)`` is ``b if b > a else a``, NaN included; so is the ``torch.where`` that is written."""
        first, second = node.args
        for argument in node.args:
            if (
                not isinstance(argument, ast.Name | ast.Attribute | ast.Constant)
                and _literal(argument) is None
            ):
                raise NotAlike(node, f"is an argument of {name}() in an expression", "Give it a name first.")
        kinds: list[Number] = []
        for argument in node.args:
            carried = values.get(argument)
            kind = carried.number if carried else self.classify(argument, argument)
            if not isinstance(kind, Number) or kind is Number.BOOL or (carried and not carried.certain):
                raise NotAlike(node, Bound.PATHS)
            kinds.append(kind)
        if len({carried.device for carried in values.values()}) > 1:
            raise NotAlike(node, "comes from another device than the number it meets")
        result = kinds[0] if kinds[0] is kinds[1] else Number.MIXED
        texts = []
        for argument, kind in zip(node.args, kinds, strict=True):
            segment = source.segment(self.inserts.text, argument)
            texts.append(
                segment + ".double()"
                if argument in values and kind is Number.INT and result is not kind
                else segment
            )
        sign = ">" if name == "max" else "<"
        a, b = texts
        self.inserts.swap(node, node, f"{self.torch}.where({b} {sign} {a}, {b}, {a})")
        held = next(iter(values.values()))
        bounds = [v.nonnegative for v in values.values()] + [
            (_literal(argument) or -1) >= 0 for argument in (first, second) if argument not in values
        ]
        nonnegative = any(bounds) if name == "max" else all(bounds)
        return Carried(result, held.device, True, nonnegative)

    def _math(self, node: ast.Call, name: str, carried: Carried) -> Carried:
        if name == "sqrt" and not carried.nonnegative:
            raise NotAlike(
                node,
                "is under math.sqrt: Python raises on a negative number, a tensor does not",
                "Write math.sqrt(abs(...)), or use torch.sqrt on the tensor.",
            )
        self.inserts.swap(node, node.func, f"{self.torch}.{'sqrt' if name == 'sqrt' else 'abs'}")
        if carried.number in (Number.BOOL, Number.INT):
            self._cast(node, node.args[0], carried, ".double()", operand=False)
        elif not carried.certain:
            raise NotAlike(node, Bound.PATHS)
        return replace(carried, number=Number.FLOAT, nonnegative=True)

    def _torch_call(
        self, node: ast.Call, func: ast.Attribute, name: str, values: Mapping[ast.expr, Carried]
    ) -> None:
        operation = OPERATIONS[name.removesuffix("_")]
        is_function = isinstance(func.value, ast.Name) and func.value.id == self._torch
        parameters, given = operation.parameters, list(node.args)
        if not is_function:
            given.insert(0, func.value)
            if name == "where":
                parameters = ("input", "condition", "other")
        bound = dict(zip(parameters, given, strict=False))
        bound.update({keyword.arg: keyword.value for keyword in node.keywords if keyword.arg})
        if len(given) + len(node.keywords) != len(bound) or not bound.keys() <= set(parameters):
            raise NotAlike(node, f"is passed to `{ast.unparse(func)}` beside other options")
        places = {parameter: argument for parameter, argument in bound.items() if argument in values}
        if not places.keys() <= operation.numbers:
            raise NotAlike(node, f"is passed to `{ast.unparse(func)}`")
        if operation is _CLAMP:
            for bound_name in ("min", "max"):
                argument = bound.get(bound_name)
                is_none = isinstance(argument, ast.Constant) and argument.value is None
                if argument is not None and argument not in values and not is_none:
                    raise NotAlike(node, "bounds a clamp together with a plain number", "Clamp in two steps.")
        tensor_at = "other" if "input" in places else "input"
        if tensor_at not in bound or bound[tensor_at] in values:
            raise NotAlike(node, f"is passed to `{ast.unparse(func)}` without a tensor beside it")
        tensor = bound[tensor_at]
        facts = self.classify(tensor, tensor)
        if isinstance(facts, Number):
            raise NotAlike(node, f"is passed to `{ast.unparse(func)}` beside a plain number")
        for argument in places.values():
            if "masked_fill" in name or name.endswith("_"):
                self._same_category(argument, values[argument], facts)
            self._beside_tensor(node, argument, values[argument], tensor, facts, operand=False)

    # --- tensors ----------------------------------------------------------------------------------------------

    def _beside_tensor(
        self,
        owner: ast.AST,
        node: ast.expr,
        carried: Carried,
        tensor: ast.expr,
        facts: tuple[Fact, ...],
        *,
        operand: bool,
    ) -> None:
        """The cast that a carried number needs beside a tensor operand."""
        if any(fact.device not in (carried.device, None) and carried.device != "cpu" for fact in facts):
            raise NotAlike(node, "meets a tensor on another device")
        try:
            cast = numbers.cast_beside(carried.number, facts)
        except Unlike as unlike:
            raise NotAlike(node, str(unlike)) from None
        if cast is Cast.OTHER:
            if not _repeatable(tensor):
                raise NotAlike(
                    node,
                    "meets a tensor without dimensions in an expression",
                    "Give the tensor a name first.",
                )
            self._cast(owner, node, carried, f".to({ast.unparse(tensor)}.dtype)", operand=operand)
        elif cast is Cast.DEFAULT:
            self._cast(owner, node, carried, f".to({self.torch}.get_default_dtype())", operand=operand)

    def _reciprocal(
        self, node: ast.AST, held: ast.expr, carried: Carried, tensor: ast.expr, facts: tuple[Fact, ...]
    ) -> None:
        """``number / tensor`` is computed as ``tensor.reciprocal() * number`` in eager mode."""
        if not (_repeatable(held) and _repeatable(tensor)):
            raise NotAlike(node, "is divided by a tensor in an expression", "Give both a name first.")
        if any(fact.dtype and numbers.category(fact.dtype) is not Number.FLOAT for fact in facts):
            raise NotAlike(node, "is divided by a tensor that is not floating point")
        if not isinstance(node, ast.BinOp):
            raise NotAlike(node, "is divided by a tensor in place")
        try:
            cast = numbers.cast_beside(carried.number, facts)
        except Unlike as unlike:
            raise NotAlike(node, str(unlike)) from None
        if cast is not Cast.NONE and not carried.certain:
            raise NotAlike(node, Bound.PATHS)
        name, number = ast.unparse(tensor), source.segment(self.inserts.text, held)
        suffix = "" if cast is Cast.NONE else f".to({name}.dtype)"
        self.inserts.swap(node, node, f"{name}.reciprocal() * {number}{suffix}")

    def in_place(self, node: ast.AugAssign, carried: Carried) -> None:
        """``tensor op= number``: the tensor keeps its dtype."""
        self.inserts.clear(node)
        if type(node.op) not in OPERATORS:
            raise NotAlike(
                node, f"is an operand of `{_sign(node.op)}=`, which rounds differently for tensors"
            )
        facts = self._target_facts(node)
        if facts is None:
            raise NotAlike(node, Bound.STORED)
        self._same_category(node, carried, facts)
        self._beside_tensor(node, node.value, carried, node.target, facts, operand=True)

    def fill(self, target: ast.Subscript, carried: Carried) -> None:
        """``tensor[...] = number``."""
        facts = self.classify(target.value, target)
        if isinstance(facts, Number):
            raise NotAlike(target, Bound.STORED)
        self._same_category(target, carried, facts)
        if any(fact.device != carried.device for fact in facts):
            raise NotAlike(target, "meets a tensor on another device")

    def is_tensor_name(self, node: ast.AugAssign) -> bool:
        """Whether the target of an augmented assignment is a tensor at that point."""
        return self._target_facts(node) is not None

    def _target_facts(self, node: ast.AugAssign) -> tuple[Fact, ...] | None:
        if not isinstance(node.target, ast.Name):
            return None
        found = self.facts.names(node, [node.target.id]).get(node.target.id, ())
        return found if found and all(fact.is_tensor for fact in found) else None

    def _same_category(self, node: ast.AST, carried: Carried, facts: tuple[Fact, ...]) -> None:
        own = {Number.MIXED: Number.FLOAT}.get(carried.number, carried.number)
        if any(fact.dtype is None or numbers.category(fact.dtype) is not own for fact in facts):
            raise NotAlike(node, "is written into a tensor of another kind of dtype")

    # --- facts ------------------------------------------------------------------------------------------------

    def classify(self, node: ast.expr, use: ast.AST) -> Number | tuple[Fact, ...]:
        """A plain Python number, or the facts of a tensor. Raises NotAlike for anything else."""
        literal = _literal(node)
        if literal is not None:
            return Number.FLOAT if isinstance(literal, float) else Number.INT
        (facts,) = self.facts.values(node)
        if not facts:
            raise NotAlike(
                use,
                f"meets `{ast.unparse(node)}`, which no recorded input reaches",
                "Give inputs that run it.",
            )
        if all(fact.is_tensor for fact in facts):
            return facts
        found = [numbers.of_type(fact.type) for fact in facts]
        known = [number for number in found if number is not None]
        if len(known) != len(found):
            others = sorted({fact.type for fact in facts if numbers.of_type(fact.type) is None})
            raise NotAlike(use, f"meets `{ast.unparse(node)}`, a {others[0]}")
        return max(known)

    def check_plain(self, node: ast.Name) -> None:
        """A name that is carried on one path only: on the others it must be a plain number."""
        (facts,) = self.facts.values(node)
        if not facts or any(numbers.of_type(fact.type) is None for fact in facts):
            raise NotAlike(node, Bound.PATHS)

    def _cast(self, owner: ast.AST, node: ast.expr, carried: Carried, suffix: str, *, operand: bool) -> None:
        if not carried.certain:
            raise NotAlike(node, Bound.PATHS)
        self.inserts.suffix(owner, node, suffix, operand=operand)


def bound_in(function: ast.AST) -> set[str]:
    """The names that a function binds."""
    stored = {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return stored | {n.arg for n in ast.walk(function) if isinstance(n, ast.arg)}


def _literal(node: ast.expr) -> int | float | None:
    """The value of a literal number, with its sign."""
    sign = 1
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        sign, node = (-1 if isinstance(node.op, ast.USub) else 1), node.operand
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        value: int | float = node.value
        return sign * value
    return None


def _repeatable(node: ast.expr) -> bool:
    """An expression that can be written twice: a name, or attributes of one."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name)


def _sign(op: ast.operator) -> str:
    return ast.unparse(ast.BinOp(ast.Name("a"), op, ast.Name("b")))[2:-2]
