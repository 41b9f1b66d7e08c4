"""Scoreboard over a folder of case programs: one graph from `onegraph.compile`, equal to eager, the rest explained?

Run: python benchmarks/cases.py [--cases DIR] [--kind KIND] [--only NAME] [--quick]

A case module has `make()` -> (callable or module, list of input tuples) and says what it is: KIND, TRAIN (gradients
count), SIDE_EFFECTS, EXPECT (`fixable_exact`, `fixable_relaxed`, `not_fixable`, `no_break`); optional `observe(obj)`
(state to compare after every call) and `prepare(i)` (runs before call i). Each case runs in a process of its own:
eager twice (is it deterministic?), as torch.compile compiles it, and mended.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import inspect
import io
import logging
import random
import sys
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

from harness import figures, report_row, run_rows

DEFAULT_CASES = Path(__file__).resolve().parents[2] / "shared" / "cases"
RANK = {"exact": 0, "relaxed": 1, "lossy": 2}


def load(path: Path) -> Any:
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location("case_" + path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


class Records(logging.Handler):
    """Level and text of what the case's own loggers ("model.…") said."""

    def __init__(self) -> None:
        super().__init__(0)
        self.seen: list[tuple[str, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.startswith("model."):
            self.seen.append((record.levelname, record.getMessage()))


def fresh(arguments: Any, train: bool) -> Any:
    """A copy of the arguments; in training, floating tensors become leaves that require grad."""
    import copy

    import torch
    from torch.utils import _pytree as pytree

    def one(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        if type(value) is not torch.Tensor or value.layout is not torch.strided:
            return copy.deepcopy(value)
        made = value.detach().clone()
        return made.requires_grad_(value.requires_grad or (train and made.is_floating_point()))

    return pytree.tree_map(one, arguments)


def run(case: Any, target: Any, original: Any, inputs: list[Any]) -> list[dict[str, Any]]:
    """Every call of ``target``: what came out and what it left behind."""
    import numpy
    import torch
    from torch.utils import _pytree as pytree

    train = case.TRAIN and not getattr(case, "NO_INPUT_GRAD", False)
    parameters = list(original.parameters()) if isinstance(original, torch.nn.Module) else []
    results = []
    for index, given in enumerate(inputs):
        arguments = fresh(given, train)
        for parameter in parameters:
            parameter.grad = None
        torch.manual_seed(1234 + index)
        random.seed(1234 + index)
        numpy.random.seed(1234 + index)
        if hasattr(case, "prepare"):
            case.prepare(index)
        records, printed, seen = Records(), io.StringIO(), {}
        root = logging.getLogger()
        level = root.level
        root.addHandler(records)
        root.setLevel(0)
        try:
            with contextlib.redirect_stdout(printed), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                output = target(*arguments)
                if inspect.isgenerator(output):
                    output = list(output)
                leaves = [leaf for leaf in pytree.tree_leaves(arguments) if isinstance(leaf, torch.Tensor)]
                if case.TRAIN:
                    backward(output)
                    wanted = [leaf for leaf in leaves if leaf.requires_grad] + parameters
                    seen["gradients"] = [None if leaf.grad is None else leaf.grad.clone() for leaf in wanted]
                seen["output"] = plain(output)
        except Exception as error:  # noqa: BLE001  an exception is one of the results that are compared
            seen["exception"] = f"{type(error).__name__}: {error}"
        finally:
            root.removeHandler(records)
            root.setLevel(level)
        seen["stdout"], seen["log"] = printed.getvalue(), records.seen
        seen["arguments"] = plain(arguments)
        if "exception" not in seen:
            seen["random"] = [float(torch.rand(1)), random.random(), float(numpy.random.rand())]
        if hasattr(case, "observe"):
            seen["state"] = plain(case.observe(original))
        if isinstance(original, torch.nn.Module):
            seen["buffers"] = {
                name: buffer.detach().clone()
                for name, buffer in original.named_buffers(remove_duplicate=False)
            }
        results.append(seen)
    return results


def plain(value: Any) -> Any:
    """Dataclasses as dicts, tensors detached and copied."""
    import torch
    from torch.utils import _pytree as pytree

    if hasattr(value, "__dataclass_fields__") and not isinstance(value, dict):
        value = {name: getattr(value, name) for name in value.__dataclass_fields__}

    def one(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        leaf = leaf.plain() if hasattr(leaf, "plain") else leaf
        return (leaf.to_dense() if leaf.layout is not torch.strided else leaf).detach().clone()

    return pytree.tree_map(one, value)


def backward(output: Any) -> None:
    import torch
    from torch.utils import _pytree as pytree

    if hasattr(output, "__dataclass_fields__") and not isinstance(output, dict):
        output = {name: getattr(output, name) for name in output.__dataclass_fields__}
    parts = [
        (leaf.double().flatten() * torch.linspace(0.5, 1.5, leaf.numel(), dtype=torch.double)).sum()
        for leaf in pytree.tree_leaves(output)
        if isinstance(leaf, torch.Tensor) and leaf.is_floating_point() and leaf.requires_grad
    ]
    if parts:
        sum(parts).backward()


def differences(left: list[dict[str, Any]], right: list[dict[str, Any]], tolerance: float) -> list[str]:
    """Where two runs disagree, in words. A zero gradient in place of None is marked apart ("zero gradient")."""
    import torch
    from torch.utils import _pytree as pytree

    found = []
    for index, (one, other) in enumerate(zip(left, right, strict=True)):
        for aspect in sorted(set(one) | set(other)):
            first = pytree.tree_leaves(one.get(aspect))
            second = pytree.tree_leaves(other.get(aspect))
            where = f"call {index} {aspect}"
            if len(first) != len(second):
                found.append(f"{where}: {str(one.get(aspect))[:60]} against {str(other.get(aspect))[:60]}")
                continue
            for a, b in zip(first, second, strict=True):
                tensors = isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor)
                if tensors:
                    try:
                        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance, equal_nan=True)
                    except AssertionError as error:
                        found.append(f"{where}: {str(error).splitlines()[0][:80]}")
                elif (
                    aspect == "gradients" and (a is None) != (b is None) and not (a if b is None else b).any()
                ):
                    found.append(f"{where}: zero gradient")
                elif isinstance(a, torch.Tensor) != isinstance(b, torch.Tensor):
                    found.append(f"{where}: {type(a).__name__} against {type(b).__name__}")
                elif isinstance(a, float) and isinstance(b, float):
                    if a != b and not (a != a and b != b) and abs(a - b) > tolerance * (1 + abs(a)):
                        found.append(f"{where}: {a} against {b}")
                elif a is not b and a != b and not (callable(a) and callable(b)):
                    found.append(f"{where}: {str(a)[:60]} against {str(b)[:60]}")
    return found


def signatures(inputs: list[Any]) -> int:
    """Distinct input signatures: shapes, dtypes, and the values of everything that is no tensor."""
    import torch
    from torch.utils import _pytree as pytree

    def one(leaf: Any) -> Any:
        return (tuple(leaf.shape), str(leaf.dtype)) if isinstance(leaf, torch.Tensor) else repr(leaf)

    return len({tuple(map(one, pytree.tree_leaves(arguments))) for arguments in inputs})


class Counting:
    """A backend that counts the graphs it gets and runs them as they are."""

    def __init__(self) -> None:
        self.graphs = 0

    def __call__(self, graph_module: Any, example_inputs: Any) -> Any:
        self.graphs += 1
        return graph_module.forward


def one_case(path: Path) -> dict[str, Any]:
    import torch

    import onegraph
    from onegraph import pipeline

    warnings.simplefilter("ignore")
    case = load(path)

    def made() -> tuple[Any, list[Any]]:
        torch.manual_seed(1234)
        return case.make()

    obj, inputs = made()
    eager = run(case, obj, obj, inputs)
    obj, inputs = made()
    deterministic = not differences(eager, run(case, obj, obj, inputs), 0.0)

    obj, inputs = made()
    torch._dynamo.reset()
    backend = Counting()
    with onegraph.watch() as watched:
        plain_run = run(case, torch.compile(obj, backend=backend), obj, inputs)
    before = {
        "sites": len(watched.sites),
        "graphs": backend.graphs,
        "wrong": differences(eager, plain_run, 1e-6),
    }

    obj, inputs = made()
    torch._dynamo.reset()
    results: list[Any] = []

    def fix(program: Any, *, level: Any) -> Any:
        results.append(pipeline.fix(program, level=level))
        return results[-1]

    backend = Counting()
    mended = onegraph.compile(obj, strict=False, backend=backend, fix=fix)
    start = time.perf_counter()
    mended_run = run(case, mended, obj, inputs)
    seconds = time.perf_counter() - start
    wrong = differences(eager, mended_run, 1e-6)
    repairs = results[-1].repairs if results else ()
    applied = [repair for repair in repairs if repair.status == "applied"]
    left = [repair for repair in repairs if repair.status != "applied"]
    return {
        "row": path.stem,
        "kind": case.KIND,
        "expect": case.EXPECT,
        "train": case.TRAIN,
        "deterministic": deterministic,
        "before": before,
        "graphs": backend.graphs,
        "unproven": [
            f"{c.name}: {c.detail}"[:200] for r in results[-1:] for c in r.evidence.checks if not c.passed
        ],
        "signatures": signatures(inputs),
        "level": max((str(repair.level) for repair in applied), key=RANK.__getitem__, default="exact"),
        "kinds": dict(Counter(repair.kind for repair in applied)),
        "left": [f"{r.site.kind}:{r.site.span.line} {r.reason} | {r.next_step}"[:240] for r in left],
        "wrong": [text for text in wrong if not text.endswith("zero gradient")],
        "zero_gradient": any(text.endswith("zero gradient") for text in wrong),
        "seconds": round(seconds, 1),
    }


def is_one_graph(row: dict[str, Any]) -> bool:
    return not row["left"] and 0 < row["graphs"] <= row["signatures"]


def show(row: dict[str, Any]) -> str:
    if "error" in row:
        return f"{row['row']:34} FAILED {row['error']}"
    verdict = "one graph" if is_one_graph(row) else f"{row['graphs']} graphs"
    line = (
        f"{row['row']:34} {row['kind']:22} {row['before']['sites']} sites -> {verdict:10} "
        f"{row['level']:8} {row['seconds']:5.1f} s"
    )
    line += "".join(f"\n    unproven: {text}" for text in row["unproven"])
    line += "".join(f"\n    left: {text}" for text in row["left"])
    return line + "".join(f"\n    WRONG: {text}" for text in row["wrong"][:4])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--row", help=argparse.SUPPRESS)
    parser.add_argument("--cases", type=Path, default=DEFAULT_CASES, help="folder of case programs")
    parser.add_argument("--kind", action="append", help="only this KIND; may be given more than once")
    parser.add_argument("--only", action="append", help="only cases whose name contains this")
    parser.add_argument("--quick", action="store_true", help="the first ten")
    options = parser.parse_args()
    if options.row:
        report_row(one_case(options.cases / f"{options.row}.py"))
        return
    names = [
        path.stem for path in sorted(options.cases.glob("[0-9]*.py")) if not path.stem.endswith(".ideal")
    ]
    if options.kind:
        names = [
            n
            for n in names
            if any(f'KIND = "{k}"' in (options.cases / f"{n}.py").read_text() for k in options.kind)
        ]
    if options.only:
        names = [name for name in names if any(part in name for part in options.only)]
    if not names:
        raise SystemExit(f"no case programs in {options.cases}: give their folder with --cases DIR")
    rows = run_rows(
        __file__, names[:10] if options.quick else names, show, extra=["--cases", str(options.cases)]
    )
    good = [row for row in rows if "error" not in row]
    breaking = [row for row in good if row["before"]["sites"]]
    figures({
        "cases": len(rows),
        "failed": len(rows) - len(good),
        "breaking": len(breaking),
        "one_graph": sum(is_one_graph(row) for row in breaking),
        "explained": sum(is_one_graph(row) or bool(row["left"]) for row in breaking),
        "wrong": sum(bool(row["wrong"]) for row in good),
        "wrong_before": sum(bool(row["before"]["wrong"]) for row in good),
    })  # fmt: skip


if __name__ == "__main__":
    main()
