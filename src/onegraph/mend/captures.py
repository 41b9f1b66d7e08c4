"""Torch's own settings that capture what breaks the graph in the default mode: numbers and sizes out of tensors."""

from __future__ import annotations

from onegraph.model import Site

_SCALARS = "capture_scalar_outputs"
_SHAPES = "capture_dynamic_output_shape_ops"
_BY_CAUSE = {
    "unsupported tensor.item() call": (_SCALARS,),
    "tensor.tolist() with non-integer": (_SCALARS,),
    "data dependent operator": (_SCALARS,),
    "dynamic shape operator": (_SHAPES,),
}


def settings_for(site: Site) -> tuple[str, ...]:
    """The settings of ``torch._dynamo.config`` that may close a site."""
    found: dict[str, None] = {}
    for break_ in site.breaks:
        for cause, names in _BY_CAUSE.items():
            if break_.gb_type.lower().startswith(cause):
                found.update(dict.fromkeys(names))
    return tuple(found)


def words(names: tuple[str, ...]) -> str:
    """The next step for people."""
    settings = " and ".join(f"torch._dynamo.config.{name} = True" for name in names)
    return f"Compile with fullgraph=True, or set {settings}: torch then captures it, and nothing breaks here."
