"""run_call records everything that a run does, and leaves the world as it was."""

from __future__ import annotations

import collections
import logging
import random
import warnings
from dataclasses import dataclass

import pytest
import torch

from onegraph.model import Call
from onegraph.state import DELETED, Logged, copy_call, run_call

X = torch.tensor([1.0, -2.0, 3.0])
quiet = logging.getLogger("tests.quiet")
quiet.propagate = False


def see(target, *args, **options):
    return run_call(target, Call(args), **options)


def leaf(*values):
    return torch.tensor(values, requires_grad=True)


def test_output_and_unchanged_inputs():
    seen = see(lambda x: {"a": x * 2, "b": [x.sum(), 3]}, X)
    assert seen.output["a"].tolist() == [2, -4, 6] and seen.output["b"][1] == 3
    assert seen.inputs.args[0].tolist() == X.tolist() and seen.error is None


def test_inputs_changed_in_place_are_seen_and_the_callers_tensors_stay():
    seen = see(lambda x, items: (x.add_(1), items.append(2)), X, [1])
    assert seen.inputs.args[0].tolist() == [2, -1, 4] and seen.inputs.args[1] == [1, 2]
    assert X.tolist() == [1, -2, 3]


def test_gradients_of_inputs_and_parameters_keep_none_apart():
    linear = torch.nn.Linear(2, 1)
    unused = leaf(1.0)
    seen = see(lambda x, u: linear(x), leaf(1.0, 2.0), unused, grad=True)
    assert seen.gradients["argument[1]"] is None
    assert seen.gradients["argument[0]"].shape == (2,)
    assert {g.shape for name, g in seen.gradients.items() if "linear" in name} == {(1, 2), (1,)}
    assert linear.weight.grad is None


class Remember(torch.nn.Module):
    def forward(self, x, out):
        self.last = x * 2


class Overwrite(torch.nn.Module):
    def forward(self, x, out):
        out.mul_(x)


@pytest.mark.parametrize("kind", [Remember, Overwrite])
def test_gradients_reach_through_state_and_mutated_inputs(kind):
    seen = see(kind(), leaf(1.0), torch.ones(1), grad=True)
    assert seen.gradients["argument[0]"].item() > 0


def test_no_gradients_without_grad():
    seen = see(lambda x: x * 2, leaf(1.0), grad=False)
    assert seen.gradients == {} and not seen.output.requires_grad


def test_a_failing_backward_is_a_result():
    def f(x):
        y = x.exp()
        z = y * 2
        y.detach().add_(1)
        return z, y.add_(1).detach(), y

    seen = see(lambda x: (x.exp().relu_().add_(1), torch.linalg.eig(x.reshape(1, 1))), leaf(2.0), grad=True)
    assert seen.gradient_error is None or seen.gradient_error.type == "RuntimeError"


def test_aliases_of_inputs_state_and_other_outputs():
    weight = torch.nn.Parameter(torch.ones(3))
    y = None

    def f(x):
        nonlocal y
        y = x * 2
        return x, x[:2], weight, y, y.view(3, 1), x + 1

    assert see(f, X).aliases == {
        ("output[0]", "is", "argument[0]"),
        ("output[1]", "shares memory with", "argument[0]"),
        ("output[2]", "is", "f.weight"),
        ("output[4]", "shares memory with", "output[3]"),
    }


def test_state_that_changed_is_named_and_put_back():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.zeros(1))
            self.calls, self.history, self.gone = 0, [], 1

        def forward(self, x):
            self.calls += 1
            self.history.append(x.shape)
            self.seen += x.sum()
            del self.gone
            return x

    model = Model()
    seen = see(model, X)
    assert seen.state["self.calls"] == 1 and seen.state["self.gone"] == DELETED
    assert seen.state["self.history"] == [X.shape] and seen.state["self.seen"].item() == 2
    assert (model.calls, model.history, model.gone, model.seen.item()) == (0, [], 1, 0)


