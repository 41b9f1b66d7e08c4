"""Library models that break today, each in eval and in train: one graph, equal to eager, the rest explained?

Environment: python tools/setup_env.py .venv-models benchmarks/requirements-models.txt
Run:         .venv-models/bin/python benchmarks/models.py [--list FILE] [--only NAME] [--mode eval|train]
                 [--resume FILE] [--jobs N] [--level LEVEL] [--verify quick|full]

Each (model, mode) pair runs in a process of its own: eager twice (is it deterministic?), then mended by
`onegraph.compile` (fullgraph=True) on a backend that counts graphs. Outputs, gradients, buffers and the random streams
are compared with eager, by code of this file. ``--verify quick`` leaves inductor out of the verification of the mend.
"""

from __future__ import annotations

import argparse
import functools
import json
import random
import subprocess
import sys
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from harness import MARK, environment, figures, report_row
from listed_models import MODES, build, read

DEFAULT_LIST = Path(__file__).resolve().parents[2] / "shared" / "models" / "dev_models.json"
RANK = {"exact": 0, "relaxed": 1, "lossy": 2}
SEEDS = (1234, 5)  # of the calls


# --- one pair, in a process of its own ----------------------------------------------------------------------


def seed_all(seed: int) -> None:
    import numpy
    import torch

    torch.manual_seed(seed)
    random.seed(seed)
    numpy.random.seed(seed)


def run(target: Any, model: Any, args: Any, kwargs: Any, *, train: bool) -> list[dict[str, Any]]:
    """What each call gives and leaves behind: name -> tensor or Python value."""
    import numpy
    import torch

    seen = []
    for seed in SEEDS:
        seed_all(seed)
        model.zero_grad(set_to_none=True)
        with torch.set_grad_enabled(train):
            output = target(*copied(args), **copied(kwargs))
        now = {f"output{path}": value for path, value in leaves(output)}
        if train:
            backward(now.values())
            now |= {f"gradient of {name}": parameter.grad for name, parameter in model.named_parameters()}
        now |= {f"buffer {name}": buffer for name, buffer in model.named_buffers()}
        now["random stream"] = [float(torch.rand(1)), random.random(), float(numpy.random.rand())]
        seen.append({name: detached(value) for name, value in now.items()})
    return seen


def copied(value: Any) -> Any:
    import copy

    return copy.deepcopy(value)


def detached(value: Any) -> Any:
    import torch

    return value.detach().clone() if isinstance(value, torch.Tensor) else value


def leaves(value: Any, path: str = "", depth: int = 8) -> Iterator[tuple[str, Any]]:
    """The tensors and Python values in an output, also those inside of caches and other objects."""
    import torch

    if value is None or isinstance(value, torch.Tensor | bool | int | float | str):
        yield path, value
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield from leaves(item, f"{path}.{name}", depth)
    elif isinstance(value, list | tuple):
        for number, item in enumerate(value):
            yield from leaves(item, f"{path}[{number}]", depth)
    elif depth and hasattr(value, "__dict__") and not callable(value):
        for name, item in vars(value).items():
            yield from leaves(item, f"{path}.{name}", depth - 1)


def backward(values: Any) -> None:
    """From a weighted sum of everything that has a gradient."""
    import torch

    parts = [
        (v.double().flatten() * torch.linspace(0.5, 1.5, v.numel(), dtype=torch.double)).sum()
        for v in values
        if isinstance(v, torch.Tensor) and v.is_floating_point() and v.requires_grad
    ]
    if parts:
        sum(parts).backward()


def differences(left: list[dict[str, Any]], right: list[dict[str, Any]]) -> list[str]:
    """Where two runs disagree beyond torch.testing's tolerances, in words."""
    found = []
    for call, (one, other) in enumerate(zip(left, right, strict=True)):
        for name in sorted({*one, *other}):
            words = apart(one.get(name), other.get(name))
            found += [f"call {call} {name}: {words}"] if words else []
    return found


def apart(one: Any, other: Any) -> str:
    import torch

    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        try:
            torch.testing.assert_close(other, one, equal_nan=True)
        except AssertionError as error:
            return " ".join(str(error).split())[:160]
        return ""
    if isinstance(one, torch.Tensor) or isinstance(other, torch.Tensor):
        value = other if one is None else one if other is None else None
        zero = value is not None and not value.any()
        return "zero gradient" if zero else f"{type(one).__name__} against {type(other).__name__}"
    return "" if one == other or (one != one and other != other) else f"{one!s:.60} against {other!s:.60}"


class Counting:
    """A backend that counts the graphs it gets and runs them as they are."""

    def __init__(self) -> None:
        self.graphs = 0

    def __call__(self, graph_module: Any, example_inputs: Any) -> Any:
        self.graphs += 1
        return graph_module.forward


