"""``onegraph.compile`` and calls of another sort than the one that was mended for: dtype, rank, Python type, None,
gradients, modes. Each mended text here is right for its first call and wrong elsewhere. What a later call gets is what
the program gives, or an error that says what is left; it never gets something else, and silently."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from imported import imported
from onegraph.deliver import GraphBreaksLeft, GraphBreaksLeftWarning, compile
from onegraph.deliver import compiled as implementation
from onegraph.model import (
    Check,
    Evidence,
    FileChange,
    Findings,
    FixResult,
    Level,
    Outcome,
    Owner,
    Predicate,
    Program,
    Repair,
    Site,
    Span,
    Status,
    Trace,
)

T = torch.tensor
X = torch.tensor([[1.0, -2.0], [3.0, 4.0]])
TEST = "x.sum() > 0"

HEAD = "import torch\n\n\nMODE = 'sum'\n\n\n"
PROGRAM = (
    HEAD
    + """\
def f(x, y=None):
{body}


def outer(x, y=None):
    return [f(x, y)]


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = 2.0
        self.weight = torch.nn.Parameter(torch.ones(2))

    def forward(self, x):
{forward}


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = Layer()

    def forward(self, x):
        return self.layer(x)

    def method(self, x):
        return self.layer(x) + 1
"""
)
BRANCH = "if x.sum() > 0:\n    x = x * 2.5\nreturn x"
SELECT = "return torch.where(x.sum() > 0, x * 2.5, x)"


def text(body: str, forward: str = BRANCH) -> str:
    def indented(lines: str, by: int) -> str:
        return "\n".join(" " * by + line for line in lines.splitlines())

    return PROGRAM.format(body=indented(body, 4), forward=indented(forward, 8))


SITE = Site(
    "branch_on_tensor",
    Span("/somewhere/model.py", 8, 4, 8, 20),
    "if x.sum() > 0:",
    "f",
    Outcome.RESUMED,
    Owner.USER,
    "",
    1,
    0,
    False,
    "why not",
)


class Mender:
    """Mends the first time it is asked; for more calls together it finds nothing that is right."""

    def __init__(self, path: Path, original: str, mended: str) -> None:
        functions = ("f", "Layer.forward")
        self.change = FileChange(str(path), original, mended, functions)
        self.asked: list[Program] = []
        self.left: tuple[Site, ...] = ()

    def __call__(self, program: Program, *, level: str) -> FixResult:
        self.asked.append(program)
        first = len(self.asked) == 1
        repair = Repair(SITE, Status.APPLIED, SITE.kind, Level.EXACT, "select", "")
        return FixResult(
            program.name,
            Findings((SITE,), Trace()),
            Findings(self.left if first else (SITE,), Trace()),
            (repair,) if first else (),
            (self.change,) if first else (),
            Evidence((Check("outputs", True),)),
            predicates=tuple(Predicate(name, TEST, TEST) for name in ("f", "Layer.forward")),
        )


Load = Callable[..., tuple[ModuleType, Mender]]


@pytest.fixture
def load(tmp_path: Path) -> Iterator[Load]:
    def load(body: str = BRANCH, mended: str = SELECT, **forward: str) -> tuple[ModuleType, Mender]:
        original = text(body, **({"forward": forward["forward"]} if forward else {}))
        module = imported(tmp_path, original)
        path = Path(str(module.__file__))
        return module, Mender(path, original, text(mended, forward.get("mended_forward", SELECT)))

    yield load
    torch._dynamo.reset()


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[Program]:
    """The calls on which mended code was compared once more."""
    programs: list[Program] = []
    plain = implementation.later

    def later(program: Program, *args: Any) -> Evidence:
        programs.append(program)
        return plain(program, *args)

    monkeypatch.setattr(implementation, "later", later)
    return programs


def same(left: Any, right: Any) -> bool:
    if isinstance(left, list | tuple):
        return type(left) is type(right) and all(map(same, left, right))
    if not isinstance(left, torch.Tensor):
        return type(left) is type(right) and left == right
    told = [(each.dtype, each.shape, each.requires_grad) for each in (left, right)]
    return told[0] == told[1] and bool((left == right).all())


NUMBER = "z = y\nif x.sum() > 0:\n    z = z + 1\nreturn x, z"
AS_TENSOR = "y = torch.as_tensor(y)\nreturn x, torch.where(x.sum() > 0, y + 1, y)"
OPTIONAL = "if y is not None and x.sum() > 0:\n    x = x * y\nreturn x"
TOTAL = "z = x[0]\nif z.sum() > 0:\n    z = z * 2\nfor each in x[1:]:\n    z = z + each\nreturn z"
FLOATS = "z = x[0].float()\nz = torch.where(z.sum() > 0, z * 2, z)\nreturn z + sum(t.float() for t in x[1:])"
SUM = "if x.sum() > 0:\n    x = x + y\nreturn x"

CASES = [
    pytest.param(
        BRANCH, SELECT, (X,), (T([1, 2]),), id="integers, alike as long as the other arm does not run"
    ),
    pytest.param(BRANCH, SELECT, (X,), (T([1, -2]),), id="integers"),
    pytest.param(SUM, "return torch.where(x.sum() > 0, x + y, x)", (X, X), (T(-1.0), X), id="no dimensions"),
    pytest.param(SUM, "return torch.where(x.sum() > 0, x + y, x)", (X, X), (-X[0], X), id="another rank"),
    pytest.param(SUM, "return torch.where(x.sum() > 0, x + y, x)", (X, X), (-X[:1], X), id="a size of 1"),
    pytest.param(
        "if x.real.sum() > 0:\n    x = x.abs()\nreturn x",
        "return torch.where(x.real.sum() > 0, x.abs(), x)",
        (X,),
        (X * 1j,),
        id="complex",
    ),
    pytest.param(
        OPTIONAL, "return torch.where(x.sum() > 0, x * (2.0 if y is None else y), x)", (X, X), (X,), id="None"
    ),
    pytest.param(NUMBER, AS_TENSOR, (X, T(1.0)), (X, 1.0), id="a Python number"),
    pytest.param(NUMBER, AS_TENSOR, (X, T(1.0)), (X, True), id="a Python flag"),
    pytest.param(TOTAL, FLOATS, ([X, X],), ([T([1, 2]), T([3, 4])],), id="a list of integer tensors"),
    pytest.param(
        BRANCH,
        "return torch.where(x.detach().sum() > 0, x.detach() * 2.5, x.detach())",
        (X,),
        (X.clone().requires_grad_(),),
        id="a tensor that requires a gradient",
    ),
    pytest.param(
        "if x.sum() > 0:\n    x = x * 2.5\nreturn x.stride()[0] * x",
        "return torch.where(x.sum() > 0, x * 2.5, x) * 2",
        (X,),
        (X.t(),),
        id="other strides",
    ),
    pytest.param(
        "if x.sum() > 0:\n    x = x * 2.5\nreturn x if x is y else x + y",
        "return torch.where(x.sum() > 0, x * 2.5, x) + y",
        (X, X + 1),
        (X, X),
        id="one tensor twice",
    ),
]


@pytest.mark.parametrize(("body", "mended", "first", "later"), CASES)
def test_an_error_where_the_mended_code_would_give_something_else(
    load: Load, body, mended, first, later
) -> None:
    program, fix = load(body, mended)
    compiled = compile(program.f, fix=fix, backend="eager")
    assert same(compiled(*first), program.f(*first))
    for _ in range(2):
        with pytest.raises(GraphBreaksLeft):
            compiled(*later)
    assert same(compiled(*first), program.f(*first))
    assert len(fix.asked) == 2  # for the first call, and for both together


@pytest.mark.parametrize(("body", "mended", "first", "later"), CASES[::4])
def test_not_strict_the_original_does_the_call(load: Load, body, mended, first, later) -> None:
    program, fix = load(body, mended)
    compiled = compile(program.f, fix=fix, backend="eager", strict=False)
    assert same(compiled(*first), program.f(*first))
    with pytest.warns(GraphBreaksLeftWarning) as warned:
        assert same(compiled(*later), program.f(*later))
    assert len(warned) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert same(compiled(*later), program.f(*later))
        assert same(compiled(*first), program.f(*first))


def test_calls_of_other_sorts_that_the_mended_code_is_right_for(load: Load, compared: list[Program]) -> None:
    program, fix = load()
    compiled = compile(program.f, fix=fix, backend="eager")
    for x in (X, X.double(), X[0], T(2.0), X.clone().requires_grad_(), X[:1]):
        assert same(compiled(x), program.f(x))
    assert len(compared) == 5
    assert len(fix.asked) == 1


def test_other_sizes_and_other_ways_to_pass_are_no_other_sort(load: Load, compared: list[Program]) -> None:
    program, fix = load(SUM, "return torch.where(x.sum() > 0, x + y, x)")
    compiled = compile(program.f, fix=fix, backend="eager")
    wide = torch.ones(5, 7)
    compiled(X, X)
    for got in (compiled(X, y=X), compiled(y=X, x=X)):
        assert same(got, program.f(X, X))
    assert same(compiled(wide, wide + 1), program.f(wide, wide + 1))
    torch._dynamo.reset()
    assert same(compiled(X, X), program.f(X, X))
    assert len(compared) <= 1  # X twice is one tensor, and wide and wide + 1 are two


def test_every_sort_is_compared_once(load: Load, compared: list[Program]) -> None:
    program, fix = load()
    compiled = compile(program.f, fix=fix, backend="eager")
    for _ in range(2):
        for x in (X, X.double()):
            assert same(compiled(x), program.f(x))
        torch._dynamo.reset()
    assert len(compared) == 1


def test_functions_that_are_called_are_the_mended_code_too(load: Load) -> None:
    program, fix = load()
    compiled = compile(program.outer, fix=fix, backend="eager")
    assert same(compiled(X), program.outer(X))
    with pytest.raises(GraphBreaksLeft):
        compiled(T([1, -2]))


@pytest.mark.parametrize("mode", [torch.no_grad, lambda: torch.autocast("cpu", torch.bfloat16)])
def test_modes_of_torch(load: Load, mode) -> None:
    ask = "torch.is_grad_enabled() and not torch.is_autocast_enabled('cpu')"
    program, fix = load(
        f"if x.sum() > 0:\n    x = x * (2.0 if {ask} else 3.0)\nreturn x", SELECT.replace("2.5", "2")
    )
    compiled = compile(program.f, fix=fix, backend="eager")
    assert same(compiled(X), program.f(X))
    with mode(), pytest.raises(GraphBreaksLeft):
        compiled(X)
    assert same(compiled(X), program.f(X))


NONE = "self.scale is None"
DOUBLE, FROZEN = "self.weight.dtype is torch.float64", "not self.weight.requires_grad"


@pytest.mark.parametrize(
    ("condition", "change"),
    [
        pytest.param("not self.training", torch.nn.Module.eval, id="eval mode"),
        pytest.param(NONE, lambda net: setattr(net.layer, "scale", None), id="None"),
        pytest.param(DOUBLE, torch.nn.Module.double, id="other parameters"),
        pytest.param(FROZEN, lambda net: net.requires_grad_(False), id="frozen parameters"),
    ],
)
@pytest.mark.parametrize("entry", ["module", "method"])
def test_the_state_of_modules(load: Load, condition, change, entry) -> None:
    program, fix = load(
        forward=f"if x.sum() > 0:\n    x = x * (3 if {condition} else 2)\nreturn x",
        mended_forward=f"return torch.where(x.sum() > 0, x * (4 if {condition} else 2), x)",
    )
    module = program.Net()
    target = module if entry == "module" else module.method
    compiled = compile(target, fix=fix, backend="eager")
    assert same(compiled(X), target(X))
    change(module)
    with pytest.raises(GraphBreaksLeft):
        compiled(X)


def test_steps_of_training_are_one_sort(load: Load, compared: list[Program]) -> None:
    program, fix = load(
        forward="if x.sum() > 0:\n    x = x * self.weight\nreturn x",
        mended_forward="return torch.where(x.sum() > 0, x * self.weight, x)",
    )
    module, plain = program.Net(), program.Net()
    compiled = compile(module, fix=fix, backend="eager")
    for each in (module, plain):
        optimizer = torch.optim.Adam(each.parameters(), lr=0.1)
        for rows in (3, 4, 5, 6):
            (compiled if each is module else plain)(torch.ones(rows, 2)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    assert torch.equal(module.layer.weight, plain.layer.weight)
    assert not compared


def test_an_argument_that_is_only_read_behind_a_break_that_is_left(load: Load) -> None:
    left = "torch._dynamo.graph_break()"
    program, fix = load(
        f"{left}\nz = y\nif x.sum() > 0:\n    z = z * 2.5\nreturn x, z",
        f"{left}\nreturn x, torch.where(x.sum() > 0, y * 2.5, y)",
    )
    fix.left = (SITE,)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = compile(program.f, fix=fix, backend="eager", strict=False)
        for y in (X, T([1, 2]), T([1, -2]), X.double()):
            assert same(compiled(-X, y), program.f(-X, y))


def test_a_call_that_the_program_refuses_raises_its_error(load: Load) -> None:
    program, fix = load()
    compiled = compile(program.f, fix=fix, backend="eager")
    compiled(X)
    with pytest.raises(AttributeError, match="'str' object has no attribute 'sum'"):
        compiled("text")


def test_transforms_of_torch_func_go_on_working(load: Load) -> None:
    body = "if x.sum() > 0:\n    x = x * 2.5\nreturn (x * x).sum()"
    program, fix = load(body, "x = torch.where(x.sum() > 0, x * 2.5, x)\nreturn (x * x).sum()")
    compiled = compile(program.f, fix=fix, backend="eager")
    compiled(X)
    assert same(torch.func.grad(compiled)(X), torch.func.grad(program.f)(X))
