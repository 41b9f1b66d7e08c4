"""One use of a carried number at a time: what the result is, which cast keeps the meaning, or why there is
none."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace

from onegraph.lowering import number_helper, numbers
from onegraph.lowering.inserts import Inserts
from onegraph.lowering.number_uses import KEEP, Bound, NotAlike, literal_of, repeatable, sign_of, targets
from onegraph.lowering.numbers import Carried, Number, Unlike
from onegraph.rewrite import text as source
from onegraph.rewrite.request import Fact, Facts

OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%",
}  # fmt: skip


_COMPARED: dict[type[ast.cmpop], str] = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
}  # fmt: skip


class Operators:
    """Checks uses of carried numbers in one function, and asks ``inserts`` for the casts that they need."""

    def __init__(self, facts: Facts, inserts: Inserts, function: ast.AST) -> None:
        self.facts, self.inserts, self.function = facts, inserts, function
        self.torch_name = source.ensure_torch_import(inserts.text)[1]
        self.names_torch = False  # whether an edit names the torch module
        self.helpers = number_helper.names_in(inserts.text)
        self.named: dict[ast.AST, str] = {}  # tensor operands that get a name on the spot
        self.stand_ins: dict[ast.AST, ast.expr] = {}  # operations of a named tensor with carried numbers

    @property
    def torch(self) -> str:
        """The name of the torch module in this file, for an edit."""
        self.names_torch = True
        return self.torch_name

    # --- operators -------------------------------------------------------------

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
            square = isinstance(op, ast.Pow) and literal_of(right_node) == 2 and left is not None
            raise NotAlike(
                node,
                f"is an operand of `{sign_of(op)}`, which rounds differently for tensors",
                "Write the square as a product: `a * a`." if square else KEEP,
            )
        if statement is not None:
            self.inserts.write_out(statement, sign)
        if left is not None and right is not None:
            return self._two_numbers(node, sign, (left_node, left), (right_node, right))
        carried_node, carried, other_node = (
            (left_node, left, right_node) if left is not None else (right_node, right, left_node)
        )
        assert carried is not None
        other = self.classify(other_node, carried_node, target_of=statement)
        if isinstance(other, Number):
            return self._number_and_plain(
                node, sign, (carried_node, carried), (other_node, other), right is None
            )
        if right is None and sign in ("//", "%"):
            raise NotAlike(node, f"is divided by a tensor with `{sign}`")
        if sign == "-" and carried.number is Number.BOOL:
            raise NotAlike(node, "is a bool in a subtraction, which torch refuses for tensors")
        if right is None and sign == "/":
            self._reciprocal(node, carried_node, carried, other_node, other)
        elif right is None and sign == "*" and self._swappable(node, carried_node, other_node):
            self._tensor_first(node, carried_node, other_node, other, carried)
        else:
            self.refuse_either(node, carried, divides=sign == "/")
            first = right is None and sign == "*"
            self.beside_tensor(node, carried_node, carried, other_node, other, operand=True, first=first)
        return None

    def _two_numbers(
        self, node: ast.AST, sign: str, left: tuple[ast.expr, Carried], right: tuple[ast.expr, Carried]
    ) -> Carried:
        if sign in ("/", "//", "%"):
            raise NotAlike(node, "is a divisor: Python raises on zero, a tensor does not")
        result = numbers.arithmetic(left[1].number, right[1].number)
        if left[1].device != right[1].device:
            raise NotAlike(node, "comes from another device than the number it meets")
        for operand, carried in (left, right):
            if carried.number is Number.BOOL:
                self.cast(node, operand, carried, ".long()", operand=True)
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
        literal = literal_of(other[0])
        if sign in ("/", "//", "%"):
            if not left or literal == 0:
                raise NotAlike(node, "is a divisor: Python raises on zero, a tensor does not")
            if sign == "%" and max(carried.number, other[1]) > Number.INT:
                raise NotAlike(node, "is a float under `%`, whose zero has another sign for tensors")
            if literal is None:
                self._keep_zero_division(node, sign, operand, carried, other)
        if sign == "-" and other[1] is Number.BOOL:
            raise NotAlike(node, "meets a bool in a subtraction, which torch refuses for tensors")
        if literal is not None and abs(literal) > numbers.EXACT_INT and isinstance(literal, int):
            raise NotAlike(node, "meets an integer that double can't hold")
        result = numbers.arithmetic(carried.number, other[1], division=sign == "/")
        if carried.number is Number.MIXED and result is Number.INT:
            result = Number.MIXED
        if result is Number.FLOAT and carried.number in (Number.BOOL, Number.INT):
            self.cast(node, operand, carried, ".double()", operand=True)
        elif carried.number is Number.BOOL:
            self.cast(node, operand, carried, ".long()", operand=True)
        grows = sign in ("+", "*") or (left and sign != "-")
        nonnegative = carried.nonnegative and literal is not None and literal >= 0 and grows
        return replace(carried, number=result, nonnegative=nonnegative)

    def _keep_zero_division(
        self, node: ast.AST, sign: str, operand: ast.expr, carried: Carried, other: tuple[ast.expr, Number]
    ) -> None:
        """``n`` as ``(n or 1.0 / 0)``: Python's own error where n is zero, n otherwise."""
        if self._from_a_tensor(other[0]):
            raise NotAlike(node, "is divided by a number out of another tensor: Python raises on zero")
        one = "1" if max(carried.number, other[1]) < Number.MIXED else "1.0"
        divisor = other[0]
        closed = isinstance(divisor, ast.BoolOp | ast.IfExp | ast.Lambda | ast.NamedExpr)
        before, after = ("((", ")") if closed and not self.inserts.in_parentheses(divisor) else ("(", "")
        self.inserts.around(node, divisor, before, f"{after} or {one} {sign} 0)", operand=True)

    def _from_a_tensor(self, node: ast.expr) -> bool:
        """Whether a plain number is taken out of a tensor, by itself or where its name is assigned."""
        names = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
        assigned = [
            part.value
            for part in ast.walk(self.function)
            if isinstance(part, ast.Assign) and names & set(targets(part))
        ]
        return any(
            isinstance(part, ast.Attribute) and part.attr in ("item", "tolist")
            for value in (node, *assigned)
            for part in ast.walk(value)
        )

    def unary(self, node: ast.UnaryOp, carried: Carried | None) -> Carried | None:
        self.inserts.clear(node)
        if carried is None:
            return None
        if isinstance(node.op, ast.Not):
            raise NotAlike(node, Bound.CONDITION)
        if isinstance(node.op, ast.Invert):
            raise NotAlike(node, Bound.OTHER)
        if carried.number is Number.BOOL:
            self.cast(node, node.operand, carried, ".long()", operand=True)
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
            self.refuse_either(node, carried)
            self.beside_tensor(node, held, carried, other_node, other, operand=True)
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

    # --- tensors ---------------------------------------------------------------

    def refuse_either(self, node: ast.AST, carried: Carried, *, divides: bool = False) -> None:
        """A number that may be an int or a float is a float beside a tensor: only a division makes no difference."""
        if carried.number is Number.MIXED and not divides:
            raise NotAlike(node, "may be an int or a float", "Write both as floats: `max(n, 1.0)`.")

    def beside_tensor(
        self,
        owner: ast.AST,
        node: ast.expr,
        carried: Carried,
        tensor: ast.expr,
        facts: tuple[Fact, ...],
        *,
        operand: bool,
        first: bool = False,
    ) -> None:
        """A carried number beside a tensor operand promotes as one: `_beside`. ``first``: it stands left of `*`."""
        self._check_beside(node, carried, facts)
        if first and any(numbers.is_reduced(fact) for fact in facts):
            raise NotAlike(node, "stands left of a half precision tensor", "Write the tensor first.")
        before, flag = f"{self.helpers['_beside']}(", ", True" if first else ""
        stand_in = self._stand_in(tensor)
        if stand_in is not None:
            self.stand_ins[owner] = stand_in
            self._wrap(owner, node, before, f", {ast.unparse(stand_in)}{flag})", operand=operand)
            return
        in_front = self.inserts.span(tensor) < self.inserts.span(node)
        infix = isinstance(owner, ast.BinOp | ast.Compare)
        if self._in_scope_of_its_own(owner) or not (in_front or infix):
            raise NotAlike(node, "meets a tensor in an expression", "Give the tensor a name first.")
        taken = set(self.named.values()) - {self.named.get(owner)}
        name = self.named[owner] = source.unused_name(self.function, "operand", taken)
        if in_front:
            self.inserts.around(owner, tensor, f"({name} := ", ")", operand=operand)
            self._wrap(owner, node, before, f", {name}{flag})", operand=operand)
        else:  # evaluated in the same order: _beside(number, operand := tensor) * operand
            sign = sign_of(owner.op) if isinstance(owner, ast.BinOp) else _COMPARED[type(owner.ops[0])]  # type: ignore[attr-defined]
            self.inserts.between(owner, node, tensor, before, f", {name} := ", f"{flag}) {sign} {name}")

    def _wrap(self, owner: ast.AST, node: ast.expr, before: str, after: str, *, operand: bool) -> None:
        (self.inserts.wrapped if operand else self.inserts.around)(owner, node, before, after)

    def _stand_in(self, tensor: ast.expr) -> ast.expr | None:
        """A name with whose tensor a number promotes alike: that of a sum or product with nothing but numbers."""
        if repeatable(tensor):
            return tensor
        if isinstance(tensor, ast.UnaryOp) and isinstance(tensor.op, ast.USub):
            return self._stand_in(tensor.operand)
        if isinstance(tensor, ast.BinOp) and type(tensor.op) in (ast.Add, ast.Sub, ast.Mult, ast.Div):
            if tensor in self.stand_ins:
                return self.stand_ins[tensor]
            for one, other in ((tensor.left, tensor.right), (tensor.right, tensor.left)):
                if literal_of(other) is not None:
                    return self._stand_in(one)
        return None

    def _check_beside(self, node: ast.expr, carried: Carried, facts: tuple[Fact, ...]) -> None:
        """Raises NotAlike where the tensors that were seen need the Python number."""
        if any(fact.device not in (carried.device, None) and carried.device != "cpu" for fact in facts):
            raise NotAlike(node, "meets a tensor on another device")
        try:
            numbers.check_beside(carried.number, facts)
        except Unlike as unlike:
            raise NotAlike(node, str(unlike)) from None

    def _swappable(self, node: ast.AST, held: ast.expr, tensor: ast.expr) -> bool:
        return isinstance(node, ast.BinOp) and repeatable(held) and repeatable(tensor)

    def _tensor_first(
        self, node: ast.AST, held: ast.expr, tensor: ast.expr, facts: tuple[Fact, ...], carried: Carried
    ) -> None:
        """``number * half`` as ``half * number``, which is what eager computes: in front, a 0-dim tensor would
        be rounded to half precision first."""
        self.refuse_either(node, carried)
        self._check_beside(held, carried, facts)
        name, number = ast.unparse(tensor), source.segment(self.inserts.text, held)
        self.stand_ins[node] = tensor
        self.inserts.swap(node, node, f"{name} * {self.helpers['_beside']}({number}, {name})")

    def _in_scope_of_its_own(self, owner: ast.AST) -> bool:
        """Whether a name given in the node stays in a comprehension or lambda, or may not be given there."""
        closed = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Lambda)
        around = (n for n in ast.walk(self.function) if isinstance(n, closed))
        return any(part is owner for scope in around for part in ast.walk(scope))

    def _reciprocal(
        self, node: ast.AST, held: ast.expr, carried: Carried, tensor: ast.expr, facts: tuple[Fact, ...]
    ) -> None:
        """``number / tensor`` is computed as ``tensor.reciprocal() * number`` in eager mode."""
        if not (repeatable(held) and repeatable(tensor)):
            raise NotAlike(node, "is divided by a tensor in an expression", "Give both a name first.")
        if any(fact.dtype and numbers.category(fact.dtype) is not Number.FLOAT for fact in facts):
            raise NotAlike(node, "is divided by a tensor that is not floating point")
        if not isinstance(node, ast.BinOp):
            raise NotAlike(node, "is divided by a tensor in place")
        self._check_beside(node, carried, facts)
        name, number = ast.unparse(tensor), source.segment(self.inserts.text, held)
        self.stand_ins[node] = tensor
        self.inserts.swap(node, node, f"{name}.reciprocal() * {self.helpers['_beside']}({number}, {name})")

    def in_place(self, node: ast.AugAssign, carried: Carried) -> None:
        """``tensor op= number``: the tensor keeps its dtype."""
        self.inserts.clear(node)
        if type(node.op) not in OPERATORS:
            raise NotAlike(
                node, f"is an operand of `{sign_of(node.op)}=`, which rounds differently for tensors"
            )
        facts = self._target_facts(node)
        if facts is None:
            raise NotAlike(node, Bound.STORED)
        self.same_category(node, carried, facts)
        self.refuse_either(node, carried, divides=isinstance(node.op, ast.Div))
        self.beside_tensor(node, node.value, carried, node.target, facts, operand=True)

    def fill(self, target: ast.Subscript, carried: Carried) -> None:
        """``tensor[...] = number``."""
        facts = self.classify(target.value, target)
        if isinstance(facts, Number):
            raise NotAlike(target, Bound.STORED)
        self.same_category(target, carried, facts)
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

    def same_category(self, node: ast.AST, carried: Carried, facts: tuple[Fact, ...]) -> None:
        own = {Number.MIXED: Number.FLOAT}.get(carried.number, carried.number)
        if any(fact.dtype is None or numbers.category(fact.dtype) is not own for fact in facts):
            raise NotAlike(node, "is written into a tensor of another kind of dtype")

    # --- facts -----------------------------------------------------------------

    def classify(
        self, node: ast.expr, use: ast.AST, target_of: ast.AugAssign | None = None
    ) -> Number | tuple[Fact, ...]:
        """A plain Python number, or the facts of a tensor. Raises NotAlike for anything else. ``target_of``:
        the statement, where ``node`` may be its target, which is read there as well."""
        literal = literal_of(node)
        if literal is not None:
            return Number.FLOAT if isinstance(literal, float) else Number.INT
        facts = self._seen(node, target_of)
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

    def check_plain(self, node: ast.Name, target_of: ast.AugAssign | None = None) -> None:
        """A name that is carried on one path only: on the others it must be a plain number."""
        facts = self._seen(node, target_of)
        if not facts or any(not fact.is_tensor and numbers.of_type(fact.type) is None for fact in facts):
            raise NotAlike(node, Bound.PATHS)

    def _seen(self, node: ast.expr, target_of: ast.AugAssign | None) -> tuple[Fact, ...]:
        if target_of is not None and node is target_of.target and isinstance(node, ast.Name):
            return self.facts.names(target_of, [node.id]).get(node.id, ())
        return self.facts.values(node)[0]

    def cast(self, owner: ast.AST, node: ast.expr, carried: Carried, suffix: str, *, operand: bool) -> None:
        if not carried.certain:
            raise NotAlike(node, Bound.PATHS)
        self.inserts.suffix(owner, node, suffix, operand=operand)
