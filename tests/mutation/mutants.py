"""What may be wrong in a module, one thing at a time: its mutants.

Rule: a mutant changes logic and nothing else. What would only change a type (`X | None`), a text or a decorator is
left out, and so is what another mutant of the same line says already.

The changes themselves are cosmic-ray's; nothing is written to disk, so a run that is killed leaves nothing behind.
"""

from __future__ import annotations

import ast
import random
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator

ROOT = Path(__file__).resolve().parents[2]

COMPARISONS = (
    "Eq_NotEq", "NotEq_Eq", "Is_IsNot", "IsNot_Is", "Lt_LtE", "Lt_GtE", "LtE_Lt", "LtE_Gt", "Gt_GtE", "Gt_LtE",
    "GtE_Gt", "GtE_Lt",
)  # fmt: skip
ARITHMETIC = ("Add_Sub", "Sub_Add", "Mul_FloorDiv", "FloorDiv_Mul")
ADD_NOT, NUMBER = "core/AddNot", "core/NumberReplacer"
OPERATORS = (
    *(f"core/ReplaceComparisonOperator_{each}" for each in COMPARISONS),
    *(f"core/ReplaceBinaryOperator_{each}" for each in ARITHMETIC),
    "core/ReplaceUnaryOperator_Delete_Not", ADD_NOT, "core/ReplaceTrueWithFalse", "core/ReplaceFalseWithTrue",
    "core/ReplaceAndWithOr", "core/ReplaceOrWithAnd", "core/ReplaceBreakWithContinue",
    "core/ReplaceContinueWithBreak", NUMBER, "core/ZeroIterationForLoop",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change of one module: the `occurrence`th place where the operator can be applied."""

    module: str
    line: int
    operator: str
    occurrence: int

    def source(self) -> str:
        """Of the module with this change in it."""
        changed = mutate_code(text(self.module), get_operator(self.operator)(), self.occurrence)
        assert changed is not None, self
        return changed

    def __str__(self) -> str:
        """Where it is, and both lines."""
        was, now = text(self.module).splitlines(), self.source().splitlines()
        at = next((n for n, (a, b) in enumerate(zip(was, now, strict=False)) if a != b), self.line - 1)
        return f"{path(self.module)}:{at + 1}  {was[at].strip()}  →  {now[at].strip()}"


def path(module: str) -> str:
    return f"broker/{module.replace('.', '/')}.py"


@cache
def text(module: str) -> str:
    return (ROOT / path(module)).read_text()


def mutants(module: str) -> list[Mutant]:
    """All of them, in the order of the file."""
    nodes, logic, found = list(ast_nodes(get_ast(text(module)))), _logic(text(module)), []
    for name in OPERATORS:
        operator = get_operator(name)()
        starts = [start for node in nodes for start, _ in operator.mutation_positions(node)]
        found += [Mutant(module, line, name, n) for n, (line, _) in enumerate(starts) if line in logic]
    compared = {mutant.line for mutant in found if "Comparison" in mutant.operator}
    found = [
        mutant
        for mutant in found
        if not (mutant.operator == ADD_NOT and mutant.line in compared)  # it turns the comparison round
        and not (mutant.operator == NUMBER and mutant.occurrence % 2)  # one more, or one less: one is enough
    ]
    return sorted(found, key=lambda mutant: (mutant.line, mutant.operator, mutant.occurrence))


def some(module: str, most: int, seed: int) -> list[Mutant]:
    """At most so many, drawn alike for the same seed and the same file."""
    every = mutants(module)
    return every if len(every) <= most else random.Random(f"{seed} {module}").sample(every, most)


def _logic(source: str) -> set[int]:
    """Lines inside of functions; a constant's value is a choice, and a test that repeats it proves nothing."""
    return {
        line
        for function in ast.walk(ast.parse(source))
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef))
        for statement in function.body
        for line in range(statement.lineno, (statement.end_lineno or statement.lineno) + 1)
    }
