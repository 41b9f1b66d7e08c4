"""Small random models from a list of them: each entry has its library, class, config and inputs.

An entry's ``build`` says how to make the model (``kind`` transformers, diffusers or timm), ``inputs`` what to call
it with (``{"shape": …, "dtype": …}`` with ``values``, ``fill``, ``randint`` or random numbers), ``train_extra_inputs``
what training adds, ``modes`` in which modes it breaks.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

MODES = ("eval", "train")


def read(path: Path) -> dict[str, dict[str, Any]]:
    """Name -> entry. Entries of one name are told apart by a number."""
    listed = json.loads(path.read_text())
    found: dict[str, dict[str, Any]] = {}
    for entry in listed["models"] if isinstance(listed, dict) else listed:
        name = base = str(entry.get("id") or entry.get("name") or entry["class"]).rpartition("/")[2]
        count = 1
        while name in found:
            count += 1
            name = f"{base}-{count}"
        found[name] = entry
    return found


def build(entry: dict[str, Any], mode: str, seed: int = 0) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """The model in its mode with random weights, its positional and its keyword arguments."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    import torch

    torch.manual_seed(seed)
    model = _model(entry["build"], seed)
    generator = torch.Generator().manual_seed(seed)
    inputs = _value(entry["inputs"], generator)
    if mode == "train" and entry.get("train_extra_inputs"):
        inputs.update(_value(entry["train_extra_inputs"], generator))
    return model.train(mode == "train"), tuple(inputs.pop("__args__", ())), inputs


def _model(how: dict[str, Any], seed: int) -> Any:
    import torch

    kind = how["kind"]
    if kind == "transformers":
        import transformers

        config = getattr(transformers, how["config_class"]).from_dict(how["config"])
        torch.manual_seed(seed)
        return getattr(transformers, how["class"])(config)
    if kind == "diffusers":
        import diffusers

        return getattr(diffusers, how["class"])(**how["kwargs"])
    if kind == "timm":
        import timm

        return timm.create_model(how["name"], pretrained=False, **how["kwargs"])
    raise ValueError(f"a model of {kind!r} can't be built: transformers, diffusers and timm are known")


def _value(spec: Any, generator: Any) -> Any:
    if isinstance(spec, list):
        return [_value(item, generator) for item in spec]
    if not isinstance(spec, dict):
        return spec
    if "dtype" not in spec or "shape" not in spec:
        return {name: _value(item, generator) for name, item in spec.items()}
    return _tensor(spec, generator)


def _tensor(spec: dict[str, Any], generator: Any) -> Any:
    import torch

    dtype, shape = getattr(torch, spec["dtype"]), spec["shape"]
    if "values" in spec:
        return torch.tensor(spec["values"], dtype=dtype).reshape(shape)
    if "fill" in spec:
        return torch.full(shape, spec["fill"], dtype=dtype)
    if "randint" in spec:
        low, high = spec["randint"]
        return torch.randint(low, high, shape, generator=generator).to(dtype)
    draw = torch.rand if spec.get("init") == "rand" else torch.randn
    return draw(shape, generator=generator, dtype=dtype)
