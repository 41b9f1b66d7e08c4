"""``onegraph.compile`` is torch.compile for programs that break the graph.

The mending itself is tested elsewhere: here a table gives the mended text, so that these tests show what the
wrapper does with it.
"""

from __future__ import annotations

import copy
import inspect
import logging
import pickle
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from imported import imported
from onegraph.deliver.compiled import compile
from onegraph.deliver.left import GraphBreaksLeft, GraphBreaksLeftWarning
from onegraph.model import (
    Check,
    Evidence,
    FileChange,
    Findings,
    FixResult,
    Outcome,
    Owner,
    Program,
    Site,
    Span,
    Trace,
)

PROGRAM = '''
import functools
import torch


def double_if_positive(x, k=2.0, *, bias=None):
    """Break: a branch on a tensor."""
    if x.sum() > 0:
        x = x * k
    if bias is not None:
        x = x + bias
    return x


def calls(x):
    return double_if_positive(x) + 1


def make(scale):
    def inner(x):
        if x.sum() > 0:
            x = x * scale
        return x

    return inner


tripled = make(torch.tensor(3.0))


def logged(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)

    return wrapper


@logged
def decorated(x):
    if x.sum() > 0:
        x = x * 2.0
    return x


def recursive(x, depth):
    if x.sum() > 0:
        x = x * 2.0
    return x if depth == 0 else recursive(x, depth - 1)


def clean(x):
    return x.sin() + 1


def folded(x):
    try:
        return x.view(-1, 4).sum(-1)
    except RuntimeError:
        return x.sum().view(1)


@torch.library.custom_op("test_compile::halved", mutates_args=())
def halved(x: torch.Tensor) -> torch.Tensor:
    return x / 2


@halved.register_fake
def _(x):
    assert x.shape[0] == 8, "made for eight only"
    return torch.empty_like(x)


def marked(x, i):
    x = x.clone()
    x[0, i.item()] = 1.0
    return x


def two_modes(x, mode):
    if mode == "branch":
        if x.sum() > 0:
            x = x * 2.0
    return x


def raises(x):
    if x.shape[0] == 3:
        raise ValueError("three is not supported")
    if x.sum() > 0:
        x = x * 2.0
    return x


class Base(torch.nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            x = x * 2.0
        return x


class Net(Base):
    __secret = 3.0

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        x = super().forward(self.linear(x))
        if x.sum() > 0:
            x = x + self.__secret
        return torch.dropout(x, 0.5, self.training)

    def helper(self, x):
        if x.sum() > 0:
            x = x + self.__secret
        return x
'''

MENDED = (
    PROGRAM.replace("    if x.sum() > 0:\n        x = x * k\n", "    x = _choose(x.sum() > 0, x * k, x)\n")
    .replace(
        "        if x.sum() > 0:\n            x = x * scale\n",
        "        x = torch.where(x.sum() > 0, x * scale, x)\n",
    )
    .replace(
        "            if x.sum() > 0:\n                x = x * 2.0",
        "            x = torch.where(x.sum() > 0, x * 2.0, x)",
    )
    .replace(
        "        if x.sum() > 0:\n            x = x * 2.0", "        x = torch.where(x.sum() > 0, x * 2.0, x)"
    )
    .replace("    if x.sum() > 0:\n        x = x * 2.0", "    x = torch.where(x.sum() > 0, x * 2.0, x)")
    .replace(
        "        if x.sum() > 0:\n            x = x + self.__secret\n",
        "        positive, negative = (lambda: x + self.__secret), (lambda: x.clone())\n"
        "        x = torch.cond(x.sum() > 0, positive, negative, ())\n",
    )
    .replace(
        "def double_if", "def _choose(pred, a, b):\n    return torch.where(pred, a, b)\n\n\ndef double_if", 1
    )
)
FUNCTIONS = (
    "double_if_positive",
    "make.<locals>.inner",
    "decorated",
    "recursive",
    "two_modes",
    "raises",
    "Base.forward",
    "Net.forward",
    "Net.helper",
)


