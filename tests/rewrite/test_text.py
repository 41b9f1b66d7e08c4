"""Edits on text: what is not edited stays byte for byte."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from onegraph.model import Span
from onegraph.rewrite import text


def find(source: str, code: str) -> Any:
    tree = text.parse(source)
    return next(n for n in ast.walk(tree) if isinstance(n, ast.expr | ast.stmt) and ast.unparse(n) == code)


def test_a_span_behind_non_ascii_text_is_the_right_one_and_crlf_stays() -> None:
    source = 'def f(x):\r\n\té = "ü"; y = x + 1\r\n\treturn y  # ✓\r\n'
    node = find(source, "x + 1")
    assert text.segment(source, node) == "x + 1"
    edited = text.replace_spans(source, [(*text.position(node), "(x\n\t\t+ 2)")])
    assert edited == 'def f(x):\r\n\té = "ü"; y = (x\r\n\t\t+ 2)\r\n\treturn y  # ✓\r\n'


def test_several_edits_are_independent_of_their_order_and_overlaps_are_refused() -> None:
    source = "a = 1\nb = 2\n"
    edits = [(2, 4, 2, 5, "22"), (1, 4, 1, 5, "11")]
    assert text.replace_spans(source, edits) == text.replace_spans(source, edits[::-1]) == "a = 11\nb = 22\n"
    with pytest.raises(ValueError, match="overlap"):
        text.replace_spans(source, [(1, 0, 1, 5, ""), (1, 4, 2, 1, "")])


def test_a_form_feed_is_not_a_line_end() -> None:
    source = "a = 1\n\x0c\nb = a + 2\n"
    assert text.segment(source, find(source, "a + 2")) == "a + 2"


def test_the_node_at_a_span_is_the_innermost_one() -> None:
    source = "def f(x):\n    if x.sum() > 0:\n        y = [x for _ in range(2)]\n    return y\n"
    tree = text.parse(source)
    assert ast.unparse(text.node_at(tree, Span("", 2, 7, 2, 18)) or tree) == "x.sum() > 0"
    assert ast.unparse(text.node_at(tree, Span("", 2, 9, 2, 12)) or tree) == "x.sum"
    assert ast.unparse(text.node_at(tree, Span("", 3, 24, 3, 29)) or tree) == "range"
    assert isinstance(text.statement_at(tree, Span("", 3, 13, 3, 14)), ast.Assign)
    assert isinstance(text.statement_at(tree, Span("", 2, 7, 2, 18)), ast.If)


NAMES = """
@deco(lambda: 1)
def f(a=lambda: 2):
    def g():
        return [h for h in (lambda: 3,)]
    class C:
        def m(self): pass

def f(x):
    return x