def fixer(results: list[Any], verify: str) -> Any:
    """``onegraph.compile``'s own mend, and its result kept."""
    from dataclasses import replace

    from onegraph.mend import look, mend, tools

    chosen = tools.standard()
    if verify == "quick":
        chosen = replace(chosen, whole=functools.partial(_quick, chosen.whole))

    def fix(program: Any, *, level: Any) -> Any:
        results.append(mend(program, look(program), level=level, tools=chosen))
        return results[-1]

    return fix


def _quick(whole: Any, *args: Any, **kwargs: Any) -> Any:
    names = list(args[:4])
    rest = args[4:]
    backends = rest[0] if rest else kwargs.pop("backends", None)
    chosen = tuple(name for name in backends or ("eager", "aot_eager") if name != "inductor") or ("eager",)
    return whole(*names, chosen, *rest[1:], **kwargs)


def one_pair(entry: dict[str, Any], mode: str, level: str, verify: str) -> dict[str, Any]:
    import torch

    import onegraph

    warnings.simplefilter("ignore")
    train = mode == "train"
    model, args, kwargs = build(entry, mode)
    eager = run(model, model, args, kwargs, train=train)
    model, args, kwargs = build(entry, mode)
    unstable = set(differences(eager, run(model, model, args, kwargs, train=train)))
    unstable = {text.partition(": ")[0] for text in unstable}

    model, args, kwargs = build(entry, mode)
    results: list[Any] = []
    backend = Counting()
    torch._dynamo.reset()
    compiled = onegraph.compile(
        model, level=level, strict=False, backend=backend, fix=fixer(results, verify), dynamic=False
    )
    start = time.perf_counter()
    error = ""
    try:
        mended = run(compiled, model, args, kwargs, train=train)
        wrong = [text for text in differences(eager, mended) if text.partition(": ")[0] not in unstable]
    except Exception as raised:  # noqa: BLE001  eager ran: what the mended program raises is a result
        wrong, error = [], f"{type(raised).__name__}: {' '.join(str(raised).split())}"[:400]
    seconds = time.perf_counter() - start
    last = results[-1] if results else None
    repairs = last.repairs if last else ()
    applied = [repair for repair in repairs if repair.status == "applied"]
    left = [repair for repair in repairs if repair.status != "applied"]
    zero = [text for text in wrong if text.endswith("zero gradient")]
    levels = [str(r.level) for r in applied] + ["relaxed"] * bool(zero)
    return {
        "mode": mode,
        "graphs": backend.graphs,
        "mended": bool(results),
        "verified": last is None or last.evidence.verified or not last.changes,
        "unproven": [f"{c.name}: {c.detail}"[:300] for c in (last.evidence.checks if last else ()) if not c.passed],
        "level": max(levels, key=RANK.__getitem__, default="exact"),
        "repairs": dict(Counter(f"{repair.kind} {repair.level}" for repair in applied)),
        "left": [
            {
                "kind": r.site.kind,
                "where": f"{'/'.join(Path(r.site.span.file).parts[-2:])}:{r.site.span.line}",
                "source": r.site.source[:100],
                "reason": r.reason[:300],
                "next": r.next_step[:200],
            }
            for r in left
        ],
        "seconds_by_stage": {k: round(v, 1) for k, v in (last.seconds.items() if last else ())},
        "unstable": len(unstable),
        "error": error,
        "wrong": [text for text in wrong if text not in zero],
        "zero_gradients": len(zero),
        "seconds": round(seconds, 1),
    }  # fmt: skip


# --- all pairs ----------------------------------------------------------------------------------------------


def is_one_graph(row: dict[str, Any]) -> bool:
    return not (row.get("died") or row["error"] or row["left"] or row["unproven"]) and row["graphs"] == 1


def is_explained(row: dict[str, Any]) -> bool:
    return is_one_graph(row) or bool(
        row.get("left") and all(each["reason"] and each["next"] for each in row["left"])
    )


def show(row: dict[str, Any]) -> str:
    if "died" in row:
        return f"{row['row']:52} DIED {row['died']}"
    verdict = "one graph" if is_one_graph(row) else f"{row['graphs']} graphs"
    how = row["level"] if row["mended"] else "as it is"
    line = f"{row['row']:52} {verdict:10} {how:8} {row['seconds']:6.1f} s"
    line += f"\n    RAISED: {row['error']}" if row["error"] else ""
    line += "".join(f"\n    unproven: {text}" for text in row["unproven"][:4])
    for each in row["left"]:
        line += f"\n    left: {each['where']} {each['kind']} `{each['source']}`: {each['reason']}"
    return line + "".join(f"\n    WRONG: {text}" for text in row["wrong"][:4])


def causes_of(entry: dict[str, Any], mode: str) -> list[str]:
    sites = entry.get("modes", {}).get(mode, {}).get("root_sites", [])
    return sorted({site["cause"] for site in sites if site.get("cause")}) or entry.get(
        "causes", ["(not listed)"]
    )