def site(line: int, kind: str = "branch_on_tensor") -> Site:
    span = Span("/somewhere/model.py", line, 4, line, 20)
    return Site(
        kind, span, "if x.sum() > 0:", "f", Outcome.RESUMED, Owner.USER, "", 1, 0, False, "why not", ()
    )


class Mender:
    """Gives the mended text of the program, and remembers what it was asked."""

    def __init__(self, path: Path, mended: str = MENDED, left: tuple[Site, ...] = ()) -> None:
        self.path = path
        self.mended = mended
        self.left = left
        self.asked: list[Program] = []
        self.evidence = Evidence((Check("outputs", True),))

    def __call__(self, program: Program, *, level: str) -> FixResult:
        self.asked.append(program)
        changes = (
            (FileChange(str(self.path), PROGRAM, self.mended, FUNCTIONS),) if self.mended != PROGRAM else ()
        )
        return FixResult(
            program.name,
            Findings((site(1),), Trace()),
            Findings(self.left, Trace()),
            (),
            changes,
            self.evidence,
        )


@pytest.fixture
def program(tmp_path: Path) -> Iterator[ModuleType]:
    yield imported(tmp_path, PROGRAM)
    torch._dynamo.reset()


@pytest.fixture
def fix(program: ModuleType) -> Mender:
    return Mender(Path(str(program.__file__)))


class Counting:
    """A backend that counts graphs."""

    def __init__(self) -> None:
        self.graphs = 0

    def __call__(self, gm: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Callable[..., Any]:
        self.graphs += 1
        return gm.forward


UP, DOWN = torch.ones(4), -torch.ones(4)


def agree(compiled: Callable[..., Any], eager: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    torch.testing.assert_close(compiled(*args, **kwargs), eager(*args, **kwargs))


def breaks(f: Callable[..., Any], *args: Any) -> bool:
    """Whether plain torch.compile of the user's program still breaks: nothing of ours got into it."""
    try:
        torch.compile(f, backend="eager", fullgraph=True)(*args)
    except torch._dynamo.exc.Unsupported:
        return True
    return False


@pytest.mark.parametrize("name", ["double_if_positive", "calls", "tripled", "decorated"])
def test_a_function_that_breaks_becomes_one_graph(program: ModuleType, fix: Mender, name: str) -> None:
    function = getattr(program, name)
    backend = Counting()
    compiled = compile(function, fix=fix, backend=backend)
    for x in (UP, DOWN, UP):
        agree(compiled, function, x)
    assert backend.graphs == 1
    assert len(fix.asked) == 1


def test_eager_code_is_untouched_and_plain_torch_compile_still_breaks(
    program: ModuleType, fix: Mender
) -> None:
    model = program.Net()
    functions = [program.double_if_positive, program.tripled, program.Net.forward, program.Base.forward]
    before = [(f.__code__, f.__defaults__, f.__closure__) for f in functions]
    for f, x in ((program.calls, UP), (program.tripled, UP), (model, torch.ones(2, 4))):
        compile(f, fix=fix, backend="eager")(x)
        assert breaks(f, x)
        compile(f, fix=fix, backend="eager")(x)
    after = [(f.__code__, f.__defaults__, f.__closure__) for f in functions]
    assert all(a is b for old, new in zip(before, after, strict=True) for a, b in zip(old, new, strict=True))


def test_works_as_a_decorator_with_and_without_keywords(program: ModuleType, fix: Mender) -> None:
    compiled = compile(fix=fix, backend="eager", dynamic=False)(program.double_if_positive)
    agree(compiled, program.double_if_positive, UP, 3.0, bias=UP)
    assert compiled.__name__ == "double_if_positive"
    assert compiled.__doc__ == "Break: a branch on a tensor."


def test_works_on_methods_bound_and_as_a_decorator_in_a_class(program: ModuleType, fix: Mender) -> None:
    model = program.Net()
    agree(compile(model.helper, fix=fix, backend="eager"), model.helper, UP)

    class Decorated(program.Net):  # type: ignore[name-defined,misc]
        helper = compile(program.Net.helper, fix=fix, backend="eager")

    agree(Decorated().helper, model.helper, UP)


def test_works_with_recursion_closures_defaults_and_keywords(program: ModuleType, fix: Mender) -> None:
    agree(compile(program.recursive, fix=fix, backend="eager"), program.recursive, UP, 3)
    own = program.make(torch.tensor(5.0))
    agree(compile(own, fix=fix, backend="eager"), own, UP)
    agree(
        compile(program.double_if_positive, fix=fix, backend="eager"), program.double_if_positive, UP, k=4.0
    )


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x,
        lambda x, /, y=2, *, z=3: x * y * z,
        lambda x, *args, **kwargs: x + sum(args) + kwargs.get("k", 0),
        lambda *args, k, **kwargs: args[0] * k,
        lambda x, program=1, compiled=2, error=3: x + program + compiled + error,
    ],
)
def test_arguments_are_taken_as_the_function_takes_them(fix: Mender, function: Callable[..., Any]) -> None:
    compiled = compile(function, fix=fix, backend="eager")
    assert inspect.signature(compiled) == inspect.signature(function)
    for args, kwargs in [
        ((UP,), {}),
        ((UP, 5.0), {}),
        ((UP,), {"k": 7.0}),
        ((UP,), {"z": 4}),
        ((), {"x": UP}),
        ((), {}),
    ]:
        try:
            want = function(*args, **kwargs)
        except TypeError as error:
            with pytest.raises(TypeError) as raised:
                compiled(*args, **kwargs)
            assert str(raised.value) == str(error)
        except IndexError:
            continue
        else:
            torch.testing.assert_close(compiled(*args, **kwargs), want)


