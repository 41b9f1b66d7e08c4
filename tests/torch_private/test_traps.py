"""Where Dynamo captures what the compiled program then does otherwise than eager, a set trap breaks the graph."""

from __future__ import annotations

import importlib
import os
import random
from collections import deque
from collections.abc import Mapping

import numpy as np
import pytest
import torch

from onegraph.silent import ENVIRONMENT, HANDLER, LIMIT, RANDOM
from onegraph.torch_private import traps


def variable_in_a_test(x):
    return x * 2 if "ONEGRAPH_NOT_SET" in os.environ else x


def variable_with_default(x):
    return x * int(os.getenv("ONEGRAPH_NOT_SET", "2"))


def caught(x):
    try:
        return torch.linalg.cholesky(x)
    except RuntimeError:
        return x


def caught_outside(x):
    try:
        return uncaught(x)
    except RuntimeError:
        return x


def caught_sizes(x):
    try:
        return x.view(3)
    except RuntimeError:
        return x


def numpy_numbers(x):
    return x + torch.from_numpy(np.random.uniform(-1, 1, size=(2,)))


def python_numbers(x):
    return x + random.uniform(0, 1)


WINDOW, ROOM = deque([1, 2], maxlen=2), deque([1], maxlen=100)


def full_deque(x):
    WINDOW.append(3)
    return x * len(WINDOW)


def deque_with_room(x):
    ROOM.append(3)
    ROOM.pop()
    return x * len(ROOM)


def deque_made_inside(x):
    window = deque([1, 2], maxlen=2)
    window.append(3)
    return x * len(window)


def guarded_variable(x):
    return x * int(os.environ.copy().get("ONEGRAPH_NOT_SET", "2"))


def uncaught(x):
    with torch.no_grad():
        return torch.linalg.cholesky(x)


def finally_only(x):
    try:
        return torch.linalg.cholesky(x)
    finally:
        torch.is_grad_enabled()


def caught_key(x, table={"a": 1}):  # noqa: B006
    try:
        shift = table["b"]
    except KeyError:
        shift = 2
    return torch.linalg.cholesky(x) + shift


def compiled(function):
    torch._dynamo.reset()
    return torch.compile(function, backend="eager", fullgraph=True)


TRAPPED = {
    variable_in_a_test: ENVIRONMENT,
    variable_with_default: ENVIRONMENT,
    caught: HANDLER,
    caught_outside: HANDLER,
    caught_sizes: HANDLER,
    full_deque: LIMIT,
    numpy_numbers: RANDOM,
    python_numbers: RANDOM,
}


@pytest.mark.parametrize("function", TRAPPED, ids=lambda f: f.__name__)
def test_it_breaks_the_graph(function):
    with traps.set_everywhere(), pytest.raises(torch._dynamo.exc.Unsupported, match=TRAPPED[function]):
        compiled(function)(torch.eye(2))


@pytest.mark.parametrize(
    "function",
    [guarded_variable, uncaught, finally_only, caught_key, deque_with_room, deque_made_inside],
    ids=lambda f: f.__name__,
)
def test_what_is_captured_rightly_stays_captured(function):
    with traps.set_everywhere():
        assert torch.equal(compiled(function)(torch.eye(2)), function(torch.eye(2)))


def test_what_others_compile_is_left_alone():
    compiled(variable_in_a_test)(torch.eye(2))
    with traps.set_everywhere():
        pass
    compiled(numpy_numbers)(torch.eye(2))


def test_a_copy_of_the_environment_is_guarded(monkeypatch):
    run = compiled(guarded_variable)
    for value in (None, "3", "4", None):
        if value is None:
            monkeypatch.delenv("ONEGRAPH_NOT_SET", raising=False)
        else:
            monkeypatch.setenv("ONEGRAPH_NOT_SET", value)
        assert torch.equal(run(torch.eye(2)), guarded_variable(torch.eye(2)))


class Settings(Mapping):
    """Looks things up as the environment does."""

    def __getitem__(self, name):
        return {"scale": 2}[name]

    def __iter__(self):
        return iter(("scale",))

    def __len__(self):
        return 1


SETTINGS = Settings()


def test_another_mapping_is_no_environment():
    def looks_up(x):
        return x * 2 if "scale" in SETTINGS else x

    with traps.set_everywhere():
        assert torch.equal(compiled(looks_up)(torch.eye(2)), looks_up(torch.eye(2)))


def test_switches_of_installed_libraries_are_left_alone(tmp_path, monkeypatch):
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "onegraph_test_library.py").write_text(
        "import os\n\n\ndef scaled(x):\n    return x * int(os.getenv('ONEGRAPH_NOT_SET', '2'))\n"
    )
    monkeypatch.syspath_prepend(folder)
    scaled = importlib.import_module("onegraph_test_library").scaled
    with traps.set_everywhere():
        assert torch.equal(compiled(scaled)(torch.eye(2)), torch.eye(2) * 2)
