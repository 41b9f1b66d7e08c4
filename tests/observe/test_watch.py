"""watch(): sees what is compiled inside, changes nothing, and leaves no trace."""

import programs
import pytest
import torch
from torch._dynamo import convert_frame, exc, output_graph, symbolic_convert

from onegraph.observe import watch
from onegraph.observe.crosscheck import CrossCheck
from onegraph.observe.recorder import Recorder

X = torch.linspace(-1, 2, 8).reshape(2, 4)


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def compiled(function, *args):
    return torch.compile(function, backend="eager")(*args)


def patched_names():
    return (
        exc.Unsupported.__init__,
        exc.UserError.__init__,
        symbolic_convert.InstructionTranslatorBase.log_graph_break,
        convert_frame.ConvertFrameAssert.__call__,
        convert_frame._compile,
        convert_frame.get_and_maybe_log_recompilation_reasons,
        output_graph.OutputGraph.call_user_compiler,
        torch._logging.trace_structured,
    )


def test_everything_is_put_back_also_after_an_exception():
    before = patched_names()
    with pytest.raises(KeyError), watch() as watching:
        raise KeyError("from the user")
    assert patched_names() == before
    assert isinstance(watching.error, KeyError)


def test_watches_nest_and_each_sees_its_own_part():
    with watch() as outer:
        compiled(programs.branch, X)
        with watch() as inner:
            compiled(programs.nested, X)
        compiled(programs.chained, X)
    functions = {each.stack[0].function for each in outer.trace().breaks}
    assert functions >= {"branch", "nested", "chained"}
    assert {each.stack[0].function for each in inner.trace().breaks} == {"nested", "helper"}


def test_results_are_those_of_a_plain_compile():
    plain = compiled(programs.second_break, X)
    torch._dynamo.reset()
    with watch():
        watched = compiled(programs.second_break, X)
    assert torch.equal(plain, watched)


def test_the_trace_can_be_read_while_watching():
    with watch() as watching:
        compiled(programs.branch, X)
        so_far = watching.trace()
        compiled(programs.nested, X)
    assert len(so_far.breaks) == 1 and len(watching.trace().breaks) > 1
    assert watching.trace().seconds >= so_far.seconds > 0


def test_a_fault_of_a_hook_is_a_line_in_the_trace_and_not_the_users_exception(monkeypatch):
    def broken(*args):
        raise ZeroDivisionError("observer")

    monkeypatch.setattr(Recorder, "broke", broken)
    with watch() as watching:
        assert torch.equal(compiled(programs.branch, X), programs.branch(X))
    lines = watching.trace().disagreements
    assert any("log_graph_break failed: ZeroDivisionError" in line for line in lines)


def test_a_break_that_only_the_structured_trace_saw_is_said():
    check = CrossCheck()
    payload = (
        "Graph break in user code at a.py:1\nGraph Break Reason: Data-dependent branching\n  Explanation: x"
    )
    check.traced("dynamo_graph_break_reason", payload)
    [line] = check.disagreements()
    assert "Data-dependent branching" in line and "hooks saw 0" in line and "trace 1" in line
    check.hooked_break("Data-dependent branching\n  Explanation: x")
    assert check.disagreements() == ()


def test_a_second_call_that_compiles_nothing_reports_nothing():
    function = torch.compile(programs.branch, backend="eager")
    function(X)
    with watch() as watching:
        function(X)
    assert watching.trace().compiled_calls == 0