def test_works_under_no_grad_decorators_of_torch_and_autocast(program: ModuleType, fix: Mender) -> None:
    function = torch.no_grad()(program.double_if_positive)
    compiled = compile(function, fix=fix, backend="eager")
    assert not compiled(UP.clone().requires_grad_()).requires_grad
    with torch.no_grad():
        agree(compiled, function, UP)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        model = program.Net().eval()
        agree(compile(model, fix=fix, backend="eager"), model, torch.ones(2, 4))


def test_gradients_flow(program: ModuleType, fix: Mender) -> None:
    model = program.Net().eval()
    x = torch.ones(2, 4, requires_grad=True)
    compile(model, fix=fix, backend="aot_eager")(x).sum().backward()
    got = [p.grad.clone() for p in (x, *model.parameters())]
    for p in (x, *model.parameters()):
        p.grad = None
    model(x).sum().backward()
    torch.testing.assert_close(got, [p.grad for p in (x, *model.parameters())])


def test_mended_inside_of_a_checkpoint_which_runs_the_call_again_for_its_gradient(
    program: ModuleType, fix: Mender
) -> None:
    compiled = compile(program.double_if_positive, fix=fix, backend="eager")
    x = UP.clone().requires_grad_()
    checkpoint(compiled, x, use_reentrant=False).sum().backward()
    assert torch.equal(x.grad, 2 * UP)
    assert len(fix.asked) == 1


def test_a_program_without_breaks_is_compiled_as_by_torch(program: ModuleType, fix: Mender) -> None:
    backend = Counting()
    agree(compile(program.clean, fix=fix, backend=backend), program.clean, UP)
    assert backend.graphs == 1
    assert fix.asked == []


