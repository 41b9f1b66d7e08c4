"""A key follows its statement through edits elsewhere, and through a formatter."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from onegraph.gate.keys import fingerprint, keyed_path, keys_of, limit_key
from onegraph.model import Key, Site

PLAIN = "def f(x):\n    n = g(x.item(), 1)\n    return x * n\n"
EDITED = {
    "lines above": "import torch\n\n\n" + PLAIN,
    "a comment": PLAIN.replace("1)\n", "1)  # a number\n"),
    "a formatter": PLAIN.replace("g(x.item(), 1)", "g(\n        x.item(),\n        1,\n    )"),
    "code below": PLAIN.replace("return x * n", "y = x\n    return y * n"),
}


@pytest.mark.parametrize("edit", EDITED)
def test_a_key_stays(
    write: Callable[..., Path], site: Callable[..., Site], tmp_path: Path, edit: str
) -> None:
    before = keys_of([site(write(PLAIN), "x.item()")], tmp_path)
    assert before == [Key("item_call", "model.py", "f", "n = g(x.item(), 1)", 0)]
    assert keys_of([site(write(EDITED[edit]), "x.item()")], tmp_path) == before


def test_another_statement_has_another_key(
    write: Callable[..., Path], site: Callable[..., Site], tmp_path: Path
) -> None:
    before = keys_of([site(write(PLAIN), "x.item()")], tmp_path)
    after = keys_of([site(write(PLAIN.replace("1)", "2)")), "x.item()")], tmp_path)
    assert before != after
    assert fingerprint(before[0]) != fingerprint(after[0])


def test_equal_statements_are_told_apart_by_their_order(
    write: Callable[..., Path], site: Callable[..., Site], tmp_path: Path
) -> None:
    path = write("def f(x):\n    use(x.item())\n    use(x.item())\n")
    later, first = site(path, "x.item()", 1), site(path, "x.item()", 0)
    assert [key.occurrence for key in keys_of([later, first], tmp_path)] == [1, 0]


@pytest.mark.parametrize(
    ("text", "at", "statement"),
    [
        ("if x.sum() > 0:\n    y = 1\nelse:\n    y = 2\n", "x.sum() > 0", "if x.sum() > 0:"),
        ("while x.any():\n    x = x - 1\n", "x.any()", "while x.any():"),
        ("for row in x.tolist():\n    print(row)\n", "x.tolist()", "for row in x.tolist():"),
        ("with ctx(x.item()):\n    pass\n", "x.item()", "with ctx(x.item()):"),
        ("@deco\ndef g(a=x.item()):\n    return a\n", "x.item()", "def g(a=x.item()):"),
        ("match x.item():\n    case 1:\n        pass\n", "x.item()", "match x.item():"),
        ("try:\n    x.item()\nexcept ValueError:\n    pass\n", "x.item()", "x.item()"),
        ("print(1); print(x.item())\n", "x.item()", "print(x.item())"),
        ("if a: x.item()\n", "x.item()", "x.item()"),
        ("x.item() if a else (\n", "x.item()", "x.item()"),  # not Python: the text of the site
    ],
)
def test_the_statement(
    write: Callable[..., Path], site: Callable[..., Site], tmp_path: Path, text: str, at: str, statement: str
) -> None:
    assert keys_of([site(write(text), at)], tmp_path)[0].statement == statement


def test_paths_are_the_same_on_every_machine(tmp_path: Path) -> None:
    assert keyed_path(str(tmp_path / "a" / "b.py"), tmp_path) == "a/b.py"
    assert keyed_path("/env/lib/python3.12/site-packages/lib/nn.py", tmp_path) == "lib/nn.py"
    assert keyed_path("<stdin>", tmp_path) == "<stdin>"
    assert keyed_path("/elsewhere/b.py", tmp_path) == "/elsewhere/b.py"


def test_a_recompile_limit_has_a_key_without_a_line(tmp_path: Path) -> None:
    key = limit_key(f"Net.forward ({tmp_path / 'net.py'}:12)", tmp_path)
    assert key == Key("recompile_limit", "net.py", "Net.forward", "", 0)
