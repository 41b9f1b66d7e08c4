"""Finding kinds, giving each break one, and the texts that explain them."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from onegraph.kinds import docs, explain, families, gb_table, registry
from onegraph.kinds.base import is_kind
from onegraph.model import Break, Frame, Outcome, Span
from onegraph.torch_private import registry as torch_registry

ROOT = Path(__file__).parents[2]


def _break(gb_type: str, file: str = "nowhere.py", line: int = 1, column: int = 0, end: int = 1) -> Break:
    frame = Frame(Span(file, line, column, line, end), "program")
    return Break(gb_type, gb_type, Outcome.RESUMED, (frame,))


def test_every_kind_has_the_names_of_a_kind_and_other_comes_last() -> None:
    kinds = registry.all_kinds()
    assert all(is_kind(kind) and kind.TITLE and kind.__doc__ for kind in kinds)
    assert kinds[-1].NAME == "other"
    assert list(registry.names()) == sorted(kind.NAME for kind in kinds)


def test_listing_and_explaining_kinds_imports_no_torch() -> None:
    code = (
        "import sys; from onegraph.kinds import explain, registry\n"
        "registry.names(); explain.page('item_call'); explain.page('GB0124')\n"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_break_without_source_still_has_a_kind() -> None:
    assert (
        registry.classify(_break("Unsupported Tensor.item() call with capture_scalar_outputs=False"))
        == "item_call"
    )
    assert registry.classify(_break("something that no torch has said yet")) == "other"
    assert registry.classify(Break("", "", Outcome.HIDDEN, ())) == "other"


def test_text_that_is_no_python_is_no_error() -> None:
    assert registry.node_at(_break("x"), "def (:\n") is None


def test_the_innermost_node_is_found_by_byte_columns() -> None:
    text = "é = 'ü'; y = x.mean().item()\n"
    start = len("é = 'ü'; y = ".encode())
    node = registry.node_at(_break("x", column=start, end=start + len("x.mean().item()")), text)
    assert registry.ast.unparse(node) == "x.mean().item()" if node else False


def test_an_unknown_kind_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        registry.get("no_such_kind")


def test_a_third_party_kind_is_found_by_its_entry_point(tmp_path: Path) -> None:
    text = '''\
"""Theirs."""
NAME, TITLE, GB_IDS, EXAMPLES, UNTOUCHED = "their_kind", "Theirs", (), (), ()
def recognises(break_, node): return break_.gb_type == "theirs"
def repairs(request): yield from ()
'''
    (tmp_path / "their_kinds.py").write_text(text)
    meta = tmp_path / "theirs-1.0.dist-info"
    meta.mkdir()
    (meta / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (meta / "entry_points.txt").write_text("[onegraph.kinds]\ntheirs = their_kinds\n")
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from onegraph.kinds import registry\n"
        "from onegraph.model import Break, Outcome\n"
        "print(registry.classify(Break('theirs', '', Outcome.RESUMED, ())), 'their_kind' in registry.names())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["their_kind", "True"]


@pytest.mark.parametrize(
    ("gb_type", "family"),
    [
        ("Data-dependent branching", "data_dependent_branch"),
        ("Unsupported Tensor.item() call with capture_scalar_outputs=False", "scalar_out_of_tensor"),
        ("Dynamic shape operator", "dynamic_shape"),
        ("graph break in loop", "loop"),
        ("Attempt to trace generator", "generator"),
        ("Attempted to copy.deepcopy a tensor", "deepcopy"),
        ("Unsupported context manager", "context_manager"),
        ("Unsupported Tensor.backward() call", "autograd_inside"),
        ("torch.Generator method", "rng"),
        ("setattr() on Tensor.requires_grad", "requires_grad_set"),
        ("Attempted to wrap RNN, GRU, or LSTM", "recurrent"),
        ("Attempted to wrap sparse Tensor", "sparse_or_nested"),
        ("attempted to trace numpy function unsupported by PyTorch", "numpy"),
        ("Attempted to call function marked as skipped", "opaque_call"),
        ("torch.cond: differing branch outputs", "control_flow_operator"),
        ("issubclass() with non-constant arguments", "python_feature"),
        ("a name that torch has not invented yet", "python_feature"),
    ],
)
def test_causes_fall_into_families(gb_type: str, family: str) -> None:
    assert families.of(gb_type).name == family


@pytest.mark.parametrize(
    ("context", "family", "words"),
    [
        ("module: time, qualname: perf_counter, skip reason: ...", "clock", "time of the capture"),
        ("module: random, qualname: Random.shuffle, skip reason: ...", "rng", "random number generator"),
        ("module: torch.random, qualname: manual_seed, skip reason: ...", "rng", "random number generator"),
        ("module: zlib, qualname: crc32, skip reason: ...", "opaque_call", "`zlib.crc32`"),
        ("", "opaque_call", "can't look into"),
    ],
)
def test_a_call_is_judged_by_the_name_of_the_function(context: str, family: str, words: str) -> None:
    break_ = replace(_break("Attempted to call function marked as skipped"), context=context)
    assert families.of_break(break_).name == family
    assert words in families.reason(break_)


def test_every_family_says_what_happens_and_what_to_do() -> None:
    assert len({family.name for family in families.FAMILIES}) == len(families.FAMILIES)
    for family in families.FAMILIES:
        assert family.meaning.endswith(".") and family.next_step.endswith(".")


def test_every_id_of_this_torch_has_an_answer() -> None:
    for gb_id in torch_registry.entries():
        assert explain.page(gb_id).startswith(f"# {gb_id}")


def test_the_table_of_ids_agrees_with_the_families() -> None:
    for gb_id, entry in torch_registry.entries().items():
        known = gb_table.family_of(gb_id)
        assert known is None or known == families.of(entry.gb_type), gb_id


def test_ids_of_kinds_exist() -> None:
    for kind in registry.all_kinds():
        for gb_id in kind.GB_IDS:
            assert explain.family_of(gb_id) is not None, gb_id


@pytest.mark.parametrize("topic", ["item_cal", "GB99999", "nonsense"])
def test_an_unknown_topic_names_the_way_out(topic: str) -> None:
    with pytest.raises(KeyError, match=r"item_call|onegraph run"):
        explain.page(topic)


def test_the_committed_page_is_current() -> None:
    assert (ROOT / "docs" / "kinds.md").read_text() == docs.render(), (
        "run: python -m onegraph.kinds.docs > docs/kinds.md"
    )
