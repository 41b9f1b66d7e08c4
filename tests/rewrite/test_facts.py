"""What is measured about expressions and names, on the path taken and on forced ones."""

from __future__ import annotations

import ast
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch

from onegraph.model import Call, Program
from onegraph.rewrite import text
from onegraph.rewrite.facts import measure
from onegraph.rewrite.request import UNDEFINED, Facts
from onegraph.rewrite.workspace import Workspace

Load = Callable[..., ModuleType]

BRANCH = """
import torch

calls = []


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3))

    def forward(self, x, *, scale: float = 2.0):
        calls.append(1)
        h = x * self.weight
        if h.sum() > 0:
            y = h * scale
            late = y.half()
        else:
            y = h.detach()
        print("said")
        return y, [i + 1 for i in range(2)], f"{x.shape[0]:>{3}}"
"""


def net(load: Load, source: str = BRANCH) -> tuple[ModuleType, Program, Facts, ast.Module]:
    m = load(source)
    target = m.Net() if hasattr(m, "Net") else m.f
    program = Program("net", target, (Call((torch.ones(3),)),))
    assert m.__file__
    return m, program, measure(program, Workspace(), m.__file__), text.parse(Workspace().current(m.__file__))


def find(tree: ast.Module, source: str) -> Any:
    found = [n for n in ast.walk(tree) if isinstance(n, ast.expr | ast.stmt) and ast.unparse(n) == source]
    return next(n for n in found if not isinstance(getattr(n, "ctx", None), ast.Store))


def test_an_expression_has_the_metadata_it_really_had(load: Load, capsys: Any) -> None:
    m, _, facts, tree = net(load)
    weight, test, scale, never = facts.values(
        find(tree, "self.weight"), find(tree, "h.sum() > 0"), find(tree, "scale"), find(tree, "h.detach()")
    )
    assert weight[0].type == "torch.nn.parameter.Parameter" and weight[0].requires_grad
    assert test[0].is_tensor and test[0].shape == () and test[0].dtype == "torch.bool"
    assert scale[0].type == "float" and scale[0].value == "2.0"
    assert never == ()
    assert m.calls == [], "a measurement leaves no trace"
    assert capsys.readouterr().out == ""


def test_both_arms_are_measured_by_forcing_the_predicate(load: Load) -> None:
    _, _, facts, tree = net(load)
    test, branch = find(tree, "h.sum() > 0"), next(n for n in ast.walk(tree) if isinstance(n, ast.If))
    true = facts.names(branch, ["y", "late", "x"], after=True, force={test: True})
    false = facts.names(branch, ["y", "late"], after=True, force={test: False})
    assert true["y"][0].requires_grad is True and true["late"][0].dtype == "torch.float16"
    assert false["y"][0].requires_grad is False and false["late"][0].type == UNDEFINED
    (untaken,) = facts.values(find(tree, "h.detach()"), force={test: False})
    assert untaken[0].is_tensor


def test_names_before_a_statement_include_globals_and_unbound_locals(load: Load) -> None:
    _, _, facts, tree = net(load)
    branch = next(n for n in ast.walk(tree) if isinstance(n, ast.If))
    before = facts.names(branch, ["h", "y", "torch", "scale"])
    assert before["h"][0].shape == (3,) and before["y"][0].type == UNDEFINED
    assert before["torch"][0].type == "module"


def test_a_view_shares_storage_and_a_copy_does_not(load: Load) -> None:
    _, _, facts, tree = net(
        load,
        """
        def f(x):
            a = x.view(3, 1)
            b = x.clone()
            return a, b
        """,
    )
    x, view, clone = facts.values(find(tree, "x"), find(tree, "x.view(3, 1)"), find(tree, "x.clone()"))
    assert x[0].storage == view[0].storage != clone[0].storage


def test_each_different_value_of_a_loop_is_one_fact(load: Load) -> None:
    _, _, facts, tree = net(
        load,
        """
        def f(x):
            for k in (1, 2, 2):
                y = x.repeat(k)
            return y
        """,
    )
    (y,) = facts.values(find(tree, "x.repeat(k)"))
    assert [fact.value for fact in facts.values(find(tree, "x.repeat(k)").args[0])[0]] == ["1", "2"]
    assert [fact.shape for fact in y] == [(3,), (6,)]


def test_a_forced_endless_loop_ends_and_a_forced_failure_is_tolerated(load: Load) -> None:
    _, _, facts, tree = net(
        load,
        """
        def f(x):
            while x.sum() > 10:
                x = x + 1
            if x.min() > 5:
                raise ValueError("no")
            return x
        """,
    )
    (inside,) = facts.values(find(tree, "x + 1"), force={find(tree, "x.sum() > 10"): True})
    assert inside[0].shape == (3,)
    (raised,) = facts.values(find(tree, "ValueError('no')"), force={find(tree, "x.min() > 5"): True})
    assert raised[0].type == "ValueError"


def test_one_run_answers_many_questions(load: Load) -> None:
    m = load(BRANCH)
    model, file = m.Net(), m.__file__
    assert file
    runs: list[str] = []

    class Counted(dict[str, Any]):
        def items(self) -> Any:
            runs.append("run")
            return super().items()

    facts = measure(Program("t", model, (Call((torch.ones(3),), Counted()),)), Workspace(), file)
    tree = text.parse(Workspace().current(m.__file__))
    branch = next(n for n in ast.walk(tree) if isinstance(n, ast.If))
    facts.names(branch, ["h"])
    facts.names(branch, ["h", "y", "x"], after=True)
    facts.values(find(tree, "h.sum()"), find(tree, "self.weight"), branch.test)
    facts.names(branch.body[0], ["h"])
    assert runs == ["run"]


def test_nested_functions_generators_super_and_lambdas_survive_measuring(load: Load) -> None:
    _, program, facts, tree = net(
        load,
        """
        import torch


        class Base:
            def go(self, x):
                return x + 1


        class C(Base):
            def __init__(self):
                self.__k = 3

            def go(self, x):
                def gen(n):
                    for i in range(n):
                        got = yield i * self.__k
                    return got
                first, *rest = [v for v in gen(3)]
                pick = lambda t, d=rest[0]: t[..., :d]
                match first:
                    case 0 as zero:
                        out = pick(super().go(x))
                    case _:
                        out = None
                out[0:1] += (w := 2)
                return out, w


        def f(x):
            return C().go(x)
        """,
    )
    natural = program.target(torch.ones(3))
    (out,) = facts.values(find(tree, "pick(super().go(x))"))
    assert out[0].shape == natural[0].shape == (3,)
    (private,) = facts.values(find(tree, "self.__k"))
    assert private == () or private[0].value == "3"
    assert facts.values(find(tree, "i * self.__k"))[0][-1].value == "6"
