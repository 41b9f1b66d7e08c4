"""The text of an op made of statements: its helper, its definition, its call."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from onegraph.lowering.op_given import Given
from onegraph.lowering.source import Source
from onegraph.rewrite import text as text_

HELPER = "_code_op"
HELPER_TEXT = '''\
def {name}(*written, gives=None, known=None):
    """A plain call in eager mode, one op inside a compiled graph. ``written``: the tensors that the code writes into;
    ``gives``: empty tensors like those that it returns, of sizes ``_any()`` where values decide; ``known``: the kinds
    of arguments for which that holds. With others, and where tensors share the memory that is written, the code itself
    is compiled."""
    import inspect
    import re

    def decorate(function):
        names = list(inspect.signature(function).parameters)
        places = [names.index(name) for name in written]
        schema = {torch}.library.infer_schema(function, mutates_args=()).partition(" -> ")[0] + " -> Tensor[]"
        namespace, name = "host_" + re.sub(r"\\W", "_", __name__, flags=re.ASCII), function.__name__
        while hasattr(getattr({torch}.ops, namespace), name):  # the module was loaded before
            name += "_"

        open_sizes = gives is not None and "_any" in inspect.signature(gives).parameters

        def told(*args, size=None):
            known = [{torch}.empty_like(args[n]) for n in places]
            if not open_sizes:
                return known + (list(gives(*args)) if gives else [])
            return known + list(gives(*args, _any=size or (lambda: new_size(args))))

        def new_size(args):  # a symbol of the graph, in every mode of torch.compile
            symbols = next(a.fake_mode.shape_env for a in args if isinstance(a, {torch}.Tensor))
            size = (symbols.create_unbacked_symint if symbols else {torch}.library.get_ctx().new_dynamic_size)()
            {torch}._check(size >= 0)
            return size

        def run(*args):
            args = [arg.clone() if n in places else arg for n, arg in enumerate(args)]
            args = [{torch}.Size(arg) if isinstance(arg, list) else arg for arg in args]
            made = function(*args) if gives else function(*args) or ()
            made = made if isinstance(made, tuple) else (made,)
            results = [args[n] for n in places] + [value.clone() for value in made]
            for result, wanted, other in zip(results, told(*args, size=lambda: 0), told(*args, size=lambda: 1)):
                found, due = tuple(result.shape), tuple(wanted.shape)
                if len(found) == len(due):  # what is open is what differs between the two
                    due = tuple(n if low < high else low for n, low, high in zip(found, due, other.shape))
                if (found, result.dtype) != (due, wanted.dtype):
                    raise RuntimeError(f"{{name}} gave {{result.dtype}} {{found}}, not {{wanted.dtype}} {{due}}")
            return [result.contiguous() if n >= len(places) else result for n, result in enumerate(results)]

        def gradients(grads, needed, *args):  # by running the code once more: it draws no random numbers
            def again(*inputs):
                given = dict(zip(needed, inputs))
                return run(*[given.get(n, arg) for n, arg in enumerate(args)])

            _, pull_back = {torch}.func.vjp(again, *[args[n] for n in needed])
            return [grad.clone() for grad in pull_back(grads)]

        def op(title, run, schema):
            tags = ({torch}.Tag.cudagraph_unsafe,)
            full = f"{{namespace}}::{{title}}"
            return {torch}.library.custom_op(full, run, mutates_args=(), schema=schema, tags=tags)

        forward_op = op(name, run, schema)
        backward_op = op(f"{{name}}_backward", gradients, "(Tensor[] grads, int[] needed, " + schema[1:])
        forward_op.register_fake(told)
        backward_op.register_fake(lambda grads, needed, *args: [{torch}.empty_like(args[n]) for n in needed])

        def remember(ctx, inputs, output):
            ctx.save_for_backward(*[a if isinstance(a, {torch}.Tensor) else None for a in inputs])
            ctx.plain = [None if isinstance(a, {torch}.Tensor) else a for a in inputs]

        def backward(ctx, grads):
            args = [p if t is None else t for t, p in zip(ctx.saved_tensors, ctx.plain)]
            needed = [n for n, needs in enumerate(ctx.needs_input_grad[: len(args)]) if needs]
            found = dict(zip(needed, backward_op(grads, needed, *args)))
            return tuple(found.get(n) for n in range(len(args)))

        forward_op.register_autograd(backward, setup_context=remember)

        def apart(*args):  # one element: no memory that is written is another tensor's too; a compiler reads the size
            memory = [arg.untyped_storage() if isinstance(arg, {torch}.Tensor) else None for arg in args]
            shared = any(memory[n] is other for n in places for m, other in enumerate(memory) if m != n)
            return {torch}.empty(0 if shared else 1)

        apart_op = {torch}.library.custom_op(
            f"{{namespace}}::{{name}}_apart", apart, mutates_args=(), schema=schema.partition(" -> ")[0] + " -> Tensor"
        )
        apart_op.register_fake(apart)

        def kinds(arg, floats):
            if isinstance(arg, (list, tuple)):
                return [(type(arg), len(arg))]
            if not isinstance(arg, {torch}.Tensor):
                return [type(arg)]
            alike = arg.dtype in floats and all(dtype == arg.dtype for dtype in floats)
            return [{torch}.Tensor, (arg.dtype, arg.ndim), ("float" if alike else "", arg.ndim)]

        def fits(tensors, *args):
            if any({torch}.is_autocast_enabled(tensor.device.type) for tensor in tensors):
                return False  # what runs in an op is not cast
            floats = [tensor.dtype for tensor in tensors if tensor.is_floating_point()]
            for name, arg in zip(names, args):
                if not any(kind in (known or {{}}).get(name, [{torch}.Tensor]) for kind in kinds(arg, floats)):
                    return False
            written = [args[n] for n in places]
            if any(each.requires_grad and each.is_leaf for each in written):
                return False  # that it is written may be an error
            if any(step == 0 and size != 1 for each in written for step, size in zip(each.stride(), each.shape)):
                return False  # expanded: several elements are one
            if len(tensors) < 2 or not written:
                return True
            plain = [arg.detach() if isinstance(arg, {torch}.Tensor) else arg for arg in args]
            return apart_op(*plain).shape[0] == 1

        def call(*args):
            tensors = [arg for arg in args if isinstance(arg, {torch}.Tensor)]
            if not ({torch}.compiler.is_compiling() and fits(tensors, *args)):
                return function(*args)
            before = [arg.clone() if n in places else arg for n, arg in enumerate(args)]  # for the backward pass
            values = forward_op(*before)
            for n, value in zip(places, values):
                args[n].copy_(value)
            made = values[len(places) :]
            return made[0] if len(made) == 1 else tuple(made)

        return call

    return decorate
'''


@dataclass(frozen=True, slots=True)
class Results:
    """What an op returns: names bound in it (none where its last statement returns), and an empty tensor like each,
    for arguments of the ``known`` kinds."""

    names: tuple[str, ...] = ()
    fakes: tuple[str, ...] = ()
    returned: bool = False
    known: Mapping[str, Sequence[str]] = field(default_factory=dict)


def definition(
    text: str,
    name: str,
    helper: str,
    torch: str,
    statements: Sequence[ast.stmt],
    given: Sequence[Given],
    written: Sequence[str],
    results: Results,
    methods: Mapping[ast.AST, str] | None = None,
) -> str:
    """The op: decorator, signature, the statements, and what they hand on. ``methods``: text for other nodes."""
    unit = text_.indent_unit(text)
    parameters = [f"{each.name}: {each.annotation.replace('torch.', torch + '.')}" for each in given]
    gives = "tuple[" + ", ".join([f"{torch}.Tensor"] * len(results.fakes)) + "]"
    gives = "None" if not results.fakes else f"{torch}.Tensor" if len(results.fakes) == 1 else gives
    head = f"def {name}({', '.join(parameters)}) -> {gives}:"
    if len(head) > text_.WIDTH:
        head = f"def {name}(\n" + "".join(f"{unit}{p},\n" for p in parameters) + f") -> {gives}:"
    told = [f'"{each}"' for each in written]
    known = [f'"{name}": [{", ".join(kinds)}]' for name, kinds in results.known.items()]
    if results.fakes:
        fakes = (
            f"({', '.join(results.fakes)},)" if len(results.fakes) == 1 else f"({', '.join(results.fakes)})"
        )
        names = [each.name for each in given] + ["*, _any"] * any("_any()" in each for each in results.fakes)
        told.append(f"gives=lambda {', '.join(names)}: {fakes}")
    if known:
        told.append(f"known={{{', '.join(known)}}}")
    decorator = text_.wrap_call(f"{helper}({', '.join(told)})").replace(helper, f"@{helper}", 1)
    source = Source(text)
    replaced: dict[ast.AST, str] = {node: each.name for each in given for node in each.nodes}
    replaced.update(methods or {})
    blocks = "".join(source.block([s], replaced) for s in statements)
    handed = f"return {', '.join(results.names)}\n" if results.names else ""
    return f"{decorator}\n{head}\n{text_.reindent(blocks + handed, unit)}"


def with_call(text: str, statements: Sequence[ast.stmt], call: str) -> str:
    """The text with the call in place of the last statement, and without the others."""
    for statement in reversed(statements):
        first, last = text_.first_line(statement), text_.position(statement)[2]
        indent = text_.indent_of(text, first)
        block = "" if statement is not statements[-1] else text_.wrap_call(indent + call) + "\n"
        if "\n" in call and block:
            block = text_.reindent(call, indent)
        text = text_.replace_lines(text, first, last, block)
    return text
