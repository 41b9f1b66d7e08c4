"""``copy.deepcopy`` in a graph: tensors and containers of them are cloned, a module gets a stand-in."""

from __future__ import annotations

import ast

from onegraph.lowering import choice, written_helpers
from onegraph.lowering.refused import Refused
from onegraph.rewrite import text as edit
from onegraph.rewrite.request import Fact, Request

_TENSORS = "_deepcopy"
_MODULE = "_deepcopy_module"
_TENSORS_TEXT = '''\
def _deepcopy(value):
    """``copy.deepcopy``, in a graph for tensors without gradient and for containers of them."""
    if not {torch}.compiler.is_compiling():
        return copy.deepcopy(value)
    if isinstance(value, {torch}.Tensor) and not value.requires_grad:
        return value.clone()
    if type(value) is dict:
        return {{key: _deepcopy(item) for key, item in value.items()}}
    if type(value) in (list, tuple):
        return type(value)([_deepcopy(item) for item in value])
    return copy.deepcopy(value)
'''
_MODULE_TEXT = '''\
class _ModuleCopy:
    """Stands for a copy of a module in a graph: its forward, on copies of its parameters and buffers."""

    def __init__(self, module):
        named = [*module.named_parameters(), *module.named_buffers()]
        self._module, self._tensors = module, {{name: tensor.detach().clone() for name, tensor in named}}

    def __getattr__(self, name):
        return self._tensors[name]

    def __call__(self, *args, **kwargs):
        return {torch}.func.functional_call(self._module, self._tensors, args, kwargs)

    def parameters(self):
        return iter([self._tensors[name] for name, _ in self._module.named_parameters()])


def _deepcopy_module(module):
    """``copy.deepcopy`` of a module."""
    return _ModuleCopy(module) if {torch}.compiler.is_compiling() else copy.deepcopy(module)
'''
_TYPES = frozenset(("torch.Tensor", "dict", "list", "tuple"))
_GRADIENTS = frozenset(("backward", "grad", "vjp", "jvp", "requires_grad_", "train", "eval"))
_STEP = "Copy a tensor with .clone(); copy modules outside of the compiled function."


def helper(torch: str, *, module: bool) -> str:
    """The code of the helper that a rewritten call names."""
    return (_MODULE_TEXT if module else _TENSORS_TEXT).format(torch=torch)


def cloned(request: Request) -> str:
    """The file with the ``deepcopy`` at the site made of what a graph can hold. Raises Refused."""
    text, tree = request.text, edit.parse(request.text)
    path = edit.path_at(tree, request.site.span)
    call = next((n for n in path if isinstance(n, ast.Call) and choice.called(n) == "deepcopy"), None)
    if call is None:
        raise Refused(f"Line {request.site.span.line} calls no `deepcopy`.", _STEP)
    if len(call.args) != 1 or call.keywords or isinstance(call.args[0], ast.Starred):
        raise Refused("It is called with more than what it copies.", _STEP)
    (facts,) = request.facts.values(call.args[0])
    module = not _are_data(facts)
    if module:
        _check_module(request, path, call)
    name = _MODULE if module else _TENSORS
    try:
        changed = edit.ensure_import(edit.replace_spans(text, [(*edit.position(call.func), name)]), "copy")
    except ValueError as error:
        raise Refused(f"{error}.", _STEP) from None
    code = helper(edit.ensure_torch_import(text)[1], module=module)
    done = written_helpers.with_definitions(text, changed, code)
    if done is None:
        raise Refused(f"The file has a `{name}` of its own.", _STEP)
    return done


def _are_data(facts: tuple[Fact, ...]) -> bool:
    if not facts:
        raise Refused("No input reaches it.", "Give inputs that reach it.")
    if any(fact.is_tensor and fact.requires_grad for fact in facts):
        raise Refused("What it copies takes part in the gradient.", _STEP)
    return all(fact.is_tensor or fact.type in _TYPES for fact in facts)


def _check_module(request: Request, path: tuple[ast.expr | ast.stmt, ...], call: ast.Call) -> None:
    """A stand-in can be called, and has the module's own parameters and buffers. Raises Refused for other uses."""
    statement = next((n for n in path if isinstance(n, ast.Assign) and n.value is call), None)
    function = next((n for n in reversed(path) if isinstance(n, ast.FunctionDef)), None)
    target = statement.targets[0] if statement is not None else None
    if function is None or not isinstance(target, ast.Name):
        raise Refused("The copy of a module is not kept under one name.", _STEP)
    names = [n for n in ast.walk(function) if isinstance(n, ast.Name) and n.id == target.id]
    parents = {child: node for node in ast.walk(function) for child in ast.iter_child_nodes(node)}
    calls = (choice.called(n) for n in ast.walk(function) if isinstance(n, ast.Call))
    if (taken := next((each for each in calls if each in _GRADIENTS), None)) is not None:
        raise Refused(f"The function calls `{taken}`, and a copy in a graph has no gradient.", _STEP)
    for name in names:
        if name is not target and not _stands_for(request, name, parents):
            shown = ast.unparse(parents[name])
            raise Refused(f"`{shown}` needs more of a module than its tensors and its forward.", _STEP)


def _stands_for(request: Request, name: ast.Name, parents: dict[ast.AST, ast.AST]) -> bool:
    use = parents[name]
    if isinstance(use, ast.Call):
        return use.func is name
    if not isinstance(use, ast.Attribute) or not isinstance(use.ctx, ast.Load):
        return False
    if use.attr == "parameters":
        called = parents[use]
        return isinstance(called, ast.Call) and called.func is use and not called.args
    (facts,) = request.facts.values(use)
    return bool(facts) and all(fact.is_tensor for fact in facts)
