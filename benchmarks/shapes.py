"""Do sizes share one artifact? Case programs marked DYNAMIC, mended first, and tiny library models over sizes.

Run: python benchmarks/shapes.py [--cases DIR] [--only NAME] [--models] [--no-cases]

A case (see `cases.py`) is run, with the capture of fullgraph=True, over every size 2..64 of each dimension that eager
lets vary; `--models` (needs transformers) takes T5, Llama, ViT and Bart, over batch 1..32 and length 1..128. Counted:
one artifact, or a named line, value or setting that forbids it. `silent` is a row with more than one artifact and no
cause: the bar is 0.
"""

from __future__ import annotations

import argparse
import importlib.util
import re
import sys
import time
import warnings
from pathlib import Path
from typing import Any

from harness import figures, report_row, run_rows

DEFAULT_CASES = Path(__file__).resolve().parents[2] / "shared" / "cases"
TINY = {"vocab_size": 97, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
MODELS: dict[str, tuple[str, dict[str, Any], str]] = {
    "T5Model": (
        "T5Config",
        {"vocab_size": 97, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4},
        "input_ids:0+decoder_input_ids:0=1..32,input_ids:1=1..128,decoder_input_ids:1=1..128",
    ),
    "LlamaModel": (
        "LlamaConfig",
        {**TINY, "intermediate_size": 64, "num_key_value_heads": 2, "use_cache": False},
        "input_ids:0=1..32,input_ids:1=1..128",
    ),
    "BartModel": (
        "BartConfig",
        {"vocab_size": 97, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "use_cache": False}
        | dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), 4)
        | dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim"), 64),
        "input_ids:0+decoder_input_ids:0=1..32,input_ids:1=1..128,decoder_input_ids:1=1..128",
    ),
    "ViTModel": (
        "ViTConfig",
        {k: v for k, v in TINY.items() if k != "vocab_size"}
        | {"intermediate_size": 64, "image_size": 16, "patch_size": 4},
        "pixel_values:0=1..32",
    ),
}


def case_program(path: Path) -> Any:
    import torch

    from onegraph.model import Call, Program

    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location("case_" + path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    torch.manual_seed(1234)
    target, inputs = module.make()
    calls = tuple(Call(tuple(call), {}) for call in inputs)
    return Program(path.stem, target, calls, {"fullgraph": True})


def model_program(name: str) -> Any:
    import torch
    import transformers

    from onegraph.targets import from_callable

    config, values, _ = MODELS[name]
    torch.manual_seed(0)
    model = getattr(transformers, name)(getattr(transformers, config)(**values)).eval()
    ids = torch.randint(2, 97, (3, 11))
    if name == "ViTModel":
        inputs = {"pixel_values": torch.randn(3, 3, 16, 16)}
    elif name == "LlamaModel":
        inputs = {"input_ids": ids}
    else:
        inputs = {"input_ids": ids, "decoder_input_ids": torch.randint(2, 97, (3, 7))}
    return from_callable(model, (), inputs)


def one_row(name: str, cases: Path) -> dict[str, Any]:
    import torch

    from onegraph import pipeline
    from onegraph.rewrite.swap import swapped
    from onegraph.rewrite.workspace import Workspace

    warnings.simplefilter("ignore")
    model = name in MODELS
    program = model_program(name) if model else case_program(cases / f"{name}.py")
    vary = MODELS[name][2] if model else ""
    workspace, mended = Workspace(), 0
    with torch.no_grad() if model else torch.enable_grad():
        if pipeline.run(program).sites:
            result = pipeline.fix(program)
            mended = sum(repair.status == "applied" for repair in result.repairs)
            for change in result.changes:
                workspace = workspace.with_text(change.path, change.mended, change.functions)
        start = time.perf_counter()
        with swapped(workspace):
            (result,) = pipeline.shapes(program, vary)
    best = result.best
    causes = [step.causes[0] for step in (*best.failed, *best.recompiles) if step.causes]
    if best.proof.cause is not None and best.proof.counterexample is not None:
        causes.append(best.proof.cause)
    return {
        "row": name,
        "axes": [str(axis) for axis in result.axes],
        "mended": mended,
        "as_it_is": result.trials[0].artifacts,
        "best": best.name,
        "artifacts": best.artifacts,
        "one": best.shared,
        "proven": best.proof.holds,
        "checked": best.proof.checked,
        "check_seconds": round(best.proof.seconds, 3),
        "causes": list(dict.fromkeys(f"{cause.sentence} {cause.place}".strip() for cause in causes)),
        "missing": best.proof.missing,
        "wrong": [f"{step.name}: {step.difference}" for step in best.wrong],
        "seconds": round(time.perf_counter() - start, 1),
    }


def silent(row: dict[str, Any]) -> bool:
    """More than one artifact, and nothing that says why."""
    return "error" not in row and not row["one"] and not row["causes"] and not row["missing"]


def show(row: dict[str, Any]) -> str:
    if "error" in row:
        return f"{row['row']:34} FAILED {row['error']}"
    verdict = "one artifact" if row["one"] else f"{row['artifacts']} artifacts"
    line = f"{row['row']:34} as it is {row['as_it_is']} -> {verdict:12} with {row['best']:18} "
    line += f"{row['checked']} sizes in {row['check_seconds']} s  {', '.join(row['axes'])}"
    for text in row["causes"][:3]:
        line += f"\n    {text}"
    if row["missing"]:
        line += f"\n    not proven: {row['missing']}"
    return line + "".join(f"\n    WRONG {text}" for text in row["wrong"][:3])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--row", help=argparse.SUPPRESS)
    parser.add_argument("--cases", type=Path, default=DEFAULT_CASES, help="folder of case programs")
    parser.add_argument("--only", action="append", help="only rows whose name contains this")
    parser.add_argument("--models", action="store_true", help="also the tiny library models")
    parser.add_argument("--no-cases", action="store_true", help="the models alone")
    options = parser.parse_args()
    if options.row:
        report_row(one_row(options.row, options.cases))
        return
    paths = sorted(path for path in options.cases.glob("[0-9]*.py") if ".ideal" not in path.name)
    names = [
        path.stem for path in paths if re.search(r"\bDYNAMIC = True\b", path.read_text(encoding="utf-8"))
    ]
    names = [] if options.no_cases else names
    names += list(MODELS) if options.models or options.no_cases else []
    if options.only:
        names = [name for name in names if any(part in name for part in options.only)]
    rows = run_rows(__file__, names, show, extra=["--cases", str(options.cases)])
    done = [row for row in rows if "error" not in row]
    figures(
        {
            "rows": len(rows),
            "failed": len(rows) - len(done),
            "one_artifact": sum(row["one"] for row in done),
            "explained": sum(not row["one"] and not silent(row) for row in done),
            "silent": sum(map(silent, done)),
            "wrong": sum(bool(row["wrong"]) for row in done),
        }
    )


if __name__ == "__main__":
    main()
