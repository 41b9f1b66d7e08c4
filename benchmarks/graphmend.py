"""The 21 offline rows of GraphMend's published artifact (CGO 2027), mended and verified by onegraph.

Environment: python tools/setup_env.py .venv-graphmend benchmarks/requirements-graphmend.txt
Run:         .venv-graphmend/bin/python benchmarks/graphmend.py [--quick] [--dtype DTYPE] [--level LEVEL] [--only ROW]

The protocol is the artifact's: a small random config, eval mode, no_grad, torch.compile(model, dynamic=False),
breaks = max(0, graphs - 1), one process a row. Afterwards the mended code is delivered the way a user gets it (an
overlay file, installed) and counted and compared again: output tensors, log records and warnings against plain eager.
"""

from __future__ import annotations

import argparse
import json
import logging
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

from harness import figures, report_row, run_rows

DATA = json.loads((Path(__file__).parent / "graphmend_rows.json").read_text())


class Texts(logging.Handler):
    """Every log record and warning of one call, as text."""

    def __init__(self) -> None:
        super().__init__(0)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(f"{record.levelname} {record.getMessage()}")


def call(target: Any, inputs: dict[str, Any]) -> tuple[Any, list[str]]:
    """One call without gradients: its output, and what it logged and warned."""
    import torch

    handler = Texts()
    library = logging.getLogger("transformers")
    library.addHandler(handler)
    try:
        with warnings.catch_warnings(record=True) as caught, torch.no_grad():
            warnings.simplefilter("always")
            output = target(**inputs)
    finally:
        library.removeHandler(handler)
    return output, handler.texts + [str(w.message) for w in caught if w.category is not DeprecationWarning]


def forget_once_only_messages() -> None:
    """Warn-once helpers stand behind lru_caches; each measured call starts with empty ones."""
    logging.Logger.warning_once.cache_clear()  # type: ignore[attr-defined]


def count(model: Any, inputs: dict[str, Any]) -> tuple[int, Any, list[str], float]:
    """Graphs, output, texts and seconds of torch.compile(model, dynamic=False) on a counting backend."""
    import torch

    torch._dynamo.reset()
    forget_once_only_messages()
    graphs: list[object] = []

    def backend(graph_module: Any, example_inputs: Any) -> Any:
        graphs.append(graph_module)
        return graph_module.forward

    start = time.perf_counter()
    output, texts = call(torch.compile(model, backend=backend, dynamic=False), inputs)
    return len(graphs), output, texts, time.perf_counter() - start


def same(left: Any, right: Any) -> bool:
    """Bitwise equality of every tensor of two outputs."""
    import torch
    from torch.utils import _pytree as pytree

    def tensors(output: Any) -> list[Any]:
        leaves = pytree.tree_leaves(output.to_tuple() if hasattr(output, "to_tuple") else output)
        return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]

    first, second = tensors(left), tensors(right)
    return len(first) == len(second) and all(
        torch.equal(torch.nan_to_num(a), torch.nan_to_num(b)) for a, b in zip(first, second, strict=True)
    )


def one_row(name: str, dtype: str, level: str) -> None:
    import torch
    from library_models import build

    import onegraph
    from onegraph import overlay
    from onegraph.deliver import write_overlay

    spec = DATA["specs"][DATA["rows"][name]["spec"]]
    model, inputs = build(spec, getattr(torch, dtype))
    forget_once_only_messages()
    eager_output, eager_texts = call(model, inputs)
    call(model, inputs)  # the library installs hooks on its first call
    graphs_before, _, plain_texts, capture_seconds = count(model, inputs)
    torch._dynamo.reset()
    forget_once_only_messages()
    start = time.perf_counter()
    with torch.no_grad():
        fix = onegraph.fix(model, level=level, dynamic=False)(**inputs)
    seconds = time.perf_counter() - start
    with tempfile.TemporaryDirectory() as folder:
        if fix.result.changes:
            path = Path(folder) / "mended.py"
            write_overlay(fix.result.changes, path)
            overlay.install(path)
        graphs_after, output, texts, _ = count(model, inputs)
    applied = [repair for repair in fix.repairs if repair.status == "applied"]
    left = [repair for repair in fix.repairs if repair.status != "applied"]
    report_row({
        "row": name,
        "dtype": dtype,
        "before": max(0, graphs_before - 1),
        "after": max(0, graphs_after - 1),
        "sites_left": [_words(repair) for repair in left],
        "rejected": sum(repair.status == "rejected" for repair in left),
        "declined": sum(repair.status == "declined" for repair in left),
        "levels": dict(Counter(str(repair.level) for repair in applied)),
        "changed": bool(fix.result.changes),
        "verified": fix.verified or not fix.result.changes,  # nothing changed, nothing to prove
        "unproven": [f"{c.name}: {c.detail}"[:200] for c in fix.evidence.checks if not c.passed],
        # Some libraries keep a message back while they are compiled; then the unmended program doesn't give it either.
        "wrong": int(not same(eager_output, output))
        + int(sorted(texts) not in (sorted(eager_texts), sorted(plain_texts))),
        "seconds": round(seconds, 1),
        "capture_seconds": round(capture_seconds, 2),
        "stages": {stage: round(value, 2) for stage, value in fix.result.seconds.items()},
        "peer_after": DATA["rows"][name]["artifact_fp32_after"],
    })  # fmt: skip


def _words(repair: Any) -> str:
    site = repair.site
    return f"{site.kind} {Path(site.span.file).name}:{site.span.line} {repair.reason}"[:160]


def show(row: dict[str, Any]) -> str:
    if "error" in row:
        return f"{row['row']:32} FAILED {row['error']}"
    verdict = "unchanged" if not row["changed"] else "verified" if row["verified"] else "NOT VERIFIED"
    lines = [
        f"{row['row']:32} {row['before']:3} -> {row['after']:2}  peer {row['peer_after']:2}  "
        f"{verdict:12} {row['levels']!s:32} {row['seconds']:6.1f} s"
        f"  ({row['seconds'] / row['capture_seconds']:.1f} captures){'  WRONG' if row['wrong'] else ''}"
    ]
    lines += [f"    left: {left}" for left in row["sites_left"]]
    lines += [f"    unproven: {text}" for text in row["unproven"]]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--row", help=argparse.SUPPRESS)
    parser.add_argument("--dtype", default="float32", choices=["float32", "float16"])
    parser.add_argument("--level", default="relaxed", choices=["exact", "relaxed", "lossy"])
    parser.add_argument("--only", action="append", help="row name; may be given more than once")
    parser.add_argument("--quick", action="store_true", help="one row a spec")
    options = parser.parse_args()
    if options.row:
        one_row(options.row, options.dtype, options.level)
        return
    names = options.only or list(DATA["rows"])
    if options.quick:
        names = list({DATA["rows"][name]["spec"]: name for name in reversed(names)}.values())
    rows = run_rows(__file__, names, show, extra=["--dtype", options.dtype, "--level", options.level])
    good = [row for row in rows if "error" not in row]
    figures({
        "rows": len(rows),
        "failed": len(rows) - len(good),
        "before": sum(row["before"] for row in good),
        "after": sum(row["after"] for row in good),
        "verified_rows": sum(row["verified"] for row in good),
        "unchanged_rows": sum(not row["changed"] for row in good),
        "rejected": sum(row["rejected"] for row in good),
        "declined": sum(row["declined"] for row in good),
        "wrong": sum(row["wrong"] for row in good),
        "peer_after": sum(row["peer_after"] for row in good),
        "seconds": round(sum(row["seconds"] for row in good), 1),
    })  # fmt: skip


if __name__ == "__main__":
    main()