def by_cause(rows: list[dict[str, Any]], entries: dict[str, dict[str, Any]]) -> str:
    """Pairs and one-graph pairs of each listed cause; then what is left, by kind and reason."""
    table: dict[str, list[bool]] = defaultdict(list)
    for row in rows:
        name, _, mode = row["row"].rpartition(":")
        for cause in causes_of(entries[name], mode):
            table[cause].append(is_one_graph(row))
    lines = ["", f"{'cause':68} pairs  one graph"]
    for cause, good in sorted(table.items(), key=lambda item: -len(item[1])):
        lines.append(f"{cause[:68]:68} {len(good):5}  {sum(good):9}")
    left = Counter(f"{each['kind']}: {each['reason'][:90]}" for row in rows for each in row.get("left", ()))
    lines += ["", "left"] + [f"{count:5}  {text}" for text, count in left.most_common(25)]
    return "\n".join(lines)


def child(pair: str, options: argparse.Namespace) -> dict[str, Any]:
    command = [
        sys.executable, str(Path(__file__).resolve()), "--row", pair, "--list", str(options.list),
        "--level", options.level, "--verify", options.verify,
    ]  # fmt: skip
    try:
        done = subprocess.run(
            command, env=environment(), capture_output=True, text=True, timeout=options.timeout
        )
    except subprocess.TimeoutExpired:
        return {"row": pair, "died": f"no answer in {options.timeout:.0f} s"}
    rows = [line[len(MARK) :] for line in done.stdout.splitlines() if line.startswith(MARK)]
    if rows:
        return {"row": pair, **json.loads(rows[-1])}
    tail = (done.stderr.strip().splitlines() or ["no output"])[-1]
    return {"row": pair, "died": f"exit {done.returncode}: {tail[:300]}"}


def rows_of(pairs: list[str], options: argparse.Namespace) -> list[dict[str, Any]]:
    """Every pair's row, in order; those in the resume file are taken from there, new ones are added to it."""
    known: dict[str, dict[str, Any]] = {}
    if options.resume and options.resume.exists():
        rows = [json.loads(line) for line in options.resume.read_text().splitlines()]
        known = {row["row"]: row for row in rows}
    started = time.monotonic()
    todo = [pair for pair in pairs if pair not in known]
    print(f"{len(pairs)} pairs, {len(pairs) - len(todo)} known already", flush=True)
    with ThreadPoolExecutor(options.jobs) as pool:
        for number, row in enumerate(pool.map(lambda pair: child(pair, options), todo), 1):
            known[row["row"]] = row
            if options.resume:
                with options.resume.open("a") as file:
                    file.write(json.dumps(row) + "\n")
            print(f"[{number}/{len(todo)} {time.monotonic() - started:.0f} s] {show(row)}", flush=True)
    return [known[pair] for pair in pairs]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--row", help=argparse.SUPPRESS)
    parser.add_argument("--list", type=Path, default=DEFAULT_LIST, help="JSON list of models")
    parser.add_argument("--only", action="append", help="only names that contain this")
    parser.add_argument("--mode", choices=MODES, action="append")
    parser.add_argument("--resume", type=Path, help="file of finished rows, read and added to")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--level", choices=tuple(RANK), default="relaxed")
    parser.add_argument("--verify", choices=("quick", "full"), default="full")
    parser.add_argument("--timeout", type=float, default=1500.0, help="seconds for one pair")
    parser.add_argument("--quick", action="store_true", help="the first three pairs")
    options = parser.parse_args()
    if not options.list.is_file():
        raise SystemExit(f"no such list: {options.list}; give one with --list FILE")
    entries = read(options.list)
    if options.row:
        name, _, mode = options.row.rpartition(":")
        report_row(one_pair(entries[name], mode, options.level, options.verify))
        return
    pairs = [
        f"{name}:{mode}"
        for name, entry in entries.items()
        for mode in entry.get("modes", MODES)
        if (not options.mode or mode in options.mode)
        and (not options.only or any(part in name for part in options.only))
    ]
    rows = rows_of(pairs[:3] if options.quick else pairs, options)
    print(by_cause(rows, entries))
    good = [row for row in rows if "died" not in row]
    figures({
        "pairs": len(rows),
        "died": len(rows) - len(good),
        "one_graph": sum(is_one_graph(row) for row in good),
        "as_it_is": sum(is_one_graph(row) and not row["mended"] for row in good),
        "lossy": sum(is_one_graph(row) and row["level"] == "lossy" for row in good),
        "explained": sum(is_explained(row) for row in good),
        "wrong": sum(bool(row["wrong"]) for row in good),
    })  # fmt: skip


if __name__ == "__main__":
    main()