def test_random_state_after_the_run():
    def draw(x):
        return x * torch.rand(()) * random.random()

    one, two, none = see(draw, X), see(draw, X), see(lambda x: x, X)
    assert torch.equal(one.output, two.output) and torch.equal(one.random["torch"], two.random["torch"])
    assert not torch.equal(one.random["torch"], none.random["torch"])
    assert one.random["random"] != none.random["random"]


def test_everything_said_is_heard(capsys):
    def f(x):
        print("value", 1)
        quiet.warning("log %d", 2)
        warnings.warn("careful", UserWarning, stacklevel=1)
        print("again")
        return x

    for _ in range(2):
        seen = see(f, X)
        assert seen.stdout == "value 1\nagain\n"
        assert seen.logs == (Logged("tests.quiet", "WARNING", "log 2"),)
        assert [(w.category, w.message) for w in seen.warnings] == [("UserWarning", "careful")]
        assert seen.order == ("stdout", "log", "stdout")
    assert capsys.readouterr() == ("", "")


def test_log_records_that_a_logger_drops_are_not_heard():
    def f():
        quiet.debug("below the level")
        quiet.disabled = True
        quiet.warning("disabled")
        quiet.disabled = False

    assert see(f).logs == ()


def test_a_generator_is_consumed():
    def f(items):
        for item in items:
            print(item)
            yield item * 2

    seen = see(f, [1, 2])
    assert seen.output == [2, 4] and seen.stdout == "1\n2\n"


def test_exceptions_are_results_with_what_happened_before():
    def f(items):
        items.append(1)
        raise KeyError("missing")

    seen = see(f, [])
    assert (seen.error.type, seen.error.message) == ("KeyError", "'missing'")
    assert seen.inputs.args[0] == [1]


@pytest.mark.parametrize("error", [KeyboardInterrupt])
def test_an_interrupt_passes_through(error):
    def f():
        raise error

    with pytest.raises(error):
        see(f)


# Copies of calls


def test_copies_keep_aliasing_strides_and_leaves():
    base = torch.arange(6.0).reshape(2, 3)
    call = copy_call(Call((base, base.t(), base[0], base), {"w": leaf(1.0)}))
    a, t, row, same = call.args
    assert same is a and a is not base and t.stride() == (1, 3)
    a.add_(1)
    assert t[0, 0] == 1 and row[1] == 2 and base[0, 0] == 0
    assert call.kwargs["w"].requires_grad and call.kwargs["w"].is_leaf


def test_copies_keep_types_of_containers():
    Point = collections.namedtuple("Point", "x y")

    @dataclass
    class Box:
        value: torch.Tensor

    items = [
        collections.OrderedDict(a=X),
        collections.defaultdict(list, a=[X]),
        Point(X, 1),
        Box(X),
        {X.dtype},
    ]
    copies = copy_call(Call(tuple(items))).args
    assert [type(c) for c in copies] == [type(i) for i in items]
    assert (
        copies[1].default_factory is list and copies[3].value is copies[0]["a"] and copies[3].value is not X
    )


def test_copies_keep_marks_half_precision_and_parameters():
    x = torch.ones(2, dtype=torch.bfloat16)
    torch._dynamo.mark_dynamic(x, 0)
    parameter = torch.nn.Parameter(torch.ones(2), requires_grad=False)
    copies = copy_call(Call((x, parameter, torch.ones(2).to_sparse()))).args
    assert copies[0]._dynamo_dynamic_indices == {0} and copies[0].dtype == torch.bfloat16
    assert isinstance(copies[1], torch.nn.Parameter) and not copies[1].requires_grad
    assert copies[2].is_sparse


def test_modules_functions_and_open_files_are_passed_as_they_are(tmp_path):
    module, f = torch.nn.Linear(1, 1), lambda: 0
    with (tmp_path / "f").open("w") as file:
        assert copy_call(Call((module, f, file))).args == (module, f, file)


def test_records_of_tools_that_inductor_uses_are_not_the_programs():
    log = logging.getLogger("filelock")
    level = log.level
    log.setLevel(logging.DEBUG)  # inductor takes file locks, and their library says so

    def f(x):
        return x.sin() + 1

    try:
        seen = run_call(torch.compile(f), Call((torch.ones(3),)))
    finally:
        log.setLevel(level)
    assert seen.logs == ()
