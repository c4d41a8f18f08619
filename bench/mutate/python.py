"""Make the mutants of a Python module: one small change each. Pure.

Left alone are annotations, decorators, docstrings, defaults of arguments, constants of the module,
assertions, `strict` of a zip, and what is logged or counted for operators.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from bench.mutate.mutant import Change, Mutant, change_of

_COMPARED: dict[type[ast.cmpop], ast.cmpop] = {
    ast.Lt: ast.LtE(),
    ast.LtE: ast.Lt(),
    ast.Gt: ast.GtE(),
    ast.GtE: ast.Gt(),
    ast.Eq: ast.NotEq(),
    ast.NotEq: ast.Eq(),
    ast.Is: ast.IsNot(),
    ast.IsNot: ast.Is(),
    ast.In: ast.NotIn(),
    ast.NotIn: ast.In(),
}
_COMBINED: dict[type[ast.operator], ast.operator] = {
    ast.Add: ast.Sub(),
    ast.Sub: ast.Add(),
    ast.Mult: ast.Div(),
    ast.Div: ast.Mult(),
    ast.FloorDiv: ast.Mult(),
    ast.Mod: ast.Add(),
    ast.BitOr: ast.BitAnd(),
    ast.BitAnd: ast.BitOr(),
}
_CALLED = {"min": "max", "max": "min", "any": "all", "all": "any", "sorted": "list"}
_SKIPPED_FIELDS = {"annotation", "returns", "decorator_list", "bases", "defaults", "kw_defaults"}
_DROPPED = ast.AugAssign | ast.Raise | ast.Break | ast.Continue | ast.Delete
_NAMED = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
#: Whose methods tell operators something and decide nothing.
_TOLD = ("log.", "_log.", "metrics.")


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a node hangs."""

    parent: ast.AST
    field: str
    index: int | None  #: in a list of nodes
    node: ast.AST
    scope: str

    @property
    def shown(self) -> ast.AST:
        """What tells a reader where the change is: for a constant, what it is part of."""
        here: ast.AST = getattr(self.parent, self.field)
        if self.index is not None:
            here = here[self.index]  # type: ignore[index]
        is_part = isinstance(self.node, ast.Constant) and not hasattr(self.parent, "body")
        return self.parent if is_part else here

    def put(self, node: ast.AST) -> None:
        if self.index is None:
            setattr(self.parent, self.field, node)
        else:
            getattr(self.parent, self.field)[self.index] = node


def python_mutants(path: str, source: str) -> list[Mutant]:
    """Make every mutant of one module, in the order of its lines."""
    tree, found = ast.parse(source), dict[str, Mutant]()
    for place, before, after in _changed(tree):
        mutated = ast.unparse(tree)
        mutant = Mutant(
            path=path,
            line=getattr(place.node, "lineno", 0),
            scope=place.scope,
            before=before,
            after=after,
            source=mutated,
        )
        found.setdefault(mutated, mutant)
    found.pop(ast.unparse(tree), None)
    return sorted(found.values(), key=lambda mutant: mutant.line)


def python_changes(source: str) -> set[Change]:
    """Name what mutants of a module change without spelling out each of them as a file."""
    found = _changed(ast.parse(source))
    return {change_of(place.scope, before, after) for place, before, after in found}


def _changed(tree: ast.Module) -> Iterator[tuple[_Place, str, str]]:
    """Change a tree in each way, one after another: where, and what stands there before and now."""
    for place in list(_places(tree, "")):
        for changed in _changes(place):
            before = _short(place.shown)
            place.put(changed)
            yield place, before, _short(place.shown)
            place.put(place.node)


def _places(node: ast.AST, scope: str) -> Iterator[_Place]:
    for field, value in ast.iter_fields(node):
        if field in _SKIPPED_FIELDS:
            continue
        for index, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(child, ast.AST) and not _is_left_alone(node, child):
                named = f"{scope}.{child.name}" if isinstance(child, _NAMED) else scope
                inner = named.lstrip(".")
                yield _Place(node, field, index, child, inner)
                yield from _places(child, inner)


def _is_left_alone(parent: ast.AST, child: ast.AST) -> bool:
    if isinstance(parent, ast.Module):
        return not isinstance(child, _NAMED)
    if isinstance(child, ast.Expr):
        value = child.value
        if isinstance(value, ast.Call):
            return ast.unparse(value.func).startswith(_TOLD)
        return isinstance(value, ast.Constant)
    return isinstance(child, ast.Assert) or (
        isinstance(child, ast.keyword) and child.arg == "strict"
    )


def _changes(place: _Place) -> Iterator[ast.AST]:
    node = place.node
    if isinstance(node, ast.expr) and _is_condition(place):
        yield ast.UnaryOp(ast.Not(), node)
    if isinstance(node, ast.stmt):
        yield from _of_statement(node)
    elif isinstance(node, ast.Constant):
        yield from _of_constant(node.value)
    elif isinstance(node, ast.expr):
        yield from _of_expression(node)


def _is_condition(place: _Place) -> bool:
    """Tell whether a node decides something that no other change of it turns around."""
    is_test = place.field in ("test", "ifs") and not isinstance(place.parent, ast.While)
    return is_test and not isinstance(place.node, ast.UnaryOp | ast.Compare)


def _of_statement(node: ast.stmt) -> Iterator[ast.AST]:
    if isinstance(node, ast.Return) and node.value is not None and not _is_none(node.value):
        yield ast.Return(ast.Constant(None))
    elif isinstance(node, _DROPPED) or _is_call(node) or _sets_part(node):
        yield ast.Pass()


def _is_call(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Call | ast.Await)


def _sets_part(node: ast.stmt) -> bool:
    """Tell an assignment to a part of something: without one to a name nothing would run."""
    return isinstance(node, ast.Assign) and not any(isinstance(t, ast.Name) for t in node.targets)


def _of_constant(value: object) -> Iterator[ast.AST]:
    if isinstance(value, bool):
        yield ast.Constant(not value)
    elif isinstance(value, int | float):
        yield ast.Constant(value + 1)
        yield ast.Constant(value - 1)


def _of_expression(node: ast.expr) -> Iterator[ast.AST]:
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _COMPARED:
        swapped = [_COMPARED[type(node.ops[0])], *node.ops[1:]]
        yield ast.Compare(node.left, swapped, node.comparators)
    elif isinstance(node, ast.BinOp) and type(node.op) in _COMBINED:
        yield ast.BinOp(node.left, _COMBINED[type(node.op)], node.right)
    elif isinstance(node, ast.BoolOp):
        other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield ast.BoolOp(other, node.values)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        yield node.operand
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        yield from _of_call(node, node.func.id)


def _of_call(node: ast.Call, name: str) -> Iterator[ast.AST]:
    if name in _CALLED:
        keywords = [] if name == "sorted" else node.keywords
        yield ast.Call(ast.Name(_CALLED[name]), node.args, keywords)


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _short(node: ast.AST) -> str:
    """Spell a node in one line."""
    return " ".join(ast.unparse(node).split())
