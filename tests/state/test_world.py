"""preserved(program) puts back everything that a run changed, in place."""

from __future__ import annotations

import collections
import functools
import random
import types
from dataclasses import dataclass

import click
import numpy
import pytest
import torch

from onegraph.model import Call, Program
from onegraph.state import World, preserved

COUNT = 0
TABLE: dict[str, int] = {}
SCALE = torch.ones(2)
HISTORY: list[float] = []


def program(target, *args):
    return Program("program", target, (Call(args),))


def run(target, *args):
    with preserved(program(target, *args)):
        return target(*args)


def test_rebound_and_changed_globals_are_put_back():
    def helper():
        global COUNT
        COUNT += 1
        HISTORY.append(1.0)

    def f(x):
        helper()
        TABLE["calls"] = COUNT
        SCALE.mul_(3)
        return x * SCALE

    assert run(f, torch.ones(2)).tolist() == [3, 3]
    assert (COUNT, TABLE, HISTORY, SCALE.tolist()) == (0, {}, [], [1, 1])


def test_a_global_that_the_run_creates_is_removed():
    def f(x):
        global _made_by_the_run
        _made_by_the_run = 1
        return x

    run(f, torch.ones(1))
    assert "_made_by_the_run" not in globals()


def test_closure_cells_defaults_and_function_attributes_are_put_back():
    total, seen = 0, []

    def f(x, memory=[]):  # noqa: B006
        nonlocal total
        total += 1
        seen.append(total)
        memory.append(total)
        f.calls = total
        return x

    run(f, torch.ones(1))
    assert (total, seen, f.__defaults__, vars(f)) == (0, [], ([],), {})


class Stateful(torch.nn.Module):
    total = 0

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(2, 2)
        self.norm = torch.nn.BatchNorm1d(2)
        self.register_buffer("seen", torch.zeros(1))
        self.calls, self.log, self.table, self.nested = 0, [], {"a": {1}}, [[0], collections.deque([1])]

    def forward(self, x):
        self.calls += 1
        self.log.append(x)
        self.table["a"].add(2)
        self.nested[0].append(1)
        self.nested[1].appendleft(0)
        self.seen += 1
        self.seen = self.seen * 2
        self.extra = 1
        Stateful.total += 1
        self.eval()
        y = self.norm(self.linear(x))
        self.linear.weight.data = torch.zeros(3, 3)
        self.linear.bias.requires_grad_(False)
        self.linear.bias.grad = torch.ones(2)
        return y


def test_module_attributes_buffers_parameters_and_flags_are_put_back():
    module = Stateful()
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    objects = {name: id(tensor) for name, tensor in module.state_dict(keep_vars=True).items()}
    log, nested = module.log, module.nested[0]
    run(module, torch.randn(4, 2))
    assert (module.calls, module.log, module.table, Stateful.total) == (0, [], {"a": {1}}, 0)
    assert module.nested == [[0], collections.deque([1])] and not hasattr(module, "extra")
    assert module.log is log and module.nested[0] is nested
    assert module.training and module.linear.training
    assert {name: id(tensor) for name, tensor in module.state_dict(keep_vars=True).items()} == objects
    for name, tensor in module.state_dict().items():
        assert torch.equal(tensor, before[name]), name
    assert module.linear.bias.requires_grad and module.linear.bias.grad is None


def test_batch_norm_statistics_of_a_module_in_a_closure_are_put_back():
    norm = torch.nn.BatchNorm1d(2)
    run(lambda x: norm(x), torch.randn(4, 2))
    assert norm.running_mean.tolist() == [0, 0] and norm.num_batches_tracked == 0


def test_a_buffer_that_a_gradient_ran_into_is_a_leaf_again():
    buffer, weight = torch.zeros(2), torch.ones(2, requires_grad=True)
    run(lambda x: buffer.add_(weight * x), torch.ones(2))
    assert buffer.is_leaf and not buffer.requires_grad and buffer.tolist() == [0, 0]


def test_gradients_are_put_back():
    weight = torch.ones(2, requires_grad=True)
    weight.grad = gradient = torch.full((2,), 5.0)
    run(lambda x: (weight * x).sum().backward(), torch.ones(2))
    assert weight.grad is gradient and gradient.tolist() == [5, 5]


def test_tied_tensors_stay_tied():
    base = torch.zeros(4)
    half = base[:2]
    run(lambda x: half.add_(x), torch.ones(2))
    assert base.tolist() == [0] * 4 and half.data_ptr() == base.data_ptr()


def test_bound_methods_partials_and_callable_objects_are_followed():
    class Counter:
        __slots__ = ("__dict__", "n")

        def __init__(self):
            self.n, self.log = 0, []

        def step(self, x):
            self.n += 1
            self.log.append(x)
            return x

        __call__ = step

    for make in (lambda c: c, lambda c: c.step, lambda c: functools.partial(c.step, 1)):
        counter = Counter()
        target = make(counter)
        with preserved(program(target)):
            target() if isinstance(target, functools.partial) else target(2)
            assert counter.n == 1
        assert (counter.n, counter.log) == (0, [])


