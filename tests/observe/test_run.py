"""What observe() sees: every break at the user's line, in the user's function, with how the graph ends
there."""

import linecache
import warnings

import programs
import pytest
import torch

from onegraph.model import Call, Outcome, Program
from onegraph.observe import observe


def program(target, *calls, **options):
    return Program(target.__class__.__name__, target, tuple(Call(args) for args in calls), options)


def text(span):
    line = linecache.getline(span.file, span.line).encode()
    if span.line == span.end_line:
        return line[span.column : span.end_column].decode()
    middle = [linecache.getline(span.file, n) for n in range(span.line + 1, span.end_line)]
    last = linecache.getline(span.file, span.end_line).encode()[: span.end_column].decode()
    return "".join([line[span.column :].decode(), *middle, last])


def causes(trace):
    return [each for each in trace.breaks if not each.consequence]


def pointed_at(trace):
    return [text(each.stack[-1].span) for each in causes(trace)]


X = torch.linspace(-1, 2, 8).reshape(2, 4)


@pytest.mark.parametrize(
    ("target", "args", "expected"),
    [
        (programs.branch, (X,), ["x.sum() > 0"]),
        (programs.operand, (X, True), ["x.sum() > 0", "not x.isnan().any()"]),
        (programs.ternary_in_call, (X,), ["x.mean() > 0"]),
        (programs.either, (X, X), ["x.max()"]),
        (programs.filtered, ([X],), ["x.sum() > 0"]),
    ],
)
def test_a_branch_points_at_the_test_or_the_operand(target, args, expected):
    assert list(dict.fromkeys(pointed_at(observe(program(target, args))))) == expected


def test_a_call_over_several_lines_is_shown_whole():
    [only] = pointed_at(observe(program(programs.chained, (X,))))
    assert "".join(only.split()) == "x.abs().mean().item()"


def test_the_stack_has_the_call_in_each_frame_outermost_first():
    trace = observe(program(programs.nested, (X,)))
    first = trace.breaks[0]
    assert [frame.function for frame in first.stack] == ["nested", "helper"]
    assert [text(frame.span) for frame in first.stack] == ["helper(x)", 'print("helper", x.mean())']
    assert first.stack[0].code is programs.nested.__code__


def test_a_break_behind_a_break_belongs_to_the_users_function():
    trace = observe(program(programs.second_break, (X,)))
    assert pointed_at(trace) == ['print("first")', 'print("second")']
    assert {frame.function for each in trace.breaks for frame in each.stack} == {"second_break"}
    assert all(each.stack[0].code is programs.second_break.__code__ for each in trace.breaks)
    assert {graph.function for graph in trace.graphs} == {"second_break"}
    assert [each.outcome for each in trace.breaks] == [Outcome.RESUMED, Outcome.RESUMED]
    assert len(trace.graphs) == 2


def test_columns_stay_exact_in_code_before_the_resume_point():
    trace = observe(program(programs.early_exit, (X, torch.tensor(1e9))))
    assert len(trace.breaks) > 1
    assert set(pointed_at(trace)) == {"x.sum() > limit"}


def test_a_break_in_a_loop_skips_the_frame_and_names_the_cause():
    trace = observe(program(programs.in_loop, (X,)))
    [cause] = causes(trace)
    assert text(cause.stack[-1].span) == 'print("loop")'
    assert cause.outcome is Outcome.FRAME_SKIPPED
    assert [each.gb_type for each in trace.breaks if each.consequence] == ["graph break in loop"]
    assert trace.frames_given_up and trace.frames_given_up[0].startswith("in_loop (")
    assert trace.graphs == () and trace.compiled_calls > 0


def test_a_generator_compiled_directly_is_a_skipped_frame():
    trace = observe(program(programs.pieces, (X,)))
    [only] = trace.breaks
    assert only.gb_type == "Attempt to trace generator"
    assert text(only.stack[0].span) == "def pieces"
    assert only.outcome is Outcome.FRAME_SKIPPED and trace.compiled_calls == 1


def test_locals_are_described_without_changing_the_guards():
    trace = observe(program(programs.item_then_size, (X, torch.tensor([1, 2]))))
    known = trace.breaks[0].locals
    assert known["lengths"].dtype == "torch.int64" and known["lengths"].shape == (2,)
    assert known["x"].shape == (2, 4) and known["x"].requires_grad is False
    assert known["x"].device == "cpu"
    different_unread_input = observe(
        program(programs.item_then_size, (X, torch.tensor([2])), (X.double(), torch.tensor([2])))
    )
    assert all("item_then_size" in each.function for each in different_unread_input.recompiles)


