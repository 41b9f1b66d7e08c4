"""Calls that take carried numbers: Python's own functions, and the torch functions known to take a 0-dim
tensor alike."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, replace

from onegraph.lowering.inserts import Inserts
from onegraph.lowering.number_ops import Operators
from onegraph.lowering.number_uses import Bound, NotAlike, bound_in, literal_of
from onegraph.lowering.numbers import Carried, Number
from onegraph.rewrite import text as source


@dataclass(frozen=True, slots=True)
class Operation:
    """A torch function or method that takes a number or a 0-dim tensor: its parameters, and those it may
    take it in."""

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

_USE_OF: dict[str, Bound] = {
    **dict.fromkeys(("print", "pprint"), Bound.PRINT),
    **dict.fromkeys(["debug", "info", "warning", "warn", "error", "exception", "critical", "log"], Bound.LOG),
    **dict.fromkeys(["format", "str", "repr"], Bound.TEXT),
    **dict.fromkeys(
        [
            "narrow",
            "view",
            "reshape",
            "expand",
            "repeat",
            "zeros",
            "ones",
            "empty",
            "full",
            "new_zeros",
            "new_ones",
            "new_empty",
            "new_full",
            "arange",
            "linspace",
            "eye",
            "topk",
            "split",
            "chunk",
            "unfold",
            "repeat_interleave",
            "tile",
            "randn",
            "rand",
            "randint",
            "pad",
            "unflatten",
        ],
        Bound.SIZE,
    ),
    **dict.fromkeys(["range", "enumerate", "zip"], Bound.LOOP),
    **dict.fromkeys(["append", "extend", "insert", "add", "setdefault"], Bound.COLLECTED),
}


class Calls:
    """Checks calls in one function, and asks ``inserts`` for what they need."""

    def __init__(self, operators: Operators, inserts: Inserts, function: ast.AST) -> None:
        self.operators, self.inserts = operators, inserts
        module = source.parse(inserts.text)
        self.stored = bound_in(function) | {
            name for statement in source.toplevel(module) for name in source.bound_names(statement)
        }

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
        if isinstance(func, ast.Name) and name == self.operators.helpers["_beside"]:
            return None  # written by an earlier repair
        if plain and ast.unparse(func) == f"{self.operators.torch_name}.sqrt":
            return replace(values[node.args[0]], number=Number.FLOAT, nonnegative=True)
        if plain and ast.unparse(func) in ("math.sqrt", "math.fabs"):
            return self._math(node, name, values[node.args[0]])
        if (
            isinstance(func, ast.Attribute)
            and name.removesuffix("_") in OPERATIONS
            and not name.startswith("_")
        ):
            self._torch_call(node, func, name, values)
            return None
        use = None if ast.unparse(func).startswith("math.") else _USE_OF.get(name)
        if use is not None:
            raise NotAlike(node, use)
        raise NotAlike(node, f"is passed to `{ast.unparse(func)}`")

    def on_number(self, node: ast.Call, func: ast.Attribute, carried: Carried) -> Carried:
        """A method of a carried number: one that an earlier repair has written."""
        casts = {"double": Number.FLOAT, "long": Number.INT, "bool": Number.BOOL}
        if func.attr in casts and not node.args and not node.keywords:
            return replace(carried, number=casts[func.attr])
        raise NotAlike(node, Bound.ATTRIBUTE)

    def _converted(self, node: ast.Call, name: str, carried: Carried) -> Carried:
        """``abs``, ``float``, ``int``, ``bool`` of a carried number."""
        argument, number = node.args[0], carried.number
        if name == "abs":
            if number is Number.BOOL:
                self.operators.cast(node, argument, carried, ".long()", operand=False)
                number = Number.INT
            return replace(carried, number=number, nonnegative=True)
        if name == "int" and number not in (Number.INT, Number.BOOL):
            raise NotAlike(node, "is cut to an integer: Python raises on NaN and infinity, a tensor does not")
        suffix, result = {
            "float": (".double()", Number.FLOAT),
            "int": (".long()", Number.INT),
            "bool": (".bool()", Number.BOOL),
        }[name]
        self._unwrap(node, argument, carried, "" if result is number else suffix)
        return replace(carried, number=result)

    def _unwrap(self, node: ast.Call, argument: ast.expr, carried: Carried, suffix: str) -> None:
        """``f(argument, ...)`` as ``argument`` + suffix."""
        if not carried.certain:
            raise NotAlike(node, Bound.PATHS)
        start, end = self.inserts.span(argument)
        call_start, call_end = self.inserts.span(node)
        bare = isinstance(argument, ast.Name | ast.Attribute | ast.Call | ast.Subscript)
        bare = bare and "\n" not in self.inserts.text[start:end]
        self.inserts.cut(node, call_start, start, "" if bare else "(")
        self.inserts.cut(node, end, call_end, suffix if bare else ")" + suffix)

    def _extremum(self, node: ast.Call, name: str, values: Mapping[ast.expr, Carried]) -> Carried:
        """``max(a, b)`` is ``b if b > a else a``, NaN included; so is the ``torch.where`` that is written."""
        first, second = node.args
        bound = literal_of(second)
        if bound and first in values:  # not zero: its sign could differ
            return self._clamped(node, name, values[first], bound)
        for argument in node.args:
            if (
                not isinstance(argument, ast.Name | ast.Attribute | ast.Constant)
                and literal_of(argument) is None
            ):
                raise NotAlike(node, f"is an argument of {name}() in an expression", "Give it a name first.")
        kinds: list[Number] = []
        for argument in node.args:
            carried = values.get(argument)
            kind = carried.number if carried else self.operators.classify(argument, argument)
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
        self.inserts.swap(node, node, f"{self.operators.torch}.where({b} {sign} {a}, {b}, {a})")
        held = next(iter(values.values()))
        bounds = [v.nonnegative for v in values.values()] + [
            (literal_of(argument) or -1) >= 0 for argument in (first, second) if argument not in values
        ]
        nonnegative = any(bounds) if name == "max" else all(bounds)
        return Carried(result, held.device, True, nonnegative)

    def _clamped(self, node: ast.Call, name: str, carried: Carried, bound: int | float) -> Carried:
        """``max(number, 1.0)`` as ``number.clamp(min=1.0)``: both keep NaN."""
        if carried.number is Number.BOOL:
            raise NotAlike(node, Bound.PATHS)
        kind = Number.FLOAT if isinstance(bound, float) else Number.INT
        result = kind if kind is carried.number else Number.MIXED
        cast = ".double()" if carried.number is Number.INT and result is Number.MIXED else ""
        side = "min" if name == "max" else "max"
        self._unwrap(node, node.args[0], carried, f"{cast}.clamp({side}={bound!r})")
        nonnegative = bound > 0 and (name == "max" or carried.nonnegative)
        return replace(carried, number=result, nonnegative=nonnegative)

    def _math(self, node: ast.Call, name: str, carried: Carried) -> Carried:
        if name == "sqrt" and not carried.nonnegative:
            raise NotAlike(
                node,
                "is under math.sqrt: Python raises on a negative number, a tensor does not",
                "Write math.sqrt(abs(...)), or use torch.sqrt on the tensor.",
            )
        self.inserts.swap(node, node.func, f"{self.operators.torch}.{'sqrt' if name == 'sqrt' else 'abs'}")
        if carried.number in (Number.BOOL, Number.INT):
            self.operators.cast(node, node.args[0], carried, ".double()", operand=False)
        elif not carried.certain:
            raise NotAlike(node, Bound.PATHS)
        return replace(carried, number=Number.FLOAT, nonnegative=True)

    def _torch_call(
        self, node: ast.Call, func: ast.Attribute, name: str, values: Mapping[ast.expr, Carried]
    ) -> None:
        operation = OPERATIONS[name.removesuffix("_")]
        is_function = isinstance(func.value, ast.Name) and func.value.id == self.operators.torch_name
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
        facts = self.operators.classify(tensor, tensor)
        if isinstance(facts, Number):
            raise NotAlike(node, f"is passed to `{ast.unparse(func)}` beside a plain number")
        for argument in places.values():
            if name.startswith("sub") and values[argument].number is Number.BOOL:
                raise NotAlike(node, "is a bool in a subtraction, which torch refuses for tensors")
            if "masked_fill" in name or name.endswith("_"):
                self.operators.same_category(argument, values[argument], facts)
            self.operators.refuse_either(
                argument, values[argument], divides="div" in name and "floor" not in name
            )
            self.operators.beside_tensor(node, argument, values[argument], tensor, facts, operand=False)
