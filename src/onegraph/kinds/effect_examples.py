"""What the examples of host effects share: the helper that the first op of a file brings along."""

from __future__ import annotations

HELPER = '''\
def _ordered_op(effect):
    """Run a host effect in program order: a plain call in eager mode, one op inside a compiled graph."""
    import re

    from torch._library.effects import EffectType

    namespace, name = "host_" + re.sub(r"\\W", "_", __name__, flags=re.ASCII), effect.__name__
    while hasattr(getattr(torch.ops, namespace), name):  # the module was loaded before
        name += "_"
    # A tensor that nothing is known of: given constants alone the compiler would run the effect while it traces.
    schema = torch.library.infer_schema(effect, mutates_args=())
    schema = schema.replace("(", "(Tensor _place_, ", 1).replace(", )", ")")
    op = torch.library.custom_op(
        f"{namespace}::{name}",
        lambda _place, *args: effect(*args),
        mutates_args=(),
        schema=schema,
        tags=(torch.Tag.cudagraph_unsafe,),
    )
    op.register_fake(lambda *args: None)
    op.register_effect(EffectType.ORDERED)  # or the compiler drops it: nothing uses its result

    def call(*args):
        if not torch.compiler.is_compiling():
            return effect(*args)
        devices = [arg.device for arg in args if isinstance(arg, torch.Tensor)]
        return op(torch.empty(0, device=devices[0] if devices else None), *args)

    return call
'''
