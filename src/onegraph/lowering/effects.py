"""A host effect becomes an ordered op: the statement keeps its text, its place and its order, and the
graph stays whole.

``move_to_op`` is the one entrance: it takes a statement (or the leading arms of an ``if`` chain), makes it
the body of a function under ``@_ordered_op``, and leaves a call. Called outside the compiler the function
runs directly, so that nothing changes in eager mode: same text, same exception, any argument types. Inside
a graph it is one op whose parameters are the tensors and Python values that the statement reads.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from onegraph.lowering import effect_names, effect_text
from onegraph.lowering.effect_params import Split, split
from onegraph.lowering.effect_scope import Scope, scope_of
from onegraph.lowering.object_by_id import keeper_in
from onegraph.lowering.refused import Refused
from onegraph.lowering.toplevel import helper_in, with_definition
from onegraph.rewrite import text as text_
from onegraph.rewrite.request import Request

HELPER = "_ordered_op"
_HELPER_TEXT = '''\
def {name}(effect):
    """Run a host effect in program order: a plain call in eager mode, one op inside a compiled graph."""
    import re

    from torch._library.effects import EffectType

    namespace, name = "host_" + re.sub(r"\\W", "_", __name__, flags=re.ASCII), effect.__name__
    while hasattr(getattr({torch}.ops, namespace), name):  # the module was loaded before
        name += "_"
    # A tensor that nothing is known of: given constants alone the compiler would run the effect while it traces.
    schema = {torch}.library.infer_schema(effect, mutates_args=())
    schema = schema.replace("(", "(Tensor _place_, ", 1).replace(", )", ")")
    op = {torch}.library.custom_op(
        f"{{namespace}}::{{name}}",
        lambda _place, *args: effect(*args),
        mutates_args=(),
        schema=schema,
        tags=({torch}.Tag.cudagraph_unsafe,),
    )
    op.register_fake(lambda *args: None)
    op.register_effect(EffectType.ORDERED)  # or the compiler drops it: nothing uses its result

    def call(*args):
        if not {torch}.compiler.is_compiling():
            return effect(*args)
        devices = [arg.device for arg in args if isinstance(arg, {torch}.Tensor)]
        return op({torch}.empty(0, device=devices[0] if devices else None), *args)

    return call
'''
GRAD_NOTE = "inside the compiled program a tensor that requires grad is shown without its grad_fn=<...>"


@dataclass(frozen=True, slots=True)
class Moved:
    """A file with one statement moved into an op."""

    text: str  # the whole file
    name: str  # of the op
    functions: tuple[str, ...]  # qualified names of the functions that changed
    shows_grad: bool  # the op gets a tensor that requires grad


@dataclass(frozen=True, slots=True)
class Effect:
    """What to move.

    ``statement``: the statement. Of an ``if`` chain the first ``arms`` arms move (None: all, with the
    ``else``), and the first ``outside`` conjuncts of its test stay in Python, in front of the call.
    ``verb``: what the op does ("print", "log", "warn", "check"); ``says``: literals that it may be named
    after.
    ``keep_eager``: outside the compiler the statement itself runs, not the op's function.
    ``force``: outcomes of conditions around the statement that must be forced for it to run on the
    recorded inputs. ``owner``: a local name ("self") whose object the statement changes.
    ``calls``: whether the graph may make the calls that give numbers.
    """

    statement: ast.stmt
    verb: str
    says: Sequence[str] = ()
    arms: int | None = None
    outside: int = 0
    keep_eager: bool = False
    force: Mapping[ast.expr, bool] = field(default_factory=dict)
    owner: str = ""
    calls: bool = True


def move_to_op(request: Request, effect: Effect) -> Moved:
    """The current text with a statement moved into an ordered op. Raises Refused."""
    text = request.text
    tree = text_.parse(text)
    scope = scope_of(tree, effect.statement)
    if scope.function is None:
        raise Refused("The statement stands at module level.", "Move it into a function.")
    part = effect_text.part_of(text, effect.statement, effect.arms, effect.outside)
    keeper = keeper_in(text, text_.ensure_torch_import(text)[1])
    owner = (effect.owner, keeper.name) if effect.owner else None
    parts = split(request, tree, effect.statement, part.node, part.tests, effect.force, owner, effect.calls)
    arguments = ", ".join(p.argument for p in parts.parameters)
    compiler = f"{text_.ensure_torch_import(text)[1]}.compiler" if effect.keep_eager else ""

    def changed(name: str) -> str:
        return effect_text.with_call(text, part, f"{name}({arguments})", compiler)

    done = place_op(request, scope, part, parts, effect.verb, effect.says, changed)
    return done if owner is None else replace(done, text=keeper.added(done.text))


def place_op(
    request: Request,
    scope: Scope,
    part: effect_text.Part,
    parts: Split,
    verb: str,
    says: Sequence[str],
    changed: Callable[[str], str],
) -> Moved:
    """The file with the op of a part added. ``changed(name)``: its text with the part replaced by the call
    of ``name``.
    """
    text, tree = request.text, text_.parse(request.text)
    function = scope.function
    assert function is not None
    _, torch = text_.ensure_torch_import(text)
    name = text_.unused_name(tree, effect_names.of_effect(verb, list(says), function.name))
    helper = helper_in(text, HELPER, _HELPER_TEXT, torch)
    block = _definition(text, name, helper.name, torch, part, parts)
    done = with_definition(changed(name), part.whole.lineno, helper, block)
    done, _ = text_.ensure_torch_import(done)
    return Moved(done, name, (_qualified(tree, function),), parts.shows_grad)


def _qualified(tree: ast.Module, function: ast.AST) -> str:
    return next(name for name, node in text_.functions(tree) if node is function)


def _definition(text: str, name: str, helper: str, torch: str, part: effect_text.Part, parts: Split) -> str:
    """The op: decorator, signature, imports of the function that it needs, the statement."""
    unit = text_.indent_unit(text)
    parameters = [f"{p.name}: {p.annotation.replace('torch.', torch + '.')}" for p in parts.parameters]
    head = f"def {name}({', '.join(parameters)}) -> None:"
    if len(head) > text_.WIDTH:
        head = f"def {name}(\n" + "".join(f"{unit}{p},\n" for p in parameters) + ") -> None:"
    imports = "".join(f"{unit}{line}\n" for line in parts.imports)
    return f"@{helper}\n{head}\n{imports}{effect_text.body(text, part, parts.edits, unit)}"
