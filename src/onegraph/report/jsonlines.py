"""One JSON object a line: the header, then each site, recompile, repair; the totals last. For jq and logs."""

from __future__ import annotations

import msgspec

from onegraph.report.problems import observed_of, summary
from onegraph.report.rows import AnyReport, CheckReport, FixReport


def render(report: AnyReport) -> str:
    seen = observed_of(report)
    rows: list[dict[str, object]] = [
        {
            "type": "report",
            "command": "fix" if isinstance(report, FixReport) else _command(report),
            "version": report.version,
            "target": report.target,
            "onegraph": report.onegraph,
            "torch": report.torch,
            "python": report.python,
        }
    ]
    rows += [{"type": "site", **_fields(site)} for site in seen.sites]
    rows += [{"type": "recompile", **_fields(each)} for each in seen.recompiles]
    rows += [{"type": "limit_reached", "place": place} for place in seen.limits_reached]
    if isinstance(report, FixReport):
        rows += [{"type": "repair", **_fields(repair)} for repair in report.repairs]
        rows += [{"type": "change", **_fields(change)} for change in report.changes]
    rows.append({"type": "totals", "graphs": seen.graphs, "breaks": len(seen.sites), "text": summary(report)})
    if isinstance(report, CheckReport):
        rows.append({"type": "gate", **_fields(report.gate)})
    return "".join(f"{msgspec.json.encode(row).decode()}\n" for row in rows)


def _command(report: AnyReport) -> str:
    return "check" if isinstance(report, CheckReport) else "run"


def _fields(row: msgspec.Struct) -> dict[str, object]:
    return {name: getattr(row, name) for name in row.__struct_fields__}
