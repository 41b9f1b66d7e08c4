"""Where the branch stands: its function, its blocks, what comes behind it and who else sees its values."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from onegraph.lowering import flow, ops
from onegraph.lowering.choice import called
from onegraph.lowering.parts import Out
from onegraph.lowering.predicate import is_tensor_test
from onegraph.lowering.refused import InGradientBlock, Refused
from onegraph.lowering.state import key_of
from onegraph.lowering.written_behind import makes_new
from onegraph.model import Span
from onegraph.rewrite import text as edit
from onegraph.rewrite.request import Fact, Facts, Request

FunctionDef = ast.FunctionDef | ast.AsyncFunctionDef
_LOOPS = (ast.For, ast.AsyncFor, ast.While)


def find(request: Request) -> Place:
    """The place of the outermost tensor branch around the request's site. Raises Refused."""
    tree = edit.parse(request.text)
    path = edit.path_at(tree, request.site.span)
    site = _site(path, request.site.span)
    index = next(
        (i for i in range(len(path) - 1, -1, -1) if isinstance(path[i], FunctionDef | ast.Lambda)), None
    )
    if index is None:
        raise Refused("the branch stands at module level", "Move it into a function.")
    function = path[index]
    assert isinstance(function, edit.Function)
    qualname = next(name for name, node in edit.functions(tree) if node is function)
    test = site if isinstance(site, ast.BoolOp) else site.test
    if not is_tensor_test(request.facts, test, {}) and request.facts.values(test)[0]:
        raise Refused(
            f"`{ast.unparse(test)}` is decided by a Python number that the data gives",
            "Decide on the tensor, before a number or a size is taken out of it.",
        )
    root = _outermost(path[index + 1 :], site, request.facts)
    if isinstance(function, FunctionDef) and isinstance(root, ast.If):
        root = _first_early_return(function, root, request.facts)
    return Place(request.text, root, function, qualname)


def _site(path: Sequence[ast.expr | ast.stmt], span: Span) -> ast.If | ast.IfExp | ast.BoolOp:
    inner: ast.AST | None = None
    for node in reversed(path):
        inside_test = inner is not None and inner is getattr(node, "test", None)
        whole = isinstance(node, ast.If) and (span.line, span.column) == edit.position(node)[:2]
        if isinstance(node, ast.If | ast.IfExp) and (inside_test or whole or inner is None):
            return node
        if isinstance(node, ast.While) and (inside_test or inner is None):
            raise Refused(
                "`while` on a tensor", "Give the loop a fixed number of rounds and select with torch.where."
            )
        if isinstance(node, ast.Assert):
            raise Refused("`assert` on a tensor is a check, not a branch", "See raise_on_tensor.")
        if isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp) and any(
            inner is test for generator in node.generators for test in generator.ifs
        ):
            raise Refused("a comprehension filters by tensor values", "Filter with a mask instead.")
        if isinstance(node, ast.stmt) and not isinstance(node, ast.If):
            break
        inner = node
    value = next((n for n in path if isinstance(n, ast.BoolOp)), None)
    if value is not None:
        return value
    raise Refused(
        "a tensor's truth value is taken where no branch is written", "Write the choice as torch.where."
    )


def _outermost(
    path: Sequence[ast.expr | ast.stmt], site: ast.If | ast.IfExp | ast.BoolOp, facts: Facts
) -> ast.If | ast.IfExp | ast.BoolOp:
    """Inside the arm of another tensor branch, that one is lowered, and the site with it."""
    for node, below in pairwise(path):
        if node is site:
            break
        tested = isinstance(node, ast.If | ast.IfExp) and below is not node.test
        if tested and is_tensor_test(facts, node.test, {}):  # type: ignore[union-attr]
            assert isinstance(node, ast.If | ast.IfExp)
            return node
    return site


def _first_early_return(function: FunctionDef, root: ast.If, facts: Facts) -> ast.If:
    """A tensor branch that returns early takes the rest of the function with it, so it is lowered first."""
    for statement in function.body:
        if statement is root or any(node is root for node in ast.walk(statement)):
            break
        early = isinstance(statement, ast.If) and any(flow.inside(statement, ast.Return))
        if early and is_tensor_test(facts, statement.test, {}):  # type: ignore[attr-defined]
            assert isinstance(statement, ast.If)
            return statement
    return root


