"""What torch.compile itself gets wrong, found by comparing the program with itself."""

from __future__ import annotations

import os

import pytest
import torch

from imported import imported
from onegraph.model import Call, Program
from onegraph.verify import AsCompiled, as_compiled


@pytest.fixture
def compared(tmp_path):
    def compared(text: str, *inputs: tuple, backend: str = "aot_eager") -> AsCompiled:
        module = imported(tmp_path, "import os\nimport torch\n" + text)
        calls = tuple(Call(args) for args in inputs)
        return as_compiled(Program("program", module.program, calls, {"backend": backend}))

    return compared


def test_a_program_that_compiles_right_is_said_to_agree_and_breaks_are_counted_by_place(compared) -> None:
    found = compared(
        "def program(x):\n    if x.sum() > 0:\n        return x.relu()\n    return x.sin()\n",
        (torch.rand(3, 4),),
    )
    assert found.same and found.compiled and found.breaks == 1
    assert found.backends == ("eager", "aot_eager")
    assert found.runs > 5


def test_an_environment_variable_that_is_held_fast_is_named_with_the_line_that_reads_it(compared) -> None:
    found = compared(
        'def program(x):\n    return x * 2 if os.environ.get("ONEGRAPH_TEST_SWITCH") else x + 1\n',
        (torch.rand(3),),
    )
    (each,) = found.divergences
    assert each.aspect == "outputs" and each.layer == "Dynamo"
    assert each.runs[0] == "ONEGRAPH_TEST_SWITCH=1"
    assert each.place.endswith(".py:4")
    assert "ONEGRAPH_TEST_SWITCH" not in os.environ


def test_variables_that_torch_reads_for_itself_are_no_business_of_the_program(compared) -> None:
    found = compared(
        "def program(x, n):\n"
        "    return torch.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, y * 2), (torch.tensor(0), x))[1]\n",
        (torch.rand(3), torch.tensor(2)),
    )
    assert found.same


def test_a_handler_that_the_compiled_program_never_enters_is_said(compared) -> None:
    found = compared(
        "def program(x, n):\n"
        "    try:\n"
        "        return x.view(n, -1)\n"
        "    except RuntimeError:\n"
        "        return x * 0\n",
        (torch.rand(6), 2),
        (torch.rand(6), 4),
    )
    assert not found.same
    assert any(words.startswith("call 2: ") for words in found.refused)


def test_the_layer_is_the_first_one_that_differs(compared) -> None:
    """The backward pass reads the counter after it was changed."""
    found = compared(
        "class Counted(torch.nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        '        self.register_buffer("seen", torch.ones(()))\n'
        "    def forward(self, x):\n"
        "        self.seen += 1\n"
        "        return x * self.seen\n"
        "program = Counted()\n",
        (torch.rand(3, requires_grad=True),),
    )
    (each,) = found.divergences
    assert (each.aspect, each.backend, each.layer) == ("gradients", "aot_eager", "AOTAutograd")


def test_what_eager_does_not_repeat_is_not_compared_and_said(compared) -> None:
    found = compared(
        "import uuid\ndef program(x):\n    return x + 1, uuid.uuid4().hex\n",
        (torch.rand(3),),
        backend="eager",
    )
    assert not found.divergences
    assert found.unstable[0].startswith("outputs: ")


def test_numbers_among_the_arguments_get_other_values_on_one_artifact(compared) -> None:
    found = compared("def program(x, eps):\n    return x + eps\n", (torch.rand(3), 0.5), backend="eager")
    assert found.same
    assert found.runs > 9


def test_state_and_random_streams_are_as_before(compared) -> None:
    counts: list[int] = []
    torch.manual_seed(7)
    before = torch.get_rng_state()
    found = compared(
        "def program(x, counts):\n    counts.append(1)\n    return torch.nn.functional.dropout(x)\n",
        (torch.rand(3), counts),
        backend="eager",
    )
    assert found.same and not counts
    torch.manual_seed(7)
    torch.rand(3)
    assert not torch.equal(before, torch.get_rng_state())
