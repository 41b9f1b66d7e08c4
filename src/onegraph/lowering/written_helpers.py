"""Module-level helpers that generated code calls, each added once to a file, under a name that is free there."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from onegraph.rewrite import text as edit

Bodies = Mapping[str, str]  # name -> definition with the places ``{name}`` and ``{torch}``


def names_in(text: str, bodies: Bodies) -> dict[str, str]:
    """The names under which the helpers are, or will be, in the file."""
    return {base: name_of(text, base, body) for base, body in bodies.items()}


def complete(text: str, names: Mapping[str, str], bodies: Bodies) -> str:
    """The text with the helpers that it calls."""
    read = edit.names(edit.parse(text))
    for base, name in names.items():
        text = added(text, name, bodies[base]) if name in read else text
    return text


def name_of(text: str, base: str, body: str) -> str:
    """The name under which a helper is, or will be, in the file: another one where the user has one of that name."""
    tree, torch = edit.parse(text), edit.ensure_torch_import(text)[1]
    for number in range(1, 100):
        name = base if number == 1 else f"{base}_{number}"
        if _is_there(tree, name, body, torch) or name not in edit.names(tree):
            return name
    raise ValueError(f"every name from {base} to {base}_99 is taken")


def added(text: str, name: str, body: str) -> str:
    """The text with the import of torch and the helper, where it lacks them."""
    text, torch = edit.ensure_torch_import(text)
    if _is_there(edit.parse(text), name, body, torch):
        return text
    return edit.insert_after_imports(text, body.format(name=name, torch=torch))


def with_definitions(before: str, changed: str, code: str) -> str | None:
    """A changed text with the functions and classes of ``code``, which it calls; None where the text ``before`` has
    others of these names."""
    tree, ours = edit.parse(before), _definitions(ast.parse(code))
    if ours.items() <= _definitions(tree).items():
        return changed
    if ours.keys() & edit.names(tree):
        return None
    return edit.insert_after_imports(edit.ensure_torch_import(changed)[0], code)


def _definitions(tree: ast.Module) -> dict[str, str]:
    return {s.name: ast.dump(s) for s in tree.body if isinstance(s, ast.FunctionDef | ast.ClassDef)}


def _is_there(tree: ast.Module, name: str, body: str, torch: str) -> bool:
    """Whether the file already has the helper: the same definition, whatever its layout."""
    ours = ast.dump(ast.parse(body.format(name=name, torch=torch)).body[0])
    return any(isinstance(s, ast.FunctionDef) and s.name == name and ast.dump(s) == ours for s in tree.body)