@dataclass
class Place:
    """A branch (``root``) in a function."""

    text: str
    root: ast.If | ast.IfExp | ast.BoolOp
    function: edit.Function
    qualname: str

    @cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:
        return {
            child: node for node in ast.walk(edit.parse(self.text)) for child in ast.iter_child_nodes(node)
        }

    @cached_property
    def unit(self) -> str:
        """One step of indentation."""
        return edit.indent_unit(self.text)

    @property
    def statement(self) -> ast.stmt | None:
        """The statement that holds the root."""
        return next((n for n in self.around(self.root) if isinstance(n, ast.stmt)), None)

    @cached_property
    def gradients(self) -> bool:
        """Whether a gradient may flow: False under ``no_grad`` or ``inference_mode`` written around the
        branch."""
        return self.gradients_at(self.root)

    def gradients_at(self, node: ast.AST) -> bool:
        """The same for a branch inside."""
        marks = list(getattr(self.function, "decorator_list", []))
        for around in self.around(node):
            if isinstance(around, ast.With):
                marks += [item.context_expr for item in around.items]
            if around is self.function:
                break
        return not any(map(without_gradients, marks))

    def around(self, node: ast.AST) -> Iterator[ast.AST]:
        """The node and everything around it, from the inside out."""
        found: ast.AST | None = node
        while found is not None:
            yield found
            found = self.parents.get(found)

    def block_of(self, node: ast.stmt) -> list[ast.stmt]:
        """The block that holds a statement."""
        parent = self.parents[node]
        for name in ("body", "orelse", "finalbody"):
            block: list[ast.stmt] = getattr(parent, name, [])
            if isinstance(block, list) and any(s is node for s in block):
                return block
        raise Refused("the branch stands in a `match` or `except` block", "Move it out of the block.")

    def is_elif(self, node: ast.If) -> bool:
        return edit.segment(self.text, node).startswith("elif")

    def rest(self, node: ast.If) -> list[ast.stmt]:
        """The statements from behind the branch to the end of the function. Raises Refused in a loop or
        such."""
        block = self.block_of(node)
        rest = block[next(i for i, s in enumerate(block) if s is node) + 1 :]
        if flow.always_leaves(rest) and not self.in_loop(node):
            return rest
        statement: ast.stmt = node
        while (parent := self.parents[statement]) is not self.function:
            if not isinstance(parent, ast.If | ast.With):
                word = type(parent).__name__.lower()
                raise Refused(
                    f"an early return inside a `{word}`", "Assign the result and return it at the end."
                )
            siblings = self.block_of(parent)
            if siblings[-1] is not parent:
                reason = f"an early return with code behind the block around it (line {parent.lineno})"
                step = "Assign the result and return it at the end."
                if isinstance(parent, ast.With) and not self.gradients_at(parent):
                    raise InGradientBlock(reason, step, node)
                raise Refused(reason, step)
            statement = parent
        return rest

    def in_loop(self, node: ast.AST) -> bool:
        """Whether the node stands in a loop of the function."""
        for outer in self.around(node):
            if outer is self.function:
                return False
            if isinstance(outer, _LOOPS):
                return True
        return False

    def _loop_start(self, node: ast.AST) -> int | None:
        """The first line of the outermost loop around a node."""
        loops = [outer for outer in self.around(node) if isinstance(outer, _LOOPS)]
        return loops[-1].lineno if loops else None

    def alone(self, node: ast.stmt) -> bool:
        """Whether the block that the statement stands in has no other."""
        return len(self.block_of(node)) == 1

    def live_after(self, node: ast.AST) -> frozenset[str]:
        """The names that may be read behind the branch."""
        if not isinstance(self.function, FunctionDef):
            return frozenset()
        statement = next(n for n in self.around(node) if isinstance(n, ast.stmt))
        return flow.live_after(self.function, statement)

    def bound_before(self, name: str, node: ast.AST) -> bool:
        """Whether the text may have bound the name before the branch."""
        if any(isinstance(a, ast.arg) and a.arg == name for a in ast.walk(self.function.args)):
            return True
        line = getattr(node, "lineno", 0)
        stores = [n for n in ast.walk(self.function) if isinstance(n, ast.Name) and n.id == name]
        return any(isinstance(n.ctx, ast.Store) and n.lineno < line for n in stores)

    def made_new_first(self, name: str, statements: Sequence[ast.stmt]) -> bool:
        """Whether the statements bind the name to a new tensor before they change it."""
        for statement in statements:
            if isinstance(statement, ast.Assign) and key_of(statement.targets[0]) == name:
                return len(statement.targets) == 1 and makes_new(statement.value)
            if name in flow.binds(statement) or any(
                isinstance(n, ast.Name) and n.id == name and not self.only_computed_with(n)
                for n in ast.walk(statement)
            ):
                return False
        return False

    def targets(self, node: ast.expr) -> tuple[str, ...]:
        """The names and attributes that are bound to the value itself."""
        parent = self.parents[node]
        if not isinstance(parent, ast.Assign):
            return ()
        return tuple(key for target in parent.targets if (key := key_of(target)))

    def one_sided(
        self, first: Sequence[ast.stmt], second: Sequence[ast.stmt], node: ast.AST, facts: Facts
    ) -> list[str]:
        """Differentiable values and modules that only one side uses, and nothing else in the function."""
        made = flow.binds(first) | flow.binds(second)
        sides = [self._sources(side, facts) for side in (first, second)]
        inside = {id(n) for s in (*first, *second) for n in ast.walk(s)}
        test = getattr(node, "test", None)
        inside |= {id(n) for n in ast.walk(test)} if test is not None else set()
        elsewhere = {
            key
            for n in ast.walk(self.function)
            if id(n) not in inside and isinstance(n, ast.Name | ast.Attribute) and isinstance(n.ctx, ast.Load)
            and (key := key_of(n))
        }  # fmt: skip
        only = (sides[0].keys() ^ sides[1].keys()) - made - elsewhere
        return sorted(only)

    def _sources(self, side: Sequence[ast.stmt], facts: Facts) -> dict[str, None]:
        found: dict[str, None] = {}
        for node in (n for s in side for n in _differentiable(s)):
            if not isinstance(node, ast.Name | ast.Attribute) or not isinstance(node.ctx, ast.Load):
                continue
            parent = self.parents.get(node)
            key = key_of(node)
            if key is None:
                continue
            values = facts.values(node)[0]
            is_called = isinstance(parent, ast.Call) and parent.func is node
            if any(_may_need_grad(f, isinstance(node, ast.Attribute)) for f in values) or (
                is_called and any(not _is_code(f.type) for f in values)
            ):
                found[key] = None
        return found

    def attributes_read(self, statements: Sequence[ast.stmt], outs: Sequence[Out], facts: Facts) -> list[str]:
        """Tensor attributes that the arms read, where the object's attributes are also written; see
        `branch`."""
        wanted = [out.key for out in outs if out.attribute]
        if not wanted and not self._class_writes_attributes():
            return []
        for node in (n for s in statements for n in ast.walk(s)):
            key = key_of(node) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) else None
            if key is None or key in wanted or key.count(".") != 1:
                continue
            assert isinstance(node, ast.Attribute)
            if isinstance(node.value, ast.Name) and node.value.id in flow.binds(statements):
                continue
            owner = facts.values(node.value)[0]
            if any(f.is_tensor for f in facts.values(node)[0]) and not any(f.is_tensor for f in owner):
                wanted.append(key)
        return wanted

    def sharing_storage(self, statements: Sequence[ast.stmt], node: ast.AST, facts: Facts) -> list[list[str]]:
        """Names and attributes read in the arms, in groups of tensors that share storage."""
        statement = next(n for n in self.around(node) if isinstance(n, ast.stmt))
        names = sorted(flow.reads(statements))
        seen: dict[str, list[int]] = {
            name: [f.storage for f in found if f.storage is not None]
            for name, found in facts.names(statement, names).items()
        }
        for part in (n for s in statements for n in ast.walk(s) if isinstance(n, ast.Attribute)):
            key = key_of(part)
            if key is not None and key.count(".") == 1 and isinstance(part.ctx, ast.Load):
                found = facts.values(part)[0]
                if not any(f.is_tensor for f in facts.values(part.value)[0]):
                    seen.setdefault(key, [f.storage for f in found if f.storage is not None])
        groups: list[list[str]] = []
        for key, storages in seen.items():
            group = next((g for g in groups if any(set(seen[other]) & set(storages) for other in g)), None)
            if group is None:
                groups.append([key])
            else:
                group.append(key)
        return [group for group in groups if len(group) > 1]

    def _class_writes_attributes(self) -> bool:
        owner = next((n for n in self.around(self.function) if isinstance(n, ast.ClassDef)), None)
        if owner is None:
            return False
        methods = [m for m in owner.body if isinstance(m, FunctionDef) and m.name != "__init__"]
        return any(
            isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store)
            for m in methods
            for n in ast.walk(m)
        )

    def escapes(self, name: str, node: ast.AST) -> bool:
        """Whether the program may see which tensor the name holds behind the branch, not only its values."""
        inside = {id(n) for n in ast.walk(node)}
        end, start = edit.position(node)[2], self._loop_start(node)
        for use in ast.walk(self.function):
            if not (isinstance(use, ast.Name) and use.id == name) or id(use) in inside:
                continue
            if use.lineno <= end and (start is None or use.lineno < start):
                continue
            if isinstance(use.ctx, ast.Store) and not isinstance(self.parents[use], ast.AugAssign):
                continue
            if not self.only_computed_with(use):
                return True
        return name in flow.captured(self.function)

    def only_indexed(self, name: str, node: ast.AST) -> bool:
        """Whether the value of a name is only taken apart outside of the branch: by an index, or into names."""
        inside = {id(n) for n in ast.walk(node)}
        for use in ast.walk(self.function):
            if not (isinstance(use, ast.Name) and use.id == name) or id(use) in inside:
                continue
            parent = self.parents[use]
            if isinstance(use.ctx, ast.Store) and isinstance(parent, ast.Assign):
                continue
            indexed = (
                isinstance(parent, ast.Subscript) and parent.value is use and isinstance(parent.ctx, ast.Load)
            )
            unpacked = isinstance(parent, ast.Assign) and all(
                isinstance(t, ast.Tuple) for t in parent.targets
            )
            sliced = isinstance(parent, ast.Subscript) and isinstance(parent.slice, ast.Slice)
            if not (unpacked or (indexed and not sliced)):
                return False
        return name not in flow.captured(self.function)

    def only_computed_with(self, node: ast.expr) -> bool:
        """Whether the value goes into an operation whose result doesn't share its memory."""
        parent = self.parents[node]
        if isinstance(parent, ast.BinOp | ast.Compare | ast.UnaryOp):
            return True
        call = self.parents.get(parent) if isinstance(parent, ast.Attribute) else parent
        return isinstance(call, ast.Call) and called(call) in ops.VALUES

    def number_misused(self, name: str, node: ast.AST, number: str, facts: Facts) -> ast.AST | None:
        """A later use of a Python number that a 0-dim tensor in its place would change; None when there is
        none."""
        inside = {id(n) for n in ast.walk(node)}
        end = edit.position(node)[2]
        looped = self.in_loop(node)
        for use in ast.walk(self.function):
            if not (isinstance(use, ast.Name) and use.id == name and isinstance(use.ctx, ast.Load)):
                continue
            if id(use) in inside or (use.lineno <= end and not looped):
                continue
            parent = self.parents[use]
            if isinstance(parent, ast.BinOp):
                other = parent.right if parent.left is use else parent.left
                seen = facts.values(other)[0]
                # A power, and what a number is divided by, are rounded otherwise.
                rounded = isinstance(parent.op, ast.Pow) or (
                    isinstance(parent.op, ast.Div) and parent.left is use
                )
                if not rounded and seen and all(_promotes_alike(f, number) for f in seen):
                    continue
            elif isinstance(parent, ast.Compare):
                others = [v for v in (parent.left, *parent.comparators) if v is not use]
                if all(f.is_tensor for v in others for f in facts.values(v)[0]):
                    continue
            elif number == "bool" and isinstance(parent, ast.If | ast.IfExp) and parent.test is use:
                continue
            return parent
        return None


