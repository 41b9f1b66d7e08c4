"""The HTML report: one file that needs nothing else, for a browser, a printer and a screen reader."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib import resources

from onegraph.report.page.change import change_section
from onegraph.report.page.markup import Markup, tag
from onegraph.report.page.rest import also_seen, environment, recompiles
from onegraph.report.page.sites import repair_of, site_article, status
from onegraph.report.page.strips import strips
from onegraph.report.problems import nothing_compiled, observed_of, summary
from onegraph.report.rows import AnyReport, CheckReport, FixReport, Observed, sites_of


def render(report: AnyReport) -> str:
    return render_all([report])


def render_all(reports: Sequence[AnyReport]) -> str:
    """A page of one or many reports (the tests of a run, the ranks of a job)."""
    title = f"onegraph · {reports[0].target}" if len(reports) == 1 else f"onegraph · {len(reports)} reports"
    body = tag(
        "body",
        tag("a", "to the breaks", href="#breaks", class_="skip"),
        _header(reports, title),
        tag(
            "main",
            _overview(reports),
            _parts(reports),
        ),
        tag("div", "", role="status", aria_live="polite", id="said"),
        Markup(f"<script>{_file('page.js')}</script>"),
    )
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        tag("title", title),
        Markup(f"<script>{_file('theme.js')}</script><style>{_file('page.css')}</style>"),
    )
    return f'<!doctype html>\n<html lang="en">{head}{body}</html>\n'


# Nothing is loaded from anywhere. Whatever a program's text may hold, it can reach nobody.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; base-uri 'none'"


_fragments = itertools.count(1)


def fragment(report: AnyReport) -> str:
    """The report as a part of another page (a notebook): its style reaches nothing else, and there is no
    script."""
    seen = observed_of(report)
    prefix = f"onegraph-{next(_fragments)}-"  # a notebook has many
    return tag(
        "div",
        Markup(f"<style>@scope {{{_file('page.css')}}}</style>"),
        tag("p", tag("strong", summary(report)), class_="totals"),
        strips(seen, prefix),
        [site_article(at, site, seen, report, prefix) for at, site in enumerate(sites_of(report))],
        change_section(report, prefix, buttons=False),
        recompiles(seen, prefix),
        also_seen(seen),
        class_="onegraph",
    )


def _file(name: str) -> str:
    return resources.files("onegraph.report.page").joinpath(name).read_text(encoding="utf-8")


def _header(reports: Sequence[AnyReport], title: str) -> Markup:
    first = reports[0]
    known = f"torch {first.torch} · Python {first.python} · onegraph {first.onegraph}"
    return tag(
        "header",
        tag("h1", title),
        tag("p", known, class_="quiet"),
        tag("button", "light / dark", type="button", id="theme", title="key: t"),
    )


def _overview(reports: Sequence[AnyReport]) -> Markup | None:
    if len(reports) == 1:
        return None
    rows = [
        tag("tr", tag("td", tag("a", report.target, href=f"#r{at + 1}")), tag("td", summary(report)))
        for at, report in enumerate(reports)
    ]
    head = tag("tr", tag("th", "target", scope="col"), tag("th", "result", scope="col"))
    return tag("section", tag("h2", "All"), tag("table", tag("thead", head), tag("tbody", rows)))


def _parts(reports: Sequence[AnyReport]) -> Iterator[Markup]:
    """Each report; above the first breaks of the page stands the form that filters all of them."""
    first = next((at for at, report in enumerate(reports) if sites_of(report)), 0)
    for at, report in enumerate(reports):
        yield _report(at, report, len(reports), _filters(reports) if at == first else None, at == first)


def _report(at: int, report: AnyReport, count: int, filters: Markup | None, first: bool) -> Markup:
    prefix = "" if count == 1 else f"r{at + 1}-"
    seen = observed_of(report)
    return tag(
        "div",
        tag("h2", report.target) if count > 1 else None,
        _summary(report),
        strips(seen, prefix),
        _sites(report, seen, prefix, filters, "breaks" if first else None),
        change_section(report, prefix),
        recompiles(seen, prefix),
        also_seen(seen),
        environment(report),
        id=f"r{at + 1}",
    )


def _summary(report: AnyReport) -> Markup:
    seen = observed_of(report)
    state = "bad" if nothing_compiled(report) else "good"
    cards = [_card("graphs", str(len(seen.graph_list))), _card("breaks", str(_live(seen)))]
    if isinstance(report, FixReport):
        cards = [
            _card("graphs", f"{report.before.graphs} → {report.after.graphs}"),
            _card("breaks", f"{_live(report.before)} → {_live(report.after)}"),
            _card("verified", "yes" if report.verified else "no" if report.changes else "–"),
        ]
        state = "bad" if report.changes and not report.verified else "warn" if _live(report.after) else state
    elif isinstance(report, CheckReport):
        cards += [_card("new", str(report.gate.new)), _card("accepted", str(report.gate.accepted))]
        state = "good" if report.gate.passed else "bad"
    elif _live(seen) or seen.limits_reached:
        state = "warn"
    cards.append(_card("recompiles", str(len(seen.recompiles))))
    return tag(
        "section",
        tag("p", summary(report), class_=f"verdict {state}"),
        tag("dl", cards, class_="cards"),
        tag("ul", [tag("li", each) for each in report.gate.problems])
        if isinstance(report, CheckReport)
        else None,
        aria_label="summary",
    )


def _card(name: str, value: str) -> Markup:
    return tag("div", tag("dt", name), tag("dd", value))


def _live(seen: Observed) -> int:
    return sum(not site.intended for site in seen.sites)


def _sites(
    report: AnyReport, seen: Observed, prefix: str, filters: Markup | None, anchor: str | None
) -> Markup:
    articles = [site_article(at, site, seen, report, prefix) for at, site in enumerate(sites_of(report))]
    nothing = (
        "Nothing was compiled, so nothing is proven." if nothing_compiled(report) else "The graph is whole."
    )
    return tag(
        "section",
        tag("h2", "Breaks, worst first", id=anchor),
        filters,
        articles or tag("p", nothing),
        tag("p", "No break fits the filter.", class_="nofit", hidden=True) if articles else None,
        aria_label="breaks",
    )


def _filters(reports: Sequence[AnyReport]) -> Markup | None:
    """One form for all breaks of the page."""
    pairs = [(site, report) for report in reports for site in sites_of(report)]
    if not pairs:
        return None
    kinds = Counter(site.kind for site, _ in pairs)
    states = Counter(status(site, repair_of(site, report)) for site, report in pairs)
    return tag(
        "form",
        tag("label", "search ", tag("input", type="search", id="search", placeholder="press /")),
        tag("label", "kind ", tag("select", _options(kinds), id="kind")),
        tag("label", "state ", tag("select", _options(states), id="state")),
        class_="filters",
        role="search",
    )


def _options(counts: Counter[str]) -> Iterator[Markup]:
    yield tag("option", "all", value="")
    for name, number in sorted(counts.items()):
        yield tag("option", f"{name} ({number})", value=name)
