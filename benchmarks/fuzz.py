"""Random programs with tensor branches: mended, and compared with eager in everything that can be seen.

Run: python benchmarks/fuzz.py --programs N --seed S [--loops] [--jobs 2] [--resume FILE]

A program is one graph, declined with the construct's name, rejected by the tool's own verification (a fault of the
lowering, that the user never sees) or wrong. Each is mended on three calls, and compared with eager on these and on
five that the tool never saw: outputs, gradients, state, printed text, exceptions and the random stream; uncompiled and
captured on the backend eager, every fifth on aot_eager, every fiftieth on inductor. What is wrong is shrunk.
"""

from __future__ import annotations

import argparse
import gc
import json
import logging
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fuzzing.grammar import generate
from harness import figures

SECONDS = 150  # for one program
BATCH = 100  # programs of one process


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--programs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--loops", action="store_true", help="programs with a loop that a tensor ends")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument(
        "--resume", type=Path, help="a file of results, added to; what it has is not run again"
    )
    parser.add_argument("--show", action="store_true", help="print the programs that are wrong, shrunk")
    parser.add_argument("--work", nargs="*", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work is not None:
        work(options.work, loops=options.loops)
        return
    rows = known(options.resume, options.seed)
    wanted = [seed for seed in range(options.seed, options.seed + options.programs) if seed not in rows]
    for row in run(wanted, options.jobs, options.resume, loops=options.loops):
        rows[row["seed"]] = row
    chosen = [rows[s] for s in range(options.seed, options.seed + options.programs) if s in rows]
    report(chosen, show=options.show)


def known(path: Path | None, first: int) -> dict[int, dict[str, Any]]:
    """The results of an earlier run."""
    if path is None or not path.exists():
        return {}
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return {row["seed"]: row for row in rows}


def run(seeds: list[int], jobs: int, path: Path | None, *, loops: bool) -> Any:
    """Give seeds to ``jobs`` processes, in batches; yields a row for each program."""
    batches = [seeds[i : i + BATCH] for i in range(0, len(seeds), BATCH)]
    if len(batches) < jobs:
        batches = [seeds[i::jobs] for i in range(jobs) if seeds[i::jobs]]
    running: list[_Process] = []
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    while batches or running:
        while batches and len(running) < jobs:
            running.append(_Process(batches.pop(0), env, loops=loops))
        for process in list(running):
            done = process.done()
            for line in process.lines():
                row = json.loads(line)
                print(
                    f"{row['seed']:>6}  {row['verdict']:<9}  {row['kind']}  {row['reason'][:150]}", flush=True
                )
                if path is not None:
                    with path.open("a") as file:
                        file.write(line + "\n")
                yield row
            if done:
                process.close()
                running.remove(process)
        time.sleep(0.5)


class _Process:
    """One process at work; what it prints is read as it comes."""

    def __init__(self, seeds: list[int], env: dict[str, str], *, loops: bool) -> None:
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed by close)
        options = ["--loops"] if loops else []
        command = [sys.executable, __file__, *options, "--work", *map(str, seeds)]
        self._process = subprocess.Popen(
            command, env=env, stdout=self._log, stderr=subprocess.DEVNULL, text=True
        )
        self._at = 0

    def done(self) -> bool:
        return self._process.poll() is not None

    def lines(self) -> list[str]:
        """The rows that are new."""
        with Path(f"/dev/fd/{self._log.fileno()}").open() as reading:
            reading.seek(self._at)
            text = reading.read()
        whole = text[: text.rfind("\n") + 1]
        self._at += len(whole)
        return [line for line in whole.splitlines() if line.startswith("{")]

    def close(self) -> None:
        self._log.close()


# --- one process --------------------------------------------------------------------------------------------


def work(seeds: list[int], *, loops: bool = False) -> None:
    """Try each seed; one row a line."""
    import torch
    from fuzzing.shrinking import shrunk
    from fuzzing.tried import WRONG, Outcome, tried

    torch.set_num_threads(1)
    logging.getLogger("torch").setLevel(logging.CRITICAL)
    signal.signal(signal.SIGALRM, _too_long)
    gc.freeze()  # the tool looks for live functions among all objects: those of torch need not be searched
    with tempfile.TemporaryDirectory() as folder:
        for seed in seeds:
            start = time.process_time()
            program = generate(seed, loops=loops)
            signal.alarm(SECONDS)
            try:
                outcome = tried(program, Path(folder), backends_of(seed))
                if outcome.verdict == WRONG:
                    signal.alarm(4 * SECONDS)
                    outcome.text = shrunk(program, outcome, Path(folder), backends_of(seed))
            except TimeoutError:
                outcome = Outcome(seed, "too long", text=program.text)
            except Exception as error:  # noqa: BLE001 (the tool failed: that is a result)
                outcome = Outcome(seed, "crash", f"{type(error).__name__}: {error}", text=program.text)
            finally:
                signal.alarm(0)
            outcome.seconds["cpu"] = time.process_time() - start
            print(json.dumps(asdict(outcome)), flush=True)


def backends_of(seed: int) -> tuple[str, ...]:
    return ("eager", *(["aot_eager"] if seed % 5 == 0 else []), *(["inductor"] if seed % 50 == 0 else []))


def _too_long(*_: object) -> None:
    raise TimeoutError


# --- the report ---------------------------------------------------------------------------------------------


def report(rows: list[dict[str, Any]], *, show: bool) -> None:
    """Totals, reasons by frequency, and the figures."""
    valid = [row for row in rows if row["verdict"] != "invalid"]
    count = Counter(row["verdict"] for row in valid)
    reasons = Counter(
        (row["verdict"], _general(row["reason"])) for row in valid if row["verdict"] != "one graph"
    )
    for (verdict, reason), number in reasons.most_common():
        print(f"{number:>5}  {verdict:<9}  {reason[:140]}")
    for row in valid:
        if show and row["verdict"] in ("wrong", "crash"):
            print(f"\n--- {row['seed']}: {row['reason']}\n{row['text']}")
    figures({
        "programs": len(valid), "one_graph": count["one graph"],
        "declined": count["declined"] + count["rejected"] + count["too long"], "rejected": count["rejected"],
        "wrong": count["wrong"] + count["crash"], "invalid": len(rows) - len(valid),
        "share": round(count["one graph"] / max(len(valid), 1), 3),
    })  # fmt: skip


def _general(reason: str) -> str:
    """The reason without the program's own code."""
    return re.sub(r"\b\d+\b", "N", re.sub(r"`[^`]*`", "`…`", reason)).partition("\n")[0]


if __name__ == "__main__":
    main()
