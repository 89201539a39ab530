"""Small faults that can be planted in a module: what is changed, and what is left alone."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_TURNED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.Gt, ast.LtE: ast.GtE, ast.Gt: ast.Lt, ast.GtE: ast.LtE,
}  # fmt: skip
_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip
_PAIRS = [
    ("min", "max"), ("minimum", "maximum"), ("fmin", "fmax"), ("argmin", "argmax"), ("floor", "ceil"), ("any", "all"),
    ("amin", "amax"), ("reduce_min", "reduce_max"), ("sin", "cos"), ("log1p", "log"), ("expm1", "exp"),
]  # fmt: skip
_OPPOSITES = {a: b for pair in _PAIRS for a, b in (pair, pair[::-1])}
_WORDS = {"left": "right", "right": "left"}
_SYMMETRIC = {
    "max", "min", "maximum", "minimum", "fmax", "fmin", "logaddexp", "hypot", "array_equal", "isinstance",
    "issubclass", "cast", "getattr", "zip", "shuffle", "warn", "TypeVar", "NewType", "Protocol",
    "namedtuple", "partial", "einsum",
}  # fmt: skip
"""Calls whose first two arguments can be swapped without a change, or that fail at once when they are."""
_DEFENSIVE = {"strict", "stacklevel", "copy", "check_finite", "overwrite_a", "overwrite_b", "autograph", "name"}
"""Keywords that guard against a programming error, or only save work."""
TINY, MANY = 1e-5, 32


@dataclass(frozen=True)
class Fault:
    """One change of one expression.

    Attributes:
        path: file, relative to the root.
        number: position among the faults of the file.
        line: where the expression begins.
        text: source of that line, stripped.
        lines: first and last line that show it when executed: of the innermost statement or its header; of the whole
            function for a default value, of the whole class for a field.
        scope: the function's name, empty in the body of a module or class.
    """

    path: str
    number: int
    line: int
    text: str
    lines: tuple[int, int]
    scope: str


@dataclass(frozen=True)
class _Edit:
    node: ast.expr | ast.AugAssign
    statement: ast.stmt
    scope: str
    apply: Callable[[], None]


def faults(root: Path, path: Path) -> list[Fault]:
    """Return every fault that can be planted in the file, in the order of the source."""
    source = path.read_text(encoding="utf-8")
    rows, name = source.splitlines(), path.relative_to(root).as_posix()
    found = []
    for number, edit in enumerate(_edits(ast.parse(source), None, "")):
        line, statement = edit.node.lineno, edit.statement
        lines = (statement.lineno, _last_line(statement))
        found.append(Fault(name, number, line, rows[line - 1].strip(), lines, edit.scope))
    return found


def plant(source: str, number: int) -> tuple[ast.Module, str]:
    """Return the module with one fault in it, and the change in words."""
    tree = ast.parse(source)
    edit = next(edit for k, edit in enumerate(_edits(tree, None, "")) if k == number)
    before = ast.unparse(edit.node)
    edit.apply()
    return ast.fix_missing_locations(tree), f"{before} -> {ast.unparse(edit.node)}"


def _last_line(statement: ast.stmt) -> int:
    """Return the last line of a statement, or of its header where the fault is in the header alone."""
    body = getattr(statement, "body", None)
    if body and not isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return max(statement.lineno, int(body[0].lineno) - 1)
    return statement.end_lineno or statement.lineno


def _edits(node: ast.AST, statement: ast.stmt | None, scope: str) -> Iterator[_Edit]:
    """Yield the edits of a node and what is below it, in the order of the source."""
    if _left_alone(node):
        return
    field = isinstance(statement, ast.ClassDef) and isinstance(node, ast.Assign | ast.AnnAssign)
    if isinstance(node, ast.stmt) and not field:
        statement = node
    if statement is not None and isinstance(node, ast.expr | ast.AugAssign):
        for apply in _changes(node):
            yield _Edit(node, statement, scope, apply)
    for name, child in _children(node):
        inner = node.name if name == "body" and isinstance(node, ast.FunctionDef) else scope
        yield from _edits(child, statement, inner)


def _children(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        return  # a negative number, changed as one
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "bases", "type_params"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield name, child


def _left_alone(node: ast.AST) -> bool:
    """Error messages, types, exports and guards against programming errors are not counted."""
    match node:
        case ast.Raise() | ast.Assert() | ast.JoinedStr() | ast.Import() | ast.ImportFrom():
            return True
        case ast.Assign(targets=[ast.Name(id="__all__")]):
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.Assign(value=ast.BinOp(op=ast.BitOr(), left=ast.Name() | ast.Subscript())):
            return True  # a union of types
        case ast.Call(func=ast.Name(id="isinstance" | "issubclass" | "cast" | "TypeVar")):
            return True
        case ast.Call(func=ast.Attribute(attr="warn")):
            return True
        case ast.keyword(arg=str(name)):
            return name in _DEFENSIVE
        case _:
            return False


def _changes(node: ast.expr | ast.AugAssign) -> Iterator[Callable[[], None]]:
    match node:
        case ast.Compare():
            for k, operator in enumerate(node.ops):
                for table in (_COMPARISONS, _TURNED):
                    if type(operator) in table:
                        yield partial(node.ops.__setitem__, k, table[type(operator)]())
        case ast.BinOp() | ast.AugAssign() if type(node.op) in _OPERATORS:
            yield partial(setattr, node, "op", _OPERATORS[type(node.op)]())
        case ast.BoolOp():
            yield partial(setattr, node, "op", ast.Or() if isinstance(node.op, ast.And) else ast.And())
        case ast.UnaryOp(op=ast.USub()):
            yield partial(setattr, node, "op", ast.UAdd())
            if isinstance(node.operand, ast.Constant):
                yield from _constants(node.operand)
        case ast.UnaryOp(op=ast.Not() | ast.Invert()):
            yield partial(setattr, node, "operand", ast.UnaryOp(type(node.op)(), node.operand))
        case ast.Constant():
            yield from _constants(node)
        case ast.Slice():
            yield from _ends(node)
        case ast.Call():
            yield from _calls(node)


def _constants(node: ast.Constant) -> Iterator[Callable[[], None]]:
    value = node.value
    if isinstance(value, bool):
        yield partial(setattr, node, "value", not value)
    elif isinstance(value, int):
        yield partial(setattr, node, "value", value + 1 if value < MANY else 2 * value)
    elif isinstance(value, float):
        # twice a tolerance is hardly a fault, a thousand times is
        yield partial(setattr, node, "value", 1.0 if value == 0.0 else value * (1e3 if value < TINY else 2.0))
    elif value in _WORDS:
        yield partial(setattr, node, "value", _WORDS[value])


def _ends(node: ast.Slice) -> Iterator[Callable[[], None]]:
    """Move the ends of a slice that are not plain numbers by one."""
    for name, step in (("lower", ast.Add()), ("upper", ast.Sub())):
        end = getattr(node, name)
        if end is not None and not isinstance(end, ast.Constant):
            yield partial(setattr, node, name, ast.BinOp(end, step, ast.Constant(1)))


def _calls(node: ast.Call) -> Iterator[Callable[[], None]]:
    function = node.func
    field = "id" if isinstance(function, ast.Name) else "attr"
    name = getattr(function, field, "")
    if name in _OPPOSITES:
        yield partial(setattr, function, field, _OPPOSITES[name])
    if name == "range" and (end := min(len(node.args), 2) - 1) >= 0 and not isinstance(node.args[end], ast.Constant):
        yield partial(node.args.__setitem__, end, ast.BinOp(node.args[end], ast.Sub(), ast.Constant(1)))
    two = node.args[:2]
    if len(two) == 2 and name not in _SYMMETRIC and not any(isinstance(a, ast.Starred) for a in two):
        yield partial(node.args.__setitem__, slice(0, 2), two[::-1])
