"""What breaks the graph of a program, and what hides behind a break."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from onegraph import progress
from onegraph.diagnose import diagnose
from onegraph.kinds import registry
from onegraph.model import Findings, Program, Trace
from onegraph.observe import Probe, explore, observe


def look(program: Program) -> Findings:
    """Observe every call, and probe behind the breaks; on copies, the program's state is as before."""
    progress.say(f"observing {program.name}")
    trace = observe(program)
    if not trace.breaks:
        return findings_of(trace)
    progress.say("looking behind the breaks")
    return findings_of(trace, [explore(program)])


def findings_of(trace: Trace, probes: Sequence[Probe] = ()) -> Findings:
    """Diagnosed by the registered kinds. Where a probe stopped early is in ``trace.unseen``."""
    stopped = tuple(sentence for probe in probes for sentence in probe.stopped)
    hidden = [each for probe in probes for each in probe.breaks]
    trace = replace(trace, unseen=(*trace.unseen, *stopped)) if stopped else trace
    return diagnose(trace, hidden, classify=registry.classify, explain=registry.reason)
