"""What a moved statement gets as parameters: decided by the values that its expressions really had.

Three ways of evaluation, by where an expression stands:

- EAGER: Python evaluates it whenever the statement runs. A tensor expression is evaluated in the graph and
  only its result is passed.
- TEST: a later operand of ``and``/``or``. In the graph only where that can't fail.
- LAZY: the message of an assertion, the body of an ``if``. Evaluated in the op, from names passed as they
  are.

What makes a Python value out of a tensor (``.item()``, ``int(t)``, ``not t``, ``t and u``) always stays in
the op.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from onegraph.lowering import choice, effect_names, effect_objects, effect_temps
from onegraph.lowering.effect_facts import expressions, measured
from onegraph.lowering.effect_scope import (
    COMPREHENSIONS,
    Scope,
    free_names,
    inner_names,
    scope_of,
    stores,
)
from onegraph.lowering.effect_shapes import is_level_check
from onegraph.lowering.effect_tensors import METADATA_CALLS, Tensors
from onegraph.lowering.refused import Refused
from onegraph.rewrite import text as text_
from onegraph.rewrite.request import UNDEFINED, Fact, Request

# can't fail, whatever the values and the size of the tensor
TOTAL_CALLS = frozenset(
    (
        "any",
        "all",
        "sum",
        "isnan",
        "isinf",
        "isfinite",
        "abs",
        "logical_not",
        "logical_and",
        "logical_or",
        "count_nonzero",
        "detach",
        "float",
        "double",
        "long",
        "int",
        "bool",
    )
)
TEXT_CALLS = frozenset(("str", "repr", "format", "ascii", "join", "format_map", "ljust", "rjust", "center"))
SIZE_READERS = frozenset(("tuple", "list", "len", "max", "min", "sum", "sorted"))
SCALARS = frozenset(("int", "float", "bool"))
PLAIN = {
    "str": "str",
    "torch.dtype": "torch.dtype",
    "torch.device": "torch.device",
    "torch.Size": "list[int]",
}
_TEXTS = ast.JoinedStr | ast.FormattedValue | ast.Starred


class When(Enum):
    """When the original program evaluates an expression; see the module's docstring."""

    EAGER = 0
    TEST = 1
    LAZY = 2


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of an op: its name and annotation there, the expression at the call."""

    name: str
    annotation: str
    argument: str


@dataclass(slots=True)
class Split:
    """How a statement is divided between the graph and the op."""

    parameters: list[Parameter] = field(default_factory=list)
    edits: list[tuple[ast.expr, str]] = field(
        default_factory=list
    )  # node of the statement, its text in the op
    imports: list[str] = field(default_factory=list)  # import statements of the function that the op needs
    shows_grad: bool = False  # a tensor that requires grad is passed: its text ends in grad_fn=...


def annotation(facts: Sequence[Fact]) -> str | None:
    """The annotation that fits all values; None where no op parameter can hold them."""
    types = {"torch.Tensor" if fact.is_tensor else fact.type for fact in facts}
    optional = " | None" if "NoneType" in types else ""
    types -= {"NoneType"}
    if not facts or UNDEFINED in types:
        return None
    if not types:
        return "torch.Tensor | None"
    if types <= SCALARS:
        # a float may be a symbol that only the schema type Scalar takes
        return (types.pop() if types in ({"int"}, {"bool"}) else "torch.types.Number") + optional
    if len(types) > 1:
        return None
    only = types.pop()
    plain = only if only == "torch.Tensor" else PLAIN.get(only)
    return None if plain is None else plain + optional


def _annotation_of(node: ast.expr, facts: Sequence[Fact]) -> str | None:
    """The annotation of an expression with these values. One that says ``int`` or ``bool`` makes torch convert,
    so that the 2.5 of a later call would be shown as 2: only for what is never anything else."""
    kind = annotation(facts)
    if kind is None or _never_another_number(node):
        return kind
    kind, bar, optional = kind.partition(" |")
    return ("torch.types.Number" if kind in SCALARS else kind) + bar + optional


def _never_another_number(node: ast.expr) -> bool:
    match node:
        case ast.Compare() | ast.UnaryOp(op=ast.Not()) | ast.Attribute(attr="ndim"):
            return True
        case ast.Subscript(value=ast.Attribute(attr="shape")):
            return True
        case ast.Call(func=ast.Attribute(attr="dim" | "size" | "numel") | ast.Name(id="len" | "isinstance")):
            return True
        case ast.Constant(value=value):
            return type(value) is int
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() | ast.FloorDiv(), right=right):
            return _never_another_number(left) and _never_another_number(right)
    return False


def split(
    request: Request,
    tree: ast.Module,
    at: ast.stmt,
    moved: ast.stmt,
    tests: Mapping[ast.expr, bool],
    force: Mapping[ast.expr, bool],
    owner: tuple[str, str] | None = None,
    calls: bool = True,
) -> Split:
    """Divide a statement ``moved``: the statement ``at`` itself, or one made of parts of it.

    ``tests`` are the conditions that lead to its effects: forced where no input gets there. ``force``:
    outcomes of conditions around the statement, forced from the start. ``owner``: a local name whose object the
    statement changes, and the helper that finds the object by its id. Without ``calls`` the op makes every call that
    gives no tensor. Raises Refused.
    """
    return _Splitter(request, tree, at, moved, tests, force, owner, calls).run()


class _Splitter:
    def __init__(
        self,
        request: Request,
        tree: ast.Module,
        at: ast.stmt,
        statement: ast.stmt,
        tests: Mapping[ast.expr, bool],
        force: Mapping[ast.expr, bool],
        owner: tuple[str, str] | None,
        calls: bool,
    ) -> None:
        self.calls = calls
        self.owner, self.helper = owner or ("", "")
        self.request = request
        self.tree = tree
        self.statement = statement
        self.scope: Scope = scope_of(tree, at)
        walrus = {n.target.id for n in ast.walk(statement) if isinstance(n, ast.NamedExpr)}
        self.temps = frozenset(stores(statement)) - walrus
        local = sorted((free_names(statement) & self.scope.names) - self.temps - walrus)
        self.locals = request.facts.names(at, local, force=force or None) if local else {}
        whole = [n for n in expressions(statement) if not isinstance(n, _TEXTS | ast.BoolOp)]
        asked = [n for n in whole if self._local(n)]
        self.values = measured(request, asked, tests, force)
        self.tensors = Tensors(self.facts)
        self.taken = set((free_names(statement) | self.temps) - self.scope.names) | self.temps
        self.taken |= {n for n in local if annotation(self.locals.get(n, ()))}
        self.split = Split()
        self.by_dump: dict[str, Parameter] = {}
        self.bound: set[str] = set()  # names that the call itself binds with ``:=``

    def run(self) -> Split:
        effect_temps.check(self.statement, self.temps, self.scope)
        self._statement(self.statement, When.EAGER)
        return self.split

    # --- facts ----------------------------------------------------------------------------------------

    def facts(self, node: ast.expr) -> tuple[Fact, ...]:
        if isinstance(node, ast.Name):
            return tuple(self.locals.get(node.id, ()))
        return self.values.get(node, ())

    # --- walk -----------------------------------------------------------------------------------------

    def _statement(self, node: ast.stmt, when: When) -> None:
        match node:
            case ast.If(test=test, body=then, orelse=otherwise):
                self._expression(test, when)
                for inner in then:
                    self._statement(inner, When.LAZY)
                for inner in otherwise:
                    self._statement(inner, When.TEST if isinstance(inner, ast.If) else When.LAZY)
            case ast.Assert(test=test, msg=message):
                self._expression(test, when)
                if message is not None:
                    self._expression(message, When.LAZY)
            case ast.Expr(value=value):
                for expression, its in self._children(value, when):
                    self._expression(expression, its)
            case (
                ast.Assign(targets=[ast.Attribute() | ast.Subscript() as target], value=value)
                | ast.AugAssign(target=ast.Attribute() | ast.Subscript() as target, value=value)
            ):
                for part in (value, *self._inside_target(target)):
                    self._expression(part, when)
            case ast.Raise() | ast.Assign() | ast.AugAssign() | ast.AnnAssign() | ast.Pass():
                for child in ast.iter_child_nodes(node):
                    if isinstance(child, ast.expr):
                        self._expression(child, when)
            case _:
                raise Refused(
                    f"A {type(node).__name__.lower()} statement stands beside the effect.",
                    "Move the effect into a statement of its own.",
                )

    def _inside_target(self, target: ast.Attribute | ast.Subscript) -> Iterator[ast.expr]:
        """The expressions of a target; what is written is never passed."""
        yield target.value
        if isinstance(target, ast.Subscript):
            yield target.slice

    def _expression(self, node: ast.expr, when: When) -> None:
        if isinstance(node, ast.NamedExpr):
            self._pass_bound(node, when)
            return
        if not self._local(node) or ast.dump(node) in self.bound:
            return
        if self._passable(node, when):
            self._pass(node)
            return
        replacement = effect_objects.module_level(self.request.text, self.tree, self.scope, node)
        if replacement is not None:
            self.split.edits.append((node, replacement.text))
            self.split.imports += [i for i in replacement.imports if i not in self.split.imports]
            return
        if isinstance(node, ast.Name) and node.id == self.owner:
            self._find_again(node)
            return
        if isinstance(node, ast.Name):
            self._refuse(node)
        for child, its in self._children(node, when):
            self._expression(child, its)

    def _children(self, node: ast.AST, when: When) -> Iterator[tuple[ast.expr, When]]:
        """The expressions inside, and when each is evaluated."""
        if isinstance(node, ast.BoolOp):
            yield node.values[0], when
            yield from ((value, max(when, When.TEST, key=_order)) for value in node.values[1:])
            return
        if isinstance(node, ast.IfExp):
            yield node.test, when
            yield from ((arm, When.LAZY) for arm in (node.body, node.orelse))
            return
        if isinstance(node, (ast.Lambda, *COMPREHENSIONS)):
            when = When.LAZY
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                yield child, when
            else:
                yield from self._children(child, when)

    def _local(self, node: ast.AST) -> bool:
        """Whether the function's own names go into an expression."""
        return bool(free_names(node) & self.scope.names - self.temps)

    def _passable(self, node: ast.expr, when: When) -> bool:
        if isinstance(
            node, ast.JoinedStr | ast.FormattedValue | ast.BoolOp | ast.Starred | ast.IfExp | ast.NamedExpr
        ):
            return False
        if free_names(node) & self.temps or self._inside_comprehension(node):
            return False
        if any(is_level_check(inner) or isinstance(inner, ast.NamedExpr) for inner in ast.walk(node)):
            return False
        kind = annotation(self.facts(node))
        if kind is None or not self._where_it_says(node):
            return False
        if isinstance(node, ast.Call) and all(fact.type == "NoneType" for fact in self.facts(node)):
            return False
        if kind.startswith("str") and not self._plain_text(node):
            return False
        if not kind.startswith("torch.Tensor") and (self.tensors.in_value(node) or self._inside_op(node)):
            return False
        if isinstance(node, ast.Compare) and self._compares_shown_scalars(node):
            return False
        return when is When.EAGER or self._cannot_fail(node, when)

    def _inside_op(self, node: ast.expr) -> bool:
        """Whether the op itself evaluates a number: it reads its owner behind what earlier ops have written."""
        if self.owner and self.owner in free_names(node):
            return True
        return not self.calls and any(isinstance(part, ast.Call) for part in ast.walk(node))

    def _inside_comprehension(self, node: ast.expr) -> bool:
        names = {name for inner in self._binders if node in inner[1] for name in inner[0]}
        return bool({n.id for n in ast.walk(node) if isinstance(n, ast.Name)} & names)

    @property
    def _binders(self) -> list[tuple[frozenset[str], set[ast.AST]]]:
        return [
            (inner_names(node), set(ast.walk(node)))
            for node in ast.walk(self.statement)
            if isinstance(node, (ast.Lambda, *COMPREHENSIONS))
        ]

    def _where_it_says(self, node: ast.expr) -> bool:
        """Whether the position is true (in formatted strings Python 3.11 can be wrong)."""
        try:
            found = ast.parse(f"({text_.segment(self.request.text, node)}\n)", mode="eval").body
        except (SyntaxError, IndexError):
            return False
        return ast.dump(found) == ast.dump(node)

    def _plain_text(self, node: ast.expr) -> bool:
        """Whether a str expression only reads a string (making one belongs into the op)."""
        if isinstance(node, ast.Call):
            return choice.called(node) not in TEXT_CALLS
        return isinstance(node, ast.Name | ast.Attribute | ast.Subscript)

    def _compares_shown_scalars(self, node: ast.Compare) -> bool:
        """``n != want`` where the effect shows both: they are passed anyway."""
        operands = [node.left, *node.comparators]
        if any(fact.is_tensor and fact.shape != () for o in operands for fact in self.facts(o)):
            return False
        others = {
            ast.dump(n)
            for n in expressions(self.statement)
            if n not in set(ast.walk(node)) and isinstance(n, ast.expr)
        }
        return all(not self._local(o) or ast.dump(o) in others for o in operands)

    def _cannot_fail(self, node: ast.expr, when: When) -> bool:
        match node:
            case ast.Name() | ast.Constant():
                return True
            case ast.Attribute(value=inner):
                return self._cannot_fail(inner, when)
        described = self.tensors.described(node)
        if described is not None:
            return self._cannot_fail(described, when)
        if when is When.LAZY:
            return False
        match node:
            case ast.Call(func=ast.Attribute(value=inner, attr=name), args=[], keywords=[]):
                return name in TOTAL_CALLS and self._cannot_fail(inner, when)
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="torch"), attr=name), args=[inner], keywords=[]
            ):
                return name in TOTAL_CALLS and self._cannot_fail(inner, when)
            case (
                ast.Compare(left=left, comparators=[right])
                | ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult(), right=right)
            ):
                wide = [o for o in (left, right) if any(f.shape for f in self.facts(o))]
                return len(wide) < 2 and self._cannot_fail(left, when) and self._cannot_fail(right, when)
            case ast.UnaryOp(op=ast.Invert() | ast.USub(), operand=inner):
                return self._cannot_fail(inner, when)
        return False

    # --- results --------------------------------------------------------------------------------------

    def _pass(self, node: ast.expr) -> None:
        facts = self.facts(node)
        kind = _annotation_of(node, facts)
        assert kind is not None
        self.split.shows_grad |= any(fact.is_tensor and fact.requires_grad for fact in facts)
        key = ast.dump(node)
        known = self.by_dump.get(key)
        if known is None or not self._repeatable(node):
            plain = isinstance(node, ast.Name) and node.id.isascii()  # as the schema of an op needs it
            name = node.id if plain and isinstance(node, ast.Name) else self._new_name(node)
            known = Parameter(name, kind, text_.segment(self.request.text, node))
            self.by_dump[key] = known
            self.split.parameters.append(known)
        shown = known.name
        if kind.startswith("list[int]") and not self._read_as_sequence(node):
            shown = f"torch.Size({known.name})"
        if shown != text_.segment(self.request.text, node):
            self.split.edits.append((node, shown))

    def _pass_bound(self, node: ast.NamedExpr, when: When) -> None:
        """``(n := x.sum())`` goes to the call, where it binds ``n`` as before; the op gets it as ``n``."""
        name, kind = node.target.id, _annotation_of(node.value, self.facts(node.value))
        if when is not When.EAGER or kind is None or not name.isascii() or not self._where_it_says(node):
            raise Refused(
                f"`{name}` is set inside the expression in line {node.lineno}.",
                f"Set `{name}` in a statement of its own.",
            )
        self.split.parameters.append(Parameter(name, kind, text_.segment(self.request.text, node)))
        self.split.edits.append((node, name))
        self.bound.add(ast.dump(ast.Name(name, ast.Load())))

    def _repeatable(self, node: ast.expr) -> bool:
        """Whether evaluating an expression once stands for evaluating it twice."""
        calls = [n for n in ast.walk(node) if isinstance(n, ast.Call)]
        safe = (
            TOTAL_CALLS
            | METADATA_CALLS
            | {"max", "min", "mean", "std", "var", "norm", "amax", "amin", "item"}
        )
        return all(isinstance(c.func, ast.Attribute) and c.func.attr in safe for c in calls)

    def _read_as_sequence(self, node: ast.expr) -> bool:
        for parent in ast.walk(self.statement):
            if isinstance(parent, ast.Call) and node in parent.args:
                return isinstance(parent.func, ast.Name) and parent.func.id in SIZE_READERS
            if isinstance(parent, ast.Subscript) and parent.value is node:
                return not isinstance(parent.slice, ast.Slice)
        return False

    def _new_name(self, node: ast.expr) -> str:
        return self._unused(effect_names.of_value(node, self.scope.names))

    def _unused(self, base: str) -> str:
        name, count = base, 2
        while name in self.taken:
            name, count = f"{base}_{count}", count + 1
        self.taken.add(name)
        return name

    def _find_again(self, node: ast.Name) -> None:
        """The owner itself: the op gets its id."""
        known = self.by_dump.get(ast.dump(node))
        if known is None:
            name = self._unused("owner")
            known = Parameter(name, "int", f"{self.helper}(id({node.id}), True)")
            self.by_dump[ast.dump(node)] = known
            self.split.parameters.append(known)
        self.split.edits.append((node, f"{self.helper}({known.name})"))

    def _refuse(self, node: ast.Name) -> None:
        facts = self.locals.get(node.id, ())
        types = sorted({fact.type for fact in facts} - {UNDEFINED})
        if not facts:
            reason = f"No input reaches line {node.lineno}, so what `{node.id}` holds is not known."
            step = "Give inputs that reach it."
        elif any(fact.type == UNDEFINED for fact in facts):
            reason, step = f"`{node.id}` is not always set here.", f"Set `{node.id}` before the condition."
        else:
            reason = f"`{node.id}` is a {' or a '.join(types)}, which an op can't take as a parameter."
            step = f"Put what is needed of `{node.id}` (a tensor, a number, a string) into a variable first."
        raise Refused(reason, step)


def _order(when: When) -> int:
    return when.value
