"""What the guides say is there: links, commands with their options, settings, workflow snippets."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path

import click
import pytest

from onegraph.apps.cli import main
from onegraph.gate.settings import load_settings
from onegraph.kinds import registry

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)


def blocks(page: Path, language: str) -> list[str]:
    return [body for name, body in BLOCK.findall(page.read_text(encoding="utf-8")) if name == language]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links(page: Path) -> None:
    text = BLOCK.sub("", page.read_text(encoding="utf-8"))
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if not link.startswith(("http", "#")):
            assert (page.parent / link.partition("#")[0]).exists(), link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    lines = [line.removeprefix("$ ") for body in blocks(page, "") for line in body.splitlines()]
    lines += re.findall(r"`(onegraph [^`]+)`", BLOCK.sub("", text))
    for line in lines:
        if line.startswith("onegraph ") and "…" not in line:
            parse(shlex.split(line, comments=True)[1:])


def parse(words: list[str]) -> None:
    """Fails on a command or an option that isn't there; what the words mean is not looked at."""
    command: click.Command = main
    while isinstance(command, click.Group):
        name = words[0] if words else ""
        if name.startswith("-") or not name.isalpha():
            return
        assert name in command.commands, words
        command, words = command.commands[name], words[1:]
    context = click.Context(command, info_name=command.name)
    command.make_parser(context).parse_args(args=list(words))


def test_settings(tmp_path: Path) -> None:
    (settings,) = blocks(ROOT / "docs" / "ci.md", "toml")
    tomllib.loads(settings)
    (tmp_path / "pyproject.toml").write_text(settings)
    assert load_settings(tmp_path, registry.names()).limits.recompiles == 1


def test_workflow_snippets_name_inputs_and_hooks_that_exist() -> None:
    yaml = pytest.importorskip("yaml")
    steps, hooks = (yaml.safe_load(body) for body in blocks(ROOT / "docs" / "ci.md", "yaml"))
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    ours = next(step for step in steps if "onegraph" in step.get("uses", ""))
    assert set(ours["with"]) <= set(action["inputs"])
    known = {hook["id"] for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())}
    assert {hook["id"] for hook in hooks[0]["hooks"]} <= known


def test_kinds_in_the_guides_exist() -> None:
    for page in (ROOT / "README.md", ROOT / "docs" / "ci.md", ROOT / "docs" / "report.md"):
        for named in re.findall(r"ignore(?:-file)?\[([\w, ]+)\]", page.read_text(encoding="utf-8")):
            assert set(named.split(", ")) <= {*registry.names(), "kind"}, page
