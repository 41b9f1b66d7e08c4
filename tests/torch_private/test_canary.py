"""The canary names what a torch lacks."""

import torch

from onegraph.torch_private import canary


def test_this_torch_has_everything():
    assert canary.missing() == ()


def test_a_missing_name_is_said_with_what_is_lost():
    needs = (
        canary.Need("torch._dynamo.exc", "Gone", "breaks can't be seen"),
        canary.Need("torch._gone", "anything", "nothing works"),
        canary.Need("torch._dynamo.exc", "unimplemented", "no explanation", ("gb_type", "colour")),
    )
    first, second, third = canary.missing(needs)
    assert (
        torch.__version__ in first and "torch._dynamo.exc.Gone" in first and "breaks can't be seen" in first
    )
    assert "torch._gone.anything" in second
    assert "without the parameter colour" in third