def test_frozen_slotted_dataclasses_are_put_back():
    @dataclass(slots=True)
    class Box:
        value: int

    box = Box(1)

    def f():
        box.value = 2

    run(f)
    assert box.value == 1


def test_attributes_of_an_imported_helper_module_are_put_back(monkeypatch):
    helper = types.ModuleType("some_helper")
    helper.LIMIT, helper.OTHER = 1, []
    monkeypatch.setitem(__import__("sys").modules, "some_helper", helper)

    def f(x):
        import some_helper

        some_helper.LIMIT = 2
        some_helper.OTHER.append(x)

    run(f, 1)
    assert (helper.LIMIT, helper.OTHER) == (1, [])


def test_random_streams_are_put_back():
    own, torch_own = random.Random(1), torch.Generator().manual_seed(1)

    def f():
        own.random()
        return torch.rand(1, generator=torch_own), torch.rand(1), random.random(), numpy.random.rand()

    first, second = run(f), run(f)
    assert first == second


@pytest.mark.parametrize("maxsize", [None, 8])
@pytest.mark.parametrize("before", [(), ("old",)])
def test_warn_once_caches_forget_what_the_run_added(maxsize, before):
    said = []

    @functools.lru_cache(maxsize)
    def once(text):
        said.append(text)

    for text in before:
        once(text)
    run(lambda: once("new"))
    once("new")
    assert said == [*before, "new"]
    for text in before:
        once(text)
    assert said == [*before, "new"]


def test_everything_is_put_back_after_an_exception():
    log = []

    def f():
        log.append(1)
        raise ValueError

    with pytest.raises(ValueError):
        run(f)
    assert log == []


def test_changes_name_the_places():
    module = Stateful()
    world = World(program(module))
    world.snapshot()
    module.calls = 3
    module.seen.add_(1)
    module.linear.weight.data[0, 0] = 9
    TABLE["x"] = 1
    changes = world.changes()
    world.restore()
    assert {"self.calls", "self.seen", "self.linear.weight"} <= set(changes)
    assert changes["self.calls"] == 3
    TABLE.clear()


def test_nothing_is_touched_where_nothing_changed():
    weight = torch.ones(2)
    version = weight._version
    run(lambda x: weight * x, torch.ones(2))
    assert weight._version == version


def test_snapshots_that_live_together_share_one_copy():
    module = torch.nn.Linear(8, 8)
    with preserved(program(module)) as outer, preserved(program(module)) as inner:
        assert {id(s.saved) for s in outer._storages} == {id(s.saved) for s in inner._storages}


def test_marks_that_the_compiler_leaves_on_tensors_are_no_change():
    table: dict[str, torch.Tensor] = {"weight": torch.ones(2)}

    def f(x):
        table["weight"]._dynamo_static_input_type = "guarded"  # as torch.compile does with parameters
        return x * table["weight"]

    world = World(program(f, torch.ones(2)))
    world.snapshot()
    f(torch.ones(2))
    assert world.changes() == {}


def test_a_library_that_is_merely_called_keeps_its_own_books():
    def f(x):
        click.calls = getattr(click, "calls", 0) + 1  # a dependency that counts its calls
        return x

    world = World(program(f, torch.ones(2)))
    world.snapshot()
    try:
        f(torch.ones(2))
        assert world.changes() == {}
    finally:
        del click.calls


def test_a_buffer_bound_anew_to_the_same_content_is_no_change():
    module = torch.nn.Module()
    module.register_buffer("frequencies", torch.tensor([1.0, float("nan")]))

    def again(factor):
        module.register_buffer("frequencies", module.frequencies * factor)

    world = World(program(lambda: module))
    world.snapshot()
    again(1.0)
    assert world.changes() == {}
    again(2.0)
    assert [path.rpartition(".")[2] for path in world.changes()] == ["frequencies"]


def test_attributes_that_the_run_made_are_told_apart_from_changed_ones():
    module = torch.nn.Module()
    module.calls = 0
    world = World(program(lambda: module))
    world.snapshot()
    module.calls, module.table = 1, [1]
    assert {path.rpartition(".")[2] for path in world.changes()} == {"calls", "table"}
    assert {path.rpartition(".")[2] for path in world.created()} == {"table"}


class Lazy(collections.OrderedDict):
    """Loads what it holds when it is asked, as tables of model classes do."""

    def items(self):
        raise ImportError("not installed")

    __iter__ = keys = values = items


LAZY = Lazy()


def test_a_table_that_loads_lazily_is_not_asked():
    def f(x):
        return x if LAZY is None else x + 1

    assert run(f, torch.ones(1)) == 2
