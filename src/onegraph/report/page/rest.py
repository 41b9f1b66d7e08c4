"""What stands below the breaks: recompiles, what else was seen, and where it all ran."""

from __future__ import annotations

import shlex

from onegraph.report.page.markup import Markup, join, tag
from onegraph.report.rows import AnyReport, Observed
from onegraph.report.text import plain_reason


def recompiles(seen: Observed, prefix: str) -> Markup | None:
    if not seen.recompiles:
        return None
    groups: dict[str, list[Markup]] = {}
    for each in seen.recompiles:
        where = f"{each.function.replace('<locals>.', '')} ({each.file.rpartition('/')[2]}:{each.line})"
        because = None
        if each.site is not None:
            because = join(
                " · goes with ", tag("a", f"break {each.site + 1}", href=f"#{prefix}site-{each.site + 1}")
            )
        reasons = "; ".join(map(plain_reason, each.reasons)) or "torch gives no reason"
        groups.setdefault(where, []).append(tag("li", tag("code", reasons), because))
    parts = [tag("li", tag("code", where), tag("ul", rows)) for where, rows in groups.items()]
    return tag(
        "section", tag("h2", "Recompiles"), tag("ul", parts, class_="recompiles"), aria_label="recompiles"
    )


def also_seen(seen: Observed) -> Markup | None:
    """What else was seen, one list each."""
    lists = {
        "Recompile limit reached: eager from then on": seen.limits_reached,
        "Left to eager": seen.frames_given_up,
        "Torch's own log tells something else": seen.disagreements,
        "Not looked at further": seen.unseen,
        "An error was raised": [seen.error] if seen.error else [],
    }
    parts = [
        join(tag("h3", title), tag("ul", [tag("li", tag("code", each)) for each in rows]))
        for title, rows in lists.items()
        if rows
    ]
    return tag("section", tag("h2", "Also seen"), parts, aria_label="also seen") if parts else None


def environment(report: AnyReport) -> Markup:
    rows = {
        "command": shlex.join(report.arguments),
        "torch": report.torch,
        "Python": report.python,
        "onegraph": report.onegraph,
        "system": report.platform,
    }
    cells = [
        tag("tr", tag("th", name, scope="row"), tag("td", tag("code", value)))
        for name, value in rows.items()
        if value
    ]
    note = "This page holds lines of the program's source."
    return tag(
        "section",
        tag("h2", "Environment"),
        tag("table", tag("tbody", cells)),
        tag("p", note, class_="quiet"),
        aria_label="environment",
    )