"""


def test_functions_have_the_qualified_names_that_python_gives_them() -> None:
    inner = ["f.<locals>.g", "f.<locals>.g.<locals>.<lambda>", "f.<locals>.C.m"]
    expected = ["<lambda>", "<lambda>", "f", *inner, "f"]
    assert [name for name, _ in text.functions(text.parse(NAMES))] == expected


def test_a_function_is_found_by_name_and_line() -> None:
    tree = text.parse(NAMES)
    first, second = text.find_function(tree, "f", 4), text.find_function(tree, "f", 9)
    assert first is not None and second is not None and (first.lineno, second.lineno) == (3, 9)
    inner = text.find_function(tree, "f.<locals>.g.<locals>.<listcomp>", 5)
    assert isinstance(inner, ast.FunctionDef) and inner.name == "g"
    assert text.find_function(tree, "nothing", 1) is None


def test_an_unused_name_avoids_everything_the_file_mentions() -> None:
    tree = text.parse("import cond\ndef f(cond_2, *, x): return cond_3\n")
    assert text.unused_name(tree, "cond") == "cond_4"
    assert text.unused_name(tree, "print") == "print_2"
    assert text.unused_name(tree, "free", taken=["free"]) == "free_2"


def test_a_block_moves_with_its_comments_and_without_the_inside_of_its_strings() -> None:
    block = '    a = f("""x\n  y\n"""\n        )\n    # a comment\n\n    b = (1 +\n         2)\n'
    moved = (
        '        a = f("""x\n  y\n"""\n            )\n'
        "        # a comment\n\n        b = (1 +\n             2)\n"
    )
    assert text.reindent(block, "        ") == moved
    assert text.reindent(moved, "    ") == block
    assert text.reindent("\tx = 1\n", "    ") == "    x = 1\n"


def test_a_multi_line_f_string_stays_as_it_is() -> None:
    block = '    a = f"""x\n  {y}\n"""\n'
    assert text.reindent(block, "") == 'a = f"""x\n  {y}\n"""\n'


@pytest.mark.parametrize(
    ("source", "name", "added"),
    [
        ("import torch\nx = 1\n", "torch", ""),
        ("import torch as th\n", "th", ""),
        ("import torch.nn\n", "torch", ""),
        ("try:\n    import torch\nexcept ImportError:\n    torch = None\n", "torch", ""),
        ("import os\n", "torch", "import torch\n"),
        ("import torch.nn as nn\n", "torch", "import torch\n"),
        ("from torch import nn\n", "torch", "import torch\n"),
        ('"""Doc."""\n\nfrom __future__ import annotations\n\nx = 1\n', "torch", "\nimport torch\n"),
        ("from lib import torch\n", "_torch", "import torch as _torch\n"),
        ("#!/usr/bin/env python\n# coding: utf-8\nx = 1\n", "torch", "\nimport torch\n\n"),
    ],
)
def test_torch_is_imported_once_under_the_name_that_the_file_uses(source: str, name: str, added: str) -> None:
    new, found = text.ensure_torch_import(source)
    assert found == name
    assert len(new) == len(source) + len(added) and added in new
    scope: dict[str, Any] = {}
    if "lib" not in source and "os" not in source:
        exec(compile(new, "m", "exec"), scope)
        assert scope[name].__name__ == "torch"
    assert text.ensure_torch_import(new) == (new, name)


def test_an_import_for_type_checkers_alone_does_not_count() -> None:
    source = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import torch\n"
    new, name = text.ensure_torch_import(source)
    assert new == "import torch\n" + source and name == "torch"


def test_a_block_after_the_imports_is_set_off_by_blank_lines() -> None:
    source = '"""Doc."""\nimport os\ntry:\n    import a\nexcept ImportError:\n    a = None\nX = 1\n'
    new = text.insert_after_imports(source, "def helper():\n    pass\n")
    assert new == source.replace("X = 1", "\n\ndef helper():\n    pass\n\n\nX = 1")
    assert text.insert_after_imports("", "x = 1") == "x = 1\n"


def test_a_block_before_a_statement_stands_above_its_decorators_and_comments() -> None:
    source = "import os\n\n\n# about f\n@deco\ndef f():\n    return 1\n"
    new = text.insert_before_toplevel(source, 7, "def h():\n    pass")
    assert new == "import os\n\n\ndef h():\n    pass\n\n\n# about f\n@deco\ndef f():\n    return 1\n"


def test_a_long_call_is_written_one_argument_a_line() -> None:
    arguments = "torch.isinf(hidden_states).any(), clamp_hidden_states, keep, dim=(1, 2)"
    code = f"    hidden_states, mask = _cond({arguments})\n"
    assert text.wrap_call(code, 80) == (
        "    hidden_states, mask = _cond(\n"
        "        torch.isinf(hidden_states).any(),\n"
        "        clamp_hidden_states,\n"
        "        keep,\n"
        "        dim=(1, 2),\n"
        "    )\n"
    )
    assert text.wrap_call("    x = f(a, b)\n") == "    x = f(a, b)\n"
    assert text.wrap_call("f(" + "a" * 99 + " for a in b)").endswith(" for a in b)\n)")


def test_the_step_of_indentation_is_that_of_the_file() -> None:
    assert text.indent_unit("class A:\n\tdef f(self):\n\t\treturn 1\n") == "\t"
    assert text.indent_unit("x = 1\n") == "    "
