"""What was run and compared, as a table: stages across, what was looked at down."""

from __future__ import annotations

from onegraph.report.page.markup import Markup, tag
from onegraph.report.rows import CheckRow, EvidenceRow
from onegraph.words import counted

_MARKS = {
    True: ("✓", "agrees", "good"),
    False: ("✗", "differs", "bad"),
    None: ("?", "could not be verified", "unsure"),
}


def evidence_table(evidence: EvidenceRow, title: str, *, unfolded: bool = False) -> Markup | None:
    """Folded where all agrees. Checks are named "stage: aspect"; one without an aspect is "as a whole"."""
    if not evidence.checks:
        return None
    cells: dict[tuple[str, str], CheckRow] = {}
    for check in evidence.checks:
        stage, _, aspect = check.name.partition(": ")
        cells.setdefault((stage, aspect or "as a whole"), check)
    stages = list(dict.fromkeys(stage for stage, _ in cells))
    aspects = list(dict.fromkeys(aspect for _, aspect in cells))
    head = tag("tr", tag("th", "looked at", scope="col"), [tag("th", stage, scope="col") for stage in stages])
    body = [
        tag("tr", tag("th", aspect, scope="row"), [_cell(cells.get((stage, aspect))) for stage in stages])
        for aspect in aspects
    ]
    table = tag("table", tag("thead", head), tag("tbody", body), class_="evidence")
    scroll = tag("div", table, class_="scroll", tabindex="0", role="region", aria_label=title)
    summary = tag("summary", f"{title}: {_verdict(evidence)} · {_totals(evidence)}")
    return tag("details", summary, scroll, open=unfolded or not evidence.verified)


def _verdict(evidence: EvidenceRow) -> str:
    if evidence.verified:
        return "verified"
    failed = any(check.passed is False for check in evidence.checks)
    return "failed" if failed else "not verified in all"


def _totals(evidence: EvidenceRow) -> str:
    runs = f"{counted(evidence.inputs, 'run')} compared"
    if evidence.max_abs == 0 and evidence.max_rel == 0:
        same = "bit for bit"
    else:
        same = f"max difference {_number(evidence.max_abs)} absolute, {_number(evidence.max_rel)} relative"
    return f"{runs} · {same} · {evidence.seconds:.1f} s"


def _number(value: float | None) -> str:
    return "not a number" if value is None else f"{value:.1e}"


def _cell(check: CheckRow | None) -> Markup:
    if check is None:
        return tag("td", "")
    mark, word, style = _MARKS[check.passed]
    detail = f" {check.detail}" if check.detail else ""
    return tag(
        "td", tag("span", mark, aria_hidden="true"), tag("span", word, class_="spoken"), detail, class_=style
    )
