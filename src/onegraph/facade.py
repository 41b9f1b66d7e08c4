"""The public functions in Python: ``explain``, ``fix`` and ``watch``, and what they return."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from onegraph import deliver, pipeline
from onegraph.model import Evidence, Findings, FixResult, Level, Repair, Site
from onegraph.report import fix_text, html, json, rows, text
from onegraph.report.verdict import verified
from onegraph.targets import from_callable


class Report:
    """Where the graph breaks. ``print(report)`` shows it; inside ``watch()`` it grows as the program runs."""

    def __init__(self, name: str, findings: Callable[[], Findings]) -> None:
        self._name, self._findings = name, findings

    @property
    def findings(self) -> Findings:
        return self._findings()

    @property
    def sites(self) -> tuple[Site, ...]:
        """One for each source expression that breaks the graph, worst first."""
        return self.findings.sites

    @property
    def graphs(self) -> int:
        """How many graphs were made."""
        return len(self.findings.trace.graphs)

    def to_json(self) -> str:
        """As ``onegraph run --format json``."""
        return json.render(rows.run_report(self.findings, self._name))

    def to_html(self) -> str:
        """One HTML page that needs nothing else, as ``onegraph run --format html``."""
        return html.render(rows.run_report(self.findings, self._name))

    def __str__(self) -> str:
        findings = self.findings
        if findings.nothing_compiled:
            step = "call the compiled function with tensors"
            return text.to_text(text.nothing_compiled(self._name, findings.trace, "No graph was made.", step))
        step = f"onegraph.fix({self._name})(...)" if findings.sites else "nothing to do"
        return text.to_text(text.run_text(findings, self._name, verb="explain", next_step=step))

    def _repr_html_(self) -> str:
        return html.fragment(rows.run_report(self.findings, self._name))

    def __repr__(self) -> str:
        return f"<onegraph report: {text.totals(self.findings)}>"


class Fix:
    """What was mended, with its evidence. Nothing is written until ``apply()``."""

    def __init__(self, name: str, result: FixResult) -> None:
        self._name, self.result = name, result

    @property
    def diff(self) -> str:
        """The change as a patch, relative to the current folder; "" when nothing changes."""
        return deliver.diff(self.result.changes)

    @property
    def repairs(self) -> tuple[Repair, ...]:
        """The decision on every site: applied, declined or rejected, and why."""
        return self.result.repairs

    @property
    def evidence(self) -> Evidence:
        return self.result.evidence

    @property
    def verified(self) -> bool:
        return verified(self.result)

    def apply(self, *, force: bool = False) -> tuple[str, ...]:
        """Write the change into the files, all or nothing, and return their paths.

        Raises onegraph.deliver.CannotApply, with nothing written, where a file changed since, can't be
        written or belongs to an installed package; and ValueError where the change is not verified, unless
        ``force``.
        """
        if self.result.changes and not self.verified and not force:
            raise ValueError(
                f"not verified: {fix_text.evidence_line(self.evidence)}; apply(force=True) insists"
            )
        return deliver.apply(self.result.changes)

    def to_json(self) -> str:
        """As ``onegraph fix --format json``."""
        return json.render(rows.fix_report(self.result, self._name, self.diff))

    def to_html(self) -> str:
        """One HTML page that needs nothing else, as ``onegraph fix --format html``."""
        return html.render(rows.fix_report(self.result, self._name, self.diff))

    def _repr_html_(self) -> str:
        return html.fragment(rows.fix_report(self.result, self._name, self.diff))

    def __str__(self) -> str:
        step = ".apply()" if self.result.changes and self.verified else ".repairs tells what is left and why"
        return text.to_text(fix_text.fix_text(self.result, self._name, self.diff, next_step=step))


def explain(fn: Callable[..., Any], /, **options: Any) -> Callable[..., Report]:
    """``explain(fn)(*args, **kwargs)``: compile and run ``fn`` on copies of these arguments, and report.

    ``options`` are keywords of torch.compile. Raises onegraph.targets.TargetError where ``fn`` can't be
    compiled, TargetFailed where it raises on these arguments without torch.compile too.
    """

    def explained(*args: Any, **kwargs: Any) -> Report:
        program = from_callable(fn, args, kwargs, options=options)
        findings = pipeline.run(program)
        return Report(program.name, lambda: findings)

    return explained


def fix(
    fn: Callable[..., Any],
    /,
    *,
    level: Level | str = Level.RELAXED,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    **options: Any,
) -> Callable[..., Fix]:
    """``fix(fn)(*args, **kwargs)``: mend ``fn`` on copies of these arguments, verify it, and return a
    ``Fix``.

    ``level`` is what a repair may change ("exact", "relaxed", "lossy"); ``select`` and ``ignore`` name kinds;
    ``options`` are keywords of torch.compile. Raises as ``explain``.
    """

    def fixed(*args: Any, **kwargs: Any) -> Fix:
        program = from_callable(fn, args, kwargs, options=options)
        return Fix(program.name, pipeline.fix(program, level=Level(level), select=select, ignore=ignore))

    return fixed


@contextmanager
def watch() -> Iterator[Report]:
    """A report of everything that goes through torch.compile inside the block."""
    with pipeline.watching() as findings:
        yield Report("watch", findings)