def without_gradients(mark: ast.expr, of: tuple[str, ...] = ("no_grad", "inference_mode")) -> bool:
    """Whether a decorator, or the head of a ``with``, turns gradients off."""
    return ast.unparse(mark).removesuffix("()").rpartition(".")[2] in of


def _promotes_alike(fact: Fact, number: str) -> bool:
    """Whether an operation with it gives the same for a Python number and a 0-dim tensor of its type."""
    floating = (fact.dtype or "").startswith(("torch.float", "torch.bfloat"))
    if not fact.is_tensor or (number == "float" and not floating):
        return False
    return bool(fact.shape) or fact.dtype in _DEFAULT[number]


_DEFAULT = {"float": ("torch.float64",), "int": ("torch.int64",), "bool": ("torch.bool",)}


def _may_need_grad(fact: Fact, attribute: bool) -> bool:
    """An attribute says whether it does; a local name may come from an input that does on another call."""
    floating = (fact.dtype or "").startswith(("torch.float", "torch.bfloat", "torch.complex"))
    return fact.is_tensor and floating and (not attribute or fact.requires_grad is not False)


def _differentiable(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes that a gradient can reach: no tests, no comparisons."""
    yield node
    if isinstance(node, ast.Compare):
        return
    for name, value in ast.iter_fields(node):
        if name == "test":
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _differentiable(child)


def _is_code(type_name: str) -> bool:
    """Functions, methods and types hold no parameters of their own."""
    last = type_name.rpartition(".")[2]
    return last in {
        "type",
        "function",
        "builtin_function_or_method",
        "method",
        "method_descriptor",
        "NoneType",
        "module",
    } or (last.startswith("Script") or "builtin" in last)
