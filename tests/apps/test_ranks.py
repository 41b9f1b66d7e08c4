"""Two ranks under torchrun: one report each, and what differs between them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from click.testing import Result

from onegraph.apps.ranks import own_file, rank

TRAIN = """\
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(520, 520) for _ in range(3))
        self.rank = dist.get_rank()

    def forward(self, x):
        for layer in self.layers:
            x = layer(x).relu()
        if self.rank == 1:
            print("one rank only")
        return x


dist.init_process_group("gloo")
model = torch.compile(DDP(Net(), bucket_cap_mb=1), backend="aot_eager")
model(torch.randn(8, 520)).sum().backward()
dist.barrier()
dist.destroy_process_group()
"""


def test_names_of_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANK", raising=False)
    assert rank() is None
    assert (own_file("a/r.json"), own_file("r{rank}.json")) == ("a/r.json", "r0.json")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    assert rank() == 1
    assert (own_file("a/r.json"), own_file("r{rank}.json")) == (str(Path("a/r.rank1.json")), "r1.json")


@pytest.mark.skipif(not torch.distributed.is_available(), reason="this torch has no torch.distributed")
def test_two_ranks_with_ddp(folder: Path, onegraph: Callable[..., Result]) -> None:
    (folder / "ddp.py").write_text(TRAIN)
    words = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    words += ["-m", "onegraph", "run", "ddp.py", "--format", "json", "-o", "r.json"]
    done = subprocess.run([sys.executable, *words], cwd=folder, capture_output=True, text=True, timeout=300)
    first, second = (json.loads((folder / f"r.rank{each}.json").read_text()) for each in (0, 1))
    own = [
        [site["kind"] for site in report["sites"] if site["owner"] == "user"] for report in (first, second)
    ]
    assert own == [[], ["print_call"]], done.stderr
    assert first["graphs"] == 1  # DDP splits it at its buckets: no break of anybody
    shown = onegraph("report", "r.rank0.json", "r.rank1.json").stdout
    assert "in some: 1 break\n  ddp.py:16:13  print_call" in shown
    assert "Ranks that break differently" in shown
