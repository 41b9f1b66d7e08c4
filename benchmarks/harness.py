"""What the benchmarks share: one process a row, two at a time, and the closing FIGURES line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

MARK = "ROW "


def report_row(row: dict[str, Any]) -> None:
    """Called in the child process: hands one row to the parent."""
    print(MARK + json.dumps(row), flush=True)


def environment() -> dict[str, str]:
    """Of a child process: one thread each, and no network."""
    return {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}


def run_rows(
    script: str,
    names: Sequence[str],
    show: Callable[[dict[str, Any]], str],
    *,
    extra: Sequence[str] = (),
    workers: int = 2,
    timeout: float = 1500.0,
) -> list[dict[str, Any]]:
    """Run ``script --row NAME`` once a name, each in a process of its own; a row that dies says how."""
    env = environment()

    def one(name: str) -> dict[str, Any]:
        command = [sys.executable, str(Path(script).resolve()), "--row", name, *extra]
        try:
            done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=timeout)
        except subprocess.TimeoutExpired:
            return {"row": name, "error": f"no answer in {timeout:.0f} s"}
        rows = [line[len(MARK) :] for line in done.stdout.splitlines() if line.startswith(MARK)]
        if not rows:
            tail = (done.stderr.strip().splitlines() or ["no output"])[-1]
            return {"row": name, "error": f"exit {done.returncode}: {tail[:300]}"}
        return json.loads(rows[-1])

    results = []
    with ThreadPoolExecutor(workers) as pool:
        for result in pool.map(one, names):
            print(show(result), flush=True)
            results.append(result)
    return results


def figures(values: dict[str, float | int | str]) -> None:
    """The last line of every benchmark."""
    print("FIGURES " + json.dumps(values))
