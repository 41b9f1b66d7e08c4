"""The HTML report as text: it is whole, small, and nothing in it is anybody's markup but ours."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

from onegraph.report.formats import rendered
from onegraph.report.html import fragment, render_all
from onegraph.report.page.markup import Markup, join, tag
from onegraph.report.rows import AnyReport

from .hostile import hostile

VOID = {"meta", "input", "br", "col"}


class Reader(HTMLParser):
    """Collects the tags, ids, links and scripts, and what isn't closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.handlers: list[str] = []

    def handle_starttag(self, name: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(name)
        if name not in VOID:
            self.open.append(name)
        for key, value in attributes:
            if key == "id":
                self.ids.append(value or "")
            if key in ("href", "src"):
                self.links.append(value or "")
            if key.startswith("on"):
                self.handlers.append(key)

    def handle_endtag(self, name: str) -> None:
        assert self.open.pop() == name


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert reader.open == []
    return reader


@pytest.fixture(params=["run", "check", "fix", "late", "clean", "nothing"])
def report(request: pytest.FixtureRequest, reports: dict[str, AnyReport]) -> AnyReport:
    return reports[request.param]


def test_it_is_one_file_that_needs_no_other(report: AnyReport) -> None:
    page = rendered(report, "html")
    found = read(page)
    assert len(found.ids) == len(set(found.ids))
    assert all(link.startswith("#") and link[1:] in found.ids for link in found.links)
    assert "http:" not in page and "https:" not in page
    assert len(page.encode()) < 400_000
    assert found.tags.count("h1") == 1


def test_other_peoples_markup_is_text(report: AnyReport) -> None:
    ours, theirs = read(rendered(report, "html")), read(rendered(hostile(report), "html"))
    assert theirs.tags.count("script") == ours.tags.count("script") == 2
    assert "img" not in theirs.tags
    assert theirs.handlers == []


def test_what_it_says_of_a_fix(reports: dict[str, AnyReport]) -> None:
    page = rendered(reports["fix"], "html")
    for words in (
        "2 graphs → 1, 2 breaks → 1, verified",
        "<mark>x.sum() &gt; 0</mark>",
        "<strong>Repair: </strong>torch.where instead of the branch",
        "moves: both sides are evaluated",
        "<strong>Declined: </strong>the logger is made inside",
        "<strong>You can: </strong>make it at module level",
        "the value handed over == 4.5",
        "onegraph fix model.py:make",
    ):
        assert words in page


def test_nothing_compiled_is_no_success(reports: dict[str, AnyReport]) -> None:
    page = rendered(reports["nothing"], "html")
    assert 'class="verdict bad"' in page
    assert "Nothing was compiled, so nothing is proven." in page


def test_many_reports_on_one_page(reports: dict[str, AnyReport]) -> None:
    found = read(render_all([reports["run"], reports["check"]]))
    assert len(found.ids) == len(set(found.ids))
    assert {"#r1", "#r2", "#r2-site-1"} <= set(found.links)


def test_a_part_for_another_page(report: AnyReport) -> None:
    found = read(fragment(report))
    assert "script" not in found.tags and "html" not in found.tags


def test_markup() -> None:
    assert tag("p", "a<b", None, [tag("b", "c")], class_='"x"', hidden=True, id=None) == (
        '<p class="&quot;x&quot;" hidden>a&lt;b<b>c</b></p>'
    )
    assert join("&", Markup("<br>")) == "&amp;<br>"
    assert tag("p", "\ud800") == "<p>?</p>"
