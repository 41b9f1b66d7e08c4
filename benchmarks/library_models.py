"""Small random models of an ordinary model library, from a spec: config class, config values, inputs."""

from __future__ import annotations

import operator
from functools import reduce
from typing import Any

import torch

DTYPES = {"int64": torch.int64, "bool": torch.bool, "float32": torch.float32}


def build(spec: dict[str, Any], dtype: torch.dtype) -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    """The model in eval mode with random weights (seed 0), and its keyword inputs."""
    import transformers

    torch.manual_seed(0)
    parts = {
        name: getattr(transformers, sub["class"])(**sub["kwargs"])
        for name, sub in spec.get("sub_configs", {}).items()
    }
    config = getattr(transformers, spec["config_class"])(**spec["config"], **parts)
    for path, value in spec.get("config_edits", {}).items():
        *owners, last = path.split(".")
        setattr(reduce(getattr, owners, config), last, value)
    model = getattr(transformers, spec["model_class"])(config).to(dtype).eval()
    return model, {name: _tensor(facts, dtype, config) for name, facts in spec["inputs"].items()}


def _tensor(facts: dict[str, Any], dtype: torch.dtype, config: Any) -> torch.Tensor:
    shape = [_size(size, config) for size in facts["shape"]]
    wanted = dtype if facts["dtype"] == "model" else DTYPES[facts["dtype"]]
    if facts["gen"] == "randint":
        return torch.randint(facts["low"], facts["high"], shape, dtype=wanted)
    if facts["gen"] == "full":
        return torch.full(shape, facts["value"], dtype=wanted)
    return torch.randn(shape).to(wanted)


def _size(size: int | str, config: Any) -> int:
    """A size is a number, or the name of a config value ("config.audio_config.num_mel_bins")."""
    if isinstance(size, int):
        return size
    return int(operator.attrgetter(size.removeprefix("config."))(config))
