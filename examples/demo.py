"""`make demo`: the main job on a real model and on a training script that no one prepared for it.

Each step is a command that you can type yourself; it is shown before it runs. The last step applies a patch, to a copy.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parent
ROOT = EXAMPLES.parent


def run(words: list[str], why: str, expected: set[int]) -> None:
    """Show one command, run it, and stop the demo when it ends in a way that was not expected."""
    print(f"\n\n# {why}\n$ {' '.join(words)}\n", flush=True)
    start = time.perf_counter()
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    done = subprocess.run([sys.executable, "-m", *words], cwd=ROOT, env=environment)
    print(f"\n({time.perf_counter() - start:.0f} s, exit {done.returncode})", flush=True)
    if done.returncode not in expected:
        raise SystemExit(f"the demo expected exit {sorted(expected)}, this is a fault: please report it")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        overlay, script = Path(folder) / "bart_overlay.py", Path(folder) / "train.py"
        shutil.copy(EXAMPLES / "train.py", script)
        bart = "examples/bart.py:build"
        run(
            ["onegraph", "run", bart],
            "Bart of transformers, half precision: where does the graph break?",
            {1},
        )
        run(
            ["onegraph", "fix", bart, "--overlay", str(overlay)],
            "Mend it, prove it, and keep the mended function in an overlay: site-packages stays as it is.",
            {0},
        )
        print(f"\n# The overlay\n\n{overlay.read_text()}", flush=True)
        run(["onegraph", "run", str(script)], "A training script that knows nothing about onegraph.", {1})
        run(
            ["onegraph", "fix", str(script), "--apply"],
            "Mend it in place (a copy of examples/train.py).",
            {0},
        )
        run(["onegraph", "check", str(script)], "The gate: exit 0, nothing is left.", {0})


if __name__ == "__main__":
    main()
