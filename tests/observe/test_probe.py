"""Probe mode: all breaks on the way in one trace."""

import logging

import programs
import torch
from test_run import X, program, text
from torch._dynamo import output_graph, symbolic_convert

from onegraph.model import Outcome
from onegraph.observe import explore, observe, probe


def pointed_at(target, *args, **kwargs):
    return [text(each.stack[-1].span) for each in probe(program(target, args), **kwargs)]


def test_finds_what_stands_behind_a_skipped_frame():
    assert len({each.stack[-1].span for each in observe(program(programs.in_loop, (X,))).breaks}) == 1
    assert pointed_at(programs.in_loop, X) == ['print("loop")', "x.sum() > 0"]


def test_finds_breaks_in_try_and_in_generators():
    assert pointed_at(programs.in_try, X) == ["x.mean().item()", 'print("tried")']
    assert pointed_at(programs.consumes, X) == ['print("piece", i)']


def test_a_site_is_listed_once_and_is_hidden():
    found = probe(program(programs.second_break, (X,), (X + 1,)))
    assert [each.outcome for each in found] == [Outcome.HIDDEN, Outcome.HIDDEN]
    assert found[0].locals["x"].shape == (2, 4)


def test_short_circuit_takes_the_branch_of_the_real_value():
    assert pointed_at(programs.operand, X, False) == []
    assert pointed_at(programs.operand, X, True) == ["x.sum() > 0", "not x.isnan().any()"]
    assert pointed_at(programs.operand, -X.abs(), True) == ["x.sum() > 0"]


def test_residual_leaves_out_what_capture_removes():
    lengths = torch.tensor([1, 2])
    assert pointed_at(programs.item_then_size, X, lengths) == ["lengths.max().item()"]
    assert pointed_at(programs.item_then_size, X, lengths, residual=True) == []


def guarded(x, t):
    n = t.sum().item()
    if n > 3:
        x = x + 1
    return x[x > 0].sum()


def test_residual_lists_a_branch_on_a_captured_number():
    assert pointed_at(guarded, X, torch.tensor([5]), residual=True) == ["n > 3"]


def test_a_probe_that_ends_early_says_where():
    found = explore(program(programs.pieces, (X,)))
    assert found.stopped and "Attempt to trace generator" in found.stopped[0]
    assert explore(program(programs.in_loop, (X,))).stopped == ()


def test_nothing_is_left_changed(capsys):
    table = list(symbolic_convert.InstructionTranslator.dispatch_table)
    init = output_graph.OutputGraph.__init__
    module = programs.Skipping()
    weight = module.inner.weight.detach().clone()
    assert [text(each.stack[-1].span) for each in probe(program(module, (X,)))] == [
        'log.warning("mean %s", x.mean())',
    ]
    assert module.calls == 0 and torch.equal(module.inner.weight, weight)
    assert list(symbolic_convert.InstructionTranslator.dispatch_table) == table
    assert output_graph.OutputGraph.__init__ is init
    assert capsys.readouterr().out == ""
    assert observe(program(programs.clean, (X,))).breaks == ()


def endless(x):
    while x.sum() < 1e9:
        x = x + 1e-3
    print("behind")
    return x


def test_a_loop_that_runs_on_is_left_and_what_stands_behind_is_found():
    assert pointed_at(endless, X) == ["x.sum() < 1e9", 'print("behind")']


def test_what_a_probed_program_logs_reaches_no_handler(caplog) -> None:
    log = logging.getLogger("model.probed")

    def logs(x):
        log.warning("mean %s", x.mean())
        return x + 1 if x.sum() > 0 else x - 1

    explore(program(logs, (X,)))
    observe(program(logs, (X,)))
    assert not [record for record in caplog.records if record.name == "model.probed"]
