"""The HTML report in a real, headless Chromium. Skipped, with the reason, where there is none."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from onegraph.report.html import render_all
from onegraph.report.rows import AnyReport

from .hostile import hostile

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1200,900",
    "--force-prefers-reduced-motion",
)
Open = Callable[..., Any]


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    chromium, chromedriver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or chromedriver is None:
        pytest.skip("chromium and chromedriver are not installed (Debian: chromium, chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('chromium')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService(executable_path=chromedriver)
    driver = webdriver.Chrome(options=options, service=service)
    yield driver
    driver.quit()


@pytest.fixture
def page(driver: Any, tmp_path: Path) -> Iterator[Open]:
    """``page(report, ...)`` opens it; at the end nothing may stand in the console."""

    def page(*reports: AnyReport, link: str = "") -> Any:
        path = tmp_path / "report.html"
        path.write_text(render_all(reports), encoding="utf-8")
        driver.get("about:blank")
        driver.get(path.as_uri() + link)
        return driver

    yield page
    assert [entry["message"] for entry in driver.get_log("browser")] == []


def select(driver: Any, css: str) -> list[Any]:
    return list(driver.find_elements("css selector", css))


def shown(driver: Any) -> list[str]:
    return [site.get_attribute("id") for site in select(driver, "article.site") if site.is_displayed()]


def test_it_shows_the_breaks_in_a_strip_and_in_order(page: Open, reports: dict[str, AnyReport]) -> None:
    driver = page(reports["fix"])
    assert driver.title == "onegraph · model.py:make"
    assert shown(driver) == ["site-1", "site-2"]
    graphs = [each.size["width"] for each in select(driver, ".strip .graph")]
    assert len(graphs) == 2 and min(graphs) > 20
    (cut,) = select(driver, ".strip a.cut")
    cut.click()
    assert driver.current_url.endswith("#site-1")
    assert "current" in select(driver, "#site-1")[0].get_attribute("class")


def test_filters(page: Open, reports: dict[str, AnyReport]) -> None:
    driver = page(reports["fix"])
    (search,) = select(driver, "#search")
    search.send_keys("Block.forward")
    assert shown(driver) == ["site-2"]
    assert select(driver, "#said")[0].get_attribute("textContent") == "1 of 2 breaks shown"
    search.send_keys(" nothing like it")
    assert shown(driver) == []
    assert select(driver, ".nofit")[0].is_displayed()
    search.clear()
    search.send_keys(" ")
    driver.find_element("css selector", "#state option[value=mended]").click()
    assert shown(driver) == ["site-1"]


def test_a_deep_link_undoes_the_filter(page: Open, reports: dict[str, AnyReport]) -> None:
    driver = page(reports["fix"], link="#site-2")
    assert "current" in select(driver, "#site-2")[0].get_attribute("class")
    select(driver, "#search")[0].send_keys("nothing like it")
    driver.execute_script("location.hash = 'site-1'")
    assert shown(driver) == ["site-1", "site-2"]
    driver.execute_script("location.hash = 'patch'")
    assert select(driver, "#patch")[0].is_displayed()


def test_keys(page: Open, reports: dict[str, AnyReport]) -> None:
    driver = page(reports["fix"])
    (body,) = select(driver, "body")
    for keys, at in (("j", "#site-1"), ("j", "#site-2"), ("j", "#site-2"), ("k", "#site-1")):
        driver.switch_to.active_element.send_keys(keys)
        assert driver.current_url.endswith(at)
    before = body.value_of_css_property("background-color")
    driver.switch_to.active_element.send_keys("t")
    assert body.value_of_css_property("background-color") != before
    driver.switch_to.active_element.send_keys("/")
    assert driver.switch_to.active_element.get_attribute("id") == "search"
    assert driver.switch_to.active_element.get_attribute("value") == ""


def test_the_patch_is_copied(page: Open, reports: dict[str, AnyReport]) -> None:
    driver = page(reports["fix"])
    (button,) = select(driver, "button.copy")
    button.click()
    for _ in range(50):
        if button.text != "copy the patch":
            break
        driver.execute_async_script("setTimeout(arguments[0], 20)")
    assert button.text == "copied"
    (search,) = select(driver, "#search")
    search.send_keys("\ue009v")  # Ctrl+V
    assert search.get_attribute("value").startswith("--- a/model.py")


def test_hostile_text_does_not_run(page: Open, reports: dict[str, AnyReport]) -> None:
    for name in ("fix", "check"):
        driver = page(hostile(reports[name]))
        assert driver.execute_script("return window.hacked") is None
        assert select(driver, "img") == []
        assert len(shown(driver)) == 2


@pytest.mark.parametrize("width", [1200, 380])
def test_nothing_is_cut_off_at_the_side(page: Open, reports: dict[str, AnyReport], width: int) -> None:
    driver = page(reports["fix"], reports["check"])
    driver.set_window_size(width, 900)
    wide = driver.execute_script("return document.documentElement.scrollWidth - innerWidth")
    driver.set_window_size(1200, 900)
    assert wide <= 0


def test_every_control_has_a_name(page: Open, reports: dict[str, AnyReport]) -> None:
    driver = page(reports["fix"])
    for each in select(driver, "button, a, input, select, [role=region]"):
        assert not each.is_displayed() or each.accessible_name, each.get_attribute("outerHTML")


def test_it_prints(page: Open, reports: dict[str, AnyReport]) -> None:
    driver = page(reports["fix"])
    assert len(driver.print_page()) > 10_000
