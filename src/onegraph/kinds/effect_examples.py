"""What the examples of host effects share: the helper that the first op of a file brings along."""

from __future__ import annotations

HELPER = '''\
def _ordered_op(effect):
    """Run a host effect in program order: a plain call in eager mode, one op inside a compiled graph."""
    from torch._library.effects import EffectType

    namespace, name = __name__.replace(".", "_"), effect.__name__
    while hasattr(getattr(torch.ops, namespace), name):  # the module was loaded before
        name += "_"
    op = torch.library.custom_op(
        f"{namespace}::{name}", effect, mutates_args=(), tags=(torch.Tag.cudagraph_unsafe,)
    )
    op.register_fake(lambda *args: None)
    op.register_effect(EffectType.ORDERED)  # or the compiler drops it: nothing uses its result

    def call(*args):
        return op(*args) if torch.compiler.is_compiling() else effect(*args)

    return call
'''