def test_every_keyword_reaches_torch_compile(
    program: ModuleType, fix: Mender, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[dict[str, Any]] = []
    plain = torch.compile

    def spying(model: Any = None, **kwargs: Any) -> Any:
        seen.append(kwargs)
        return plain(model, **kwargs)

    monkeypatch.setattr(torch, "compile", spying)
    compile(program.calls, fix=fix, mode="reduce-overhead", dynamic=True)
    options = {"max_autotune": False, "guard_filter_fn": lambda guards: [True for _ in guards]}
    compile(program.calls, fix=fix, options=options, fullgraph=False)
    assert seen[0] == {"mode": "reduce-overhead", "dynamic": True, "fullgraph": True}
    assert seen[1]["fullgraph"] is False
    assert "guard_filter_fn" in options  # the user's dict is not eaten


def test_a_reset_of_dynamo_costs_a_compile_and_no_mend(program: ModuleType, fix: Mender) -> None:
    backend = Counting()
    compiled = compile(program.calls, fix=fix, backend=backend)
    agree(compiled, program.calls, UP)
    torch._dynamo.reset()
    agree(compiled, program.calls, DOWN)
    assert backend.graphs == 2
    assert len(fix.asked) == 1


def test_dynamic_is_passed_on(program: ModuleType, fix: Mender) -> None:
    backend = Counting()
    compiled = compile(program.calls, fix=fix, backend=backend, dynamic=True)
    for size in (4, 7, 9):
        agree(compiled, program.calls, torch.ones(size))
    assert backend.graphs == 1


def test_without_fullgraph_a_break_is_still_found(program: ModuleType, fix: Mender) -> None:
    backend = Counting()
    compiled = compile(program.calls, fix=fix, backend=backend, fullgraph=False)
    agree(compiled, program.calls, UP)
    assert backend.graphs == 1
    assert fix.asked[0].options["fullgraph"] is False


def test_disable_leaves_the_program_alone(program: ModuleType, fix: Mender) -> None:
    assert compile(program.calls, fix=fix, disable=True) is program.calls


def test_mends_again_when_a_new_signature_brings_a_new_break(program: ModuleType, fix: Mender) -> None:
    compiled = compile(program.two_modes, fix=fix, backend="eager")
    agree(compiled, program.two_modes, UP, "plain")
    assert fix.asked == []
    agree(compiled, program.two_modes, UP, "branch")
    assert [len(asked.calls) for asked in fix.asked] == [1]
    agree(compiled, program.two_modes, DOWN, "plain")
    assert len(fix.asked) == 1


def test_a_later_mend_gets_the_calls_of_the_earlier_ones_as_they_were(
    program: ModuleType, fix: Mender
) -> None:
    once = MENDED.replace(
        "        x = torch.where(x.sum() > 0, x * 2.0, x)\n    return x\n\n\ndef raises",
        "        if x.sum() > 0:\n            x = x * 2.0\n    return x\n\n\ndef raises",
    )
    assert once != MENDED
    fix.mended = once
    model = compile(
        lambda x, mode: program.two_modes(program.double_if_positive(x), mode), fix=fix, backend="eager"
    )
    x = UP.clone()
    model(x, "plain")
    x.zero_()
    fix.mended = MENDED
    model(UP, "branch")
    first, second = fix.asked[1].calls
    assert (first.args[1], second.args[1]) == ("plain", "branch")
    assert torch.equal(first.args[0], UP)


def test_strict_raises_one_error_with_every_site_left(program: ModuleType, fix: Mender) -> None:
    fix.mended, fix.left = PROGRAM, (site(12), site(30, "item_call"))
    compiled = compile(program.calls, fix=fix, backend="eager")
    with pytest.raises(GraphBreaksLeft) as raised:
        compiled(UP)
    text = str(raised.value)
    assert "calls is not one graph: 2 graph breaks left" in text
    assert "/somewhere/model.py:12:5  branch_on_tensor  if x.sum() > 0:" in text
    assert "/somewhere/model.py:30:5  item_call" in text
    assert "why not" in text and "next: onegraph explain item_call" in text
    assert [each.line for each in raised.value.sites] == [12, 30]


def test_a_call_that_could_not_be_mended_fails_at_once_the_next_time(
    program: ModuleType, fix: Mender
) -> None:
    fix.mended, fix.left = PROGRAM, (site(12),)
    compiled = compile(program.calls, fix=fix, backend="eager")
    for x in (UP, UP, DOWN):
        with pytest.raises(GraphBreaksLeft, match="1 graph break left"):
            compiled(x)
    assert len(fix.asked) == 1
    with pytest.raises(GraphBreaksLeft):
        compiled(torch.ones(5))
    assert len(fix.asked) == 2


def test_what_the_program_says_while_it_is_mended_is_not_shown(
    program: ModuleType, fix: Mender, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    def noisy(asked: Program, *, level: str) -> FixResult:
        print("once more")
        logging.getLogger("model").warning("once more")
        return fix(asked, level=level)

    agree(compile(program.calls, fix=noisy, backend="eager"), program.calls, UP)
    assert capsys.readouterr().out == ""
    assert [record for record in caplog.records if record.name == "model"] == []


def test_not_strict_gives_the_partial_result_and_warns_once(program: ModuleType, fix: Mender) -> None:
    fix.mended, fix.left = PROGRAM, (site(12),)
    backend = Counting()
    compiled = compile(program.calls, fix=fix, strict=False, backend=backend)
    with pytest.warns(GraphBreaksLeftWarning, match="1 graph break left") as record:
        agree(compiled, program.calls, UP)
    assert Path(record[0].filename).name == Path(__file__).name
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        agree(compiled, program.calls, UP)
        agree(compiled, program.calls, DOWN)
    assert backend.graphs > 1


@pytest.mark.parametrize(
    "check", [Check("gradients", False, "of weight differ"), Check("gradients", None, "why")]
)
def test_a_mend_that_is_not_verified_is_not_used(program: ModuleType, fix: Mender, check: Check) -> None:
    fix.evidence = Evidence((Check("outputs", True), check))
    with pytest.raises(GraphBreaksLeft, match=rf"mended, but not verified \(gradients: {check.detail}\)"):
        compile(program.calls, fix=fix, backend="eager")(UP)


def test_breaks_that_are_left_do_not_make_the_rest_unverified(program: ModuleType, fix: Mender) -> None:
    fix.evidence = Evidence((Check("outputs", True), Check("recount, default mode", False, "1 break")))
    agree(compile(program.calls, fix=fix, backend="eager"), program.calls, UP)


def test_an_error_of_the_compiler_that_is_no_break_of_the_program_is_not_hidden(
    program: ModuleType, fix: Mender
) -> None:
    fix.mended, fix.left = PROGRAM, ()
    with pytest.raises(torch._dynamo.exc.Unsupported):
        compile(program.calls, fix=fix, backend="eager")(UP)


def test_where_the_compiler_fails_on_right_code_strict_says_so_and_not_strict_runs_it_uncompiled(
    program: ModuleType, fix: Mender
) -> None:
    fix.mended, fix.left = PROGRAM, ()
    with pytest.raises(torch._dynamo.exc.TorchDynamoException, match="made for eight only"):
        compile(program.halved, fix=fix, backend="eager")(torch.ones(7))
    compiled = compile(program.halved, fix=fix, strict=False, backend="eager")
    agree(compiled, program.halved, torch.ones(8))
    with pytest.warns(GraphBreaksLeftWarning, match="(?s)the compiler fails.*uncompiled"):
        agree(compiled, program.halved, torch.ones(7))
    agree(compiled, program.halved, torch.ones(3))


def test_an_except_is_entered_also_in_the_compiled_program(program: ModuleType, fix: Mender) -> None:
    fix.mended, fix.left = PROGRAM, (site(12),)
    with pytest.raises(GraphBreaksLeft):
        compile(program.folded, fix=fix, backend="eager")(torch.ones(7))
    compiled = compile(program.folded, fix=fix, strict=False, backend="eager")
    agree(compiled, program.folded, torch.ones(8))
    with pytest.warns(GraphBreaksLeftWarning):
        agree(compiled, program.folded, torch.ones(7))
    agree(compiled, program.folded, torch.ones(3))


def test_an_exception_of_any_type_while_more_is_captured_than_by_default_leads_to_the_partial_result(
    program: ModuleType, fix: Mender
) -> None:
    fix.mended, fix.left = PROGRAM, ()
    compiled = compile(program.marked, fix=fix, strict=False, backend="eager")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        agree(compiled, program.marked, torch.zeros(2, 3), torch.tensor(2))


def test_exceptions_of_the_program_pass_through_with_the_lines_of_the_user(
    program: ModuleType, fix: Mender
) -> None:
    compiled = compile(program.raises, fix=fix, backend="eager")
    agree(compiled, program.raises, UP)
    with pytest.raises(ValueError, match="three is not supported") as raised:
        compiled(torch.ones(3))
    assert raised.value.__cause__ is None and raised.value.__context__ is None
    last = traceback.extract_tb(raised.value.__traceback__)[-1]
    line = PROGRAM.splitlines().index('        raise ValueError("three is not supported")') + 1
    assert (last.filename, last.lineno) == (program.__file__, line)
    assert len(fix.asked) == 1  # nothing to mend in that


def test_helpers_of_the_mended_text_are_there_and_names_of_the_user_are_kept(
    program: ModuleType, fix: Mender
) -> None:
    names = {name: value for name, value in vars(program).items() if not name.startswith("__")}
    compiled = compile(program.double_if_positive, fix=fix, backend="eager")
    agree(compiled, program.double_if_positive, UP)
    (added,) = {name for name in vars(program) if not name.startswith("__")} - names.keys()
    assert added.startswith("_choose_")
    assert all(getattr(program, name) is value for name, value in names.items())
    agree(compiled, program.double_if_positive, torch.ones(4, dtype=torch.float64))  # traced again


def test_two_mends_of_one_file_keep_their_own_helpers(program: ModuleType, fix: Mender) -> None:
    """Both call their helper ``_choose``; each program goes on with its own, also when it is traced again."""
    first = compile(program.double_if_positive, fix=fix, backend="eager")
    agree(first, program.double_if_positive, UP)
    other = Mender(
        fix.path, MENDED.replace("return torch.where(pred, a, b)", "return torch.where(pred, a, b) + 1")
    )
    second = compile(program.double_if_positive, fix=other, backend="eager")
    for size in (4, 5, 6):
        x = torch.ones(size)
        agree(first, program.double_if_positive, x)
        torch.testing.assert_close(second(x), program.double_if_positive(x) + 1)


def test_an_outer_torch_compile_and_a_second_compile_see_the_users_function(
    program: ModuleType, fix: Mender
) -> None:
    compiled = compile(program.calls, fix=fix, backend="eager")
    agree(torch.compile(compiled, backend="eager"), program.calls, UP)
    agree(compile(compiled, fix=fix, backend="eager"), program.calls, UP)
    outer = torch.compile(lambda x: compiled(x) * 2, backend="eager")
    agree(outer, lambda x: program.calls(x) * 2, UP)


def test_two_threads_mend_once(program: ModuleType, fix: Mender) -> None:
    compiled = compile(program.calls, fix=fix, backend="eager")
    errors: list[BaseException] = []

    def run() -> None:
        try:
            agree(compiled, program.calls, UP)
        except BaseException as error:  # noqa: BLE001
            errors.append(error)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(fix.asked) == 1


@pytest.mark.parametrize("what", [3, int, torch.nn.Linear])
def test_refuses_what_can_not_be_compiled(fix: Mender, what: Any) -> None:
    with pytest.raises(TypeError, match=r"onegraph\.compile takes a function or a module"):
        compile(what, fix=fix)


def test_refuses_an_unknown_level(program: ModuleType, fix: Mender) -> None:
    with pytest.raises(ValueError, match="sloppy"):
        compile(program.calls, fix=fix, level="sloppy")


class TestModule:
    """The result of a module behaves as torch.compile(module) does."""

    @pytest.fixture
    def model(self, program: ModuleType) -> torch.nn.Module:
        return program.Net()

    @pytest.fixture
    def compiled(self, model: torch.nn.Module, fix: Mender) -> Any:
        return compile(model, fix=fix, backend="eager")

    def test_runs_as_one_graph(self, model: torch.nn.Module, fix: Mender) -> None:
        backend = Counting()
        compiled = compile(model.eval(), fix=fix, backend=backend)
        for x in (torch.ones(2, 4), -torch.ones(2, 4), torch.ones(2, 4)):
            agree(compiled, model, x)
        assert backend.graphs == 1

    def test_is_torchs_own_kind_of_module(self, model: torch.nn.Module, compiled: Any) -> None:
        plain = torch.compile(model, backend="eager")
        assert isinstance(compiled, type(plain))
        assert isinstance(compiled, torch.nn.Module)
        assert list(compiled.state_dict()) == list(plain.state_dict())
        assert [id(p) for p in compiled.parameters()] == [id(p) for p in plain.parameters()]
        assert [name for name, _ in compiled.named_modules()] == [name for name, _ in plain.named_modules()]
        assert compiled.linear is model.linear
        assert compiled.helper == model.helper
        assert compiled.get_compiler_config() == plain.get_compiler_config()
        assert set(vars(plain)) - {"_backward_hooks"} <= set(vars(compiled)) | {"forward"}

    def test_train_and_eval_reach_the_module(self, model: torch.nn.Module, compiled: Any) -> None:
        compiled.eval()
        assert not model.training
        agree(compiled, model, torch.ones(2, 4))
        compiled.train()
        assert model.training
        torch.manual_seed(0)
        got = compiled(torch.ones(2, 4))
        torch.manual_seed(0)
        torch.testing.assert_close(got, model(torch.ones(2, 4)))

    def test_attributes_and_state_go_to_the_module(self, model: torch.nn.Module, compiled: Any) -> None:
        compiled.note = "here"
        assert model.note == "here"
        assert not any(name.startswith("_onegraph") for name in vars(model))
        compiled.load_state_dict({name: torch.zeros_like(t) for name, t in compiled.state_dict().items()})
        assert not any(p.any() for p in model.parameters())

    def test_buffers_that_forward_writes_are_written(self, model: torch.nn.Module, compiled: Any) -> None:
        compiled(torch.ones(2, 4))
        compiled(torch.ones(2, 4))
        assert model.calls == 2

    def test_hooks_run(self, model: torch.nn.Module, compiled: Any) -> None:
        model.eval()
        compiled(torch.ones(2, 4))
        handle = model.register_forward_hook(lambda module, args, out: out + 1)
        agree(compiled, model, torch.ones(2, 4))
        handle.remove()
        agree(compiled, model, torch.ones(2, 4))

    def test_a_forward_that_the_user_replaces_later_counts(
        self, model: torch.nn.Module, compiled: Any
    ) -> None:
        compiled(torch.ones(2, 4))
        model.forward = lambda x: x + 7
        agree(compiled, model, torch.ones(2, 4))

    def test_copies_and_pickles(self, model: torch.nn.Module, compiled: Any) -> None:
        model.eval()
        x = torch.ones(2, 4)
        want = compiled(x)
        for other in (copy.deepcopy(compiled), pickle.loads(pickle.dumps(compiled))):
            assert type(other) is type(compiled)
            assert other.linear is not model.linear
            torch.testing.assert_close(other(x), want)

    def test_inside_another_module(self, model: torch.nn.Module, compiled: Any) -> None:
        model.eval()
        outer = torch.nn.Sequential(compiled, torch.nn.Linear(4, 4))
        agree(outer, torch.nn.Sequential(model, outer[1]), torch.ones(2, 4))

    def test_lazy_modules_get_their_parameters(self, fix: Mender) -> None:
        lazy = torch.nn.LazyLinear(3)
        compiled = compile(lazy, fix=fix, backend="eager")
        agree(compiled, lazy, torch.ones(2, 4))

    def test_modules_of_torch(self, fix: Mender) -> None:
        linear = torch.nn.Linear(4, 4)
        agree(compile(linear, fix=fix, backend="eager"), linear, UP)

    def test_compiling_the_result_of_torch_compile(self, model: torch.nn.Module, fix: Mender) -> None:
        model.eval()
        compiled = compile(torch.compile(model), fix=fix, backend="eager")
        assert compiled._orig_mod is model
        agree(compiled, model, torch.ones(2, 4))