def test_breaks_that_the_author_asked_for_are_marked():
    trace = observe(program(programs.wanted, (X,)))
    assert len(trace.breaks) == 2 and all(each.intended for each in trace.breaks)
    assert not any(each.intended for each in observe(program(programs.branch, (X,))).breaks)


def test_recompiles_name_the_failed_guard_and_whether_a_break_caused_them():
    handed_over = observe(
        program(programs.item_then_size, (X, torch.tensor([1])), (X, torch.tensor([2])))
    ).recompiles
    assert any(each.caused_by_break and each.function == "item_then_size" for each in handed_over)
    own_input = observe(program(programs.clean, (X,), (X.double(),))).recompiles
    assert len(own_input) == 1 and not own_input[0].caused_by_break
    assert "dtype" in own_input[0].reasons[0]


def test_the_recompile_limit_is_reported():
    inputs = [(X.to(dtype),) for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64)]
    with torch._dynamo.config.patch(recompile_limit=2):
        trace = observe(program(programs.clean, *inputs))
    assert [each.split(" (")[0] for each in trace.limits_reached] == ["clean"]
    assert trace.breaks == ()


def test_fullgraph_ends_each_call_at_its_first_break():
    trace = observe(program(programs.second_break, (X,)), fullgraph=True)
    assert pointed_at(trace) == ['print("first")']
    assert trace.graphs == () and trace.frames_given_up == ()
    assert type(trace.error).__name__ == "Unsupported"


def test_residual_leaves_only_what_no_setting_removes():
    lengths = torch.tensor([1, 2])
    assert observe(program(programs.item_then_size, (X, lengths))).breaks
    assert observe(program(programs.item_then_size, (X, lengths)), residual=True).breaks == ()
    once = observe(program(programs.nested, (X,)), residual=True)
    assert len(once.breaks) == 1 and len(once.graphs) == 2


def test_a_user_who_asks_for_fullgraph_still_gets_every_break_and_its_capture():
    trace = observe(program(programs.second_break, (X,), fullgraph=True))
    assert pointed_at(trace) == ['print("first")', 'print("second")']
    assert observe(program(programs.item_then_size, (X, torch.tensor([2])), fullgraph=True)).breaks == ()


def test_backend_mode_and_options_of_the_user_are_accepted():
    seen = program(
        programs.clean, (X,), (torch.ones(5, 4),), backend="inductor", mode="max-autotune", dynamic=True
    )
    assert len(observe(seen).graphs) == 1


def test_an_exception_of_the_program_is_kept_and_the_run_goes_on():
    before = next(programs.ticks)
    trace = observe(program(programs.raises, (torch.ones(3),), (torch.ones(4),), (torch.ones(5),)))
    assert isinstance(trace.error, ValueError)
    assert next(programs.ticks) == before + 4


def test_an_error_that_eager_raises_too_is_the_programs_and_no_break():
    trace = observe(program(programs.wrong_shape, (X,)))
    assert type(trace.error) is RuntimeError
    assert trace.breaks == ()


def test_an_error_of_the_compiler_alone_is_kept_with_its_place():
    trace = observe(program(programs.branches_return_an_input, (X,)))
    assert type(trace.error).__name__ == "UncapturedHigherOrderOpError"
    last = causes(trace)[-1]
    assert last.outcome is Outcome.FRAME_SKIPPED
    assert text(last.stack[0].span).startswith("torch.cond(")


def test_the_program_is_as_before_afterwards(capsys):
    module = programs.Skipping()
    torch.manual_seed(7)
    before = torch.get_rng_state()
    argument = X.clone()
    observe(program(module, (argument,)))
    assert module.calls == 0 and torch.equal(argument, X)
    assert torch.equal(torch.get_rng_state(), before)
    assert capsys.readouterr().out == ""


def test_nothing_compiled_is_zero_calls():
    assert observe(program(lambda n: n + 1, (1,))).compiled_calls == 0


def test_hooks_and_structured_trace_agree():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for target in (programs.nested, programs.in_loop, programs.in_try, programs.consumes):
            assert observe(program(target, (X,))).disagreements == ()
