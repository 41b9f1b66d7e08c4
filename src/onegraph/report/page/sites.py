"""The part of one site: where, why, what it causes, its repair with the proof, or why there is none."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

from onegraph.kinds import families, registry
from onegraph.report.page.code import excerpt
from onegraph.report.page.evidence import evidence_table
from onegraph.report.page.markup import Markup, join, prose, tag
from onegraph.report.rows import AnyReport, FixReport, Observed, RepairRow, SiteRow
from onegraph.report.text import plain_reason

_OUTCOMES = {
    "resumed": "a new graph starts behind it",
    "rest of the frame eager": "the rest of the function runs eagerly",
    "whole frame skipped": "nothing of the function is compiled",
    "hidden": "it stands behind another break, and shows when that one is gone",
}


def site_article(at: int, site: SiteRow, seen: Observed, report: AnyReport, prefix: str) -> Markup:
    repair = repair_of(site, report)
    name = f"{prefix}site-{at + 1}"
    return tag(
        "article",
        tag(
            "h3",
            tag("a", f"{at + 1}", href=f"#{name}", class_="anchor", aria_label=f"link to break {at + 1}"),
            " ",
            tag("code", site.kind),
            " ",
            _badges(site, repair),
        ),
        tag(
            "p",
            tag("code", f"{site.key.file or site.file}:{site.line}:{site.column}", class_="where"),
            " in ",
            tag("code", _function(site.function)),
            _whose(site),
            class_="place",
        ),
        tag("p", prose(site.reason), class_="why"),
        excerpt(site),
        _effects(at, site, seen),
        _repair(repair, prefix) if repair is not None else _advice(site, report.target),
        _about(site),
        id=name,
        class_=f"site {status(site, repair)}",
        tabindex="-1",
        data_kind=site.kind,
        data_status=status(site, repair),
        data_owner="yours" if site.owner == "user" else "dependencies",
        data_words=f"{site.kind} {site.key.file} {site.function} {site.source} {site.reason}".lower(),
    )


def repair_of(site: SiteRow, report: AnyReport) -> RepairRow | None:
    if not isinstance(report, FixReport):
        return None
    same = (site.kind, site.file, site.line, site.column)
    return next(
        (each for each in report.repairs if (each.kind, each.file, each.line, each.column) == same), None
    )


def status(site: SiteRow, repair: RepairRow | None) -> str:
    """One word for the filter: mended, accepted, or open."""
    if repair is not None and repair.status == "applied":
        return "mended"
    return "open" if site.standing == "new" else "accepted"


def _badges(site: SiteRow, repair: RepairRow | None) -> Iterator[Markup]:
    word = status(site, repair)
    level = f" · {repair.level}" if repair is not None and repair.level else ""
    yield tag("span", word + level, class_=f"badge {word}")
    if site.standing != "new":
        yield tag("span", site.standing, class_="badge quiet")


def _function(name: str) -> str:
    return name.replace("<locals>.", "")


def _whose(site: SiteRow) -> str:
    return "" if site.owner == "user" else f" · {site.package or site.owner}"


def _effects(at: int, site: SiteRow, seen: Observed) -> Markup:
    """Cause → effects."""
    effects: list[Markup | str] = [_OUTCOMES.get(site.outcome, site.outcome)]
    if site.outcome != "hidden" and site.count > 1:
        effects.append(f"it was met {site.count} times")
    for each in seen.recompiles:
        if each.site == at:
            reason = "; ".join(map(plain_reason, each.reasons))
            effects.append(
                join(tag("code", _function(each.function)), " is compiled again: ", tag("code", reason))
            )
    if site.note:
        effects.append(f"the gate lets it pass: {site.note}")
    return tag("ul", [tag("li", effect) for effect in effects], class_="effects", aria_label="what it causes")


def _repair(repair: RepairRow, prefix: str) -> Markup:
    if repair.status == "applied":
        return tag(
            "div",
            tag(
                "p",
                tag("strong", "Repair: "),
                prose(repair.title),
                " · ",
                tag("a", "the change", href=f"#{prefix}change"),
            ),
            tag("ul", [tag("li", "moves: ", prose(note)) for note in repair.notes]) if repair.notes else None,
            evidence_table(repair.evidence, "Proof of this repair"),
            class_="repair",
        )
    word = "Tried and rejected: " if repair.status == "rejected" else "Declined: "
    return tag(
        "div",
        tag("p", tag("strong", word), prose(repair.reason)),
        tag("p", tag("strong", "You can: "), prose(repair.next_step)) if repair.next_step else None,
        class_="repair none",
    )


def _advice(site: SiteRow, target: str) -> Markup:
    return tag("p", tag("strong", "Next: "), tag("code", f"onegraph fix {target}"), class_="advice")


def _about(site: SiteRow) -> Markup | None:
    """What the kind is in general, and other ways out, folded."""
    parts = list(_about_kind(site.kind)) + list(_ways(site))
    if not parts:
        return None
    return tag("details", tag("summary", "About this kind, and other ways"), parts)


def _about_kind(kind: str) -> Iterator[Markup]:
    if kind not in registry.names():
        return
    for paragraph in re.split(r"\n\s*\n", inspect.getdoc(registry.get(kind)) or "")[:4]:
        yield tag("p", prose(" ".join(paragraph.replace("``", "`").split())))


def _ways(site: SiteRow) -> Iterator[Markup]:
    for cause in site.causes:
        family = families.of(cause)
        yield tag("p", tag("strong", "Torch calls it: "), cause)
        yield tag("p", tag("strong", "By hand: "), prose(family.next_step))
