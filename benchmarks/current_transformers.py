"""Bart and Marian of current transformers in half precision: breaks before, and after both ways of delivery.

Environment: python tools/setup_env.py .venv-current benchmarks/requirements-current.txt
Run:         .venv-current/bin/python benchmarks/current_transformers.py [--quick]

Eval mode, no_grad, dynamic=False; breaks = graphs - 1 on a counting backend, one process a row. `compile` is
`onegraph.compile(model)`; `overlay` is what `onegraph.fix` found, written as an overlay file and installed.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

from graphmend import DATA, count, same
from harness import figures, report_row, run_rows

ROWS = ("bart", "marian")


def one_row(name: str) -> None:
    import torch
    from library_models import build

    import onegraph
    from onegraph import overlay
    from onegraph.deliver import write_overlay

    model, inputs = build(DATA["specs"][name], torch.float16)
    with torch.no_grad():
        eager = model(**inputs)
        before, _, _, _ = count(model, inputs)

        graphs: list[object] = []
        torch._dynamo.reset()
        start = time.perf_counter()
        compiled = onegraph.compile(
            model, dynamic=False, backend=lambda gm, _: graphs.append(gm) or gm.forward
        )
        output = compiled(**inputs)
        compile_seconds = time.perf_counter() - start
        by_compile, equal = len(graphs), same(eager, output)

        torch._dynamo.reset()
        fix = onegraph.fix(model, dynamic=False)(**inputs)
        with tempfile.TemporaryDirectory() as folder:
            overlay.install(write_overlay(fix.result.changes, Path(folder) / "mended.py"))
            by_overlay, output, _, _ = count(model, inputs)
    report_row({
        "row": name,
        "before": before - 1,
        "after_compile": by_compile - 1,
        "after_overlay": by_overlay - 1,
        "verified": fix.verified,
        "wrong": int(not equal) + int(not same(eager, output)),
        "compile_seconds": round(compile_seconds, 1),
    })  # fmt: skip


def show(row: dict[str, Any]) -> str:
    if "error" in row:
        return f"{row['row']:8} FAILED {row['error']}"
    proof = "verified" if row["verified"] else "NOT VERIFIED"
    return (
        f"{row['row']:8} {row['before']} -> {row['after_compile']} by compile, {row['after_overlay']} by overlay"
        f", {proof}{'  WRONG' if row['wrong'] else ''}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--row", help=argparse.SUPPRESS)
    parser.add_argument("--quick", action="store_true", help="the first row alone")
    options = parser.parse_args()
    if options.row:
        one_row(options.row)
        return
    rows = run_rows(__file__, ROWS[:1] if options.quick else ROWS, show)
    good = [row for row in rows if "error" not in row]
    figures({
        "rows": len(rows),
        "failed": len(rows) - len(good),
        "before": sum(row["before"] for row in good),
        "after_compile": sum(row["after_compile"] for row in good),
        "after_overlay": sum(row["after_overlay"] for row in good),
        "verified_rows": sum(row["verified"] for row in good),
        "wrong": sum(row["wrong"] for row in good),
    })  # fmt: skip


if __name__ == "__main__":
    main()
