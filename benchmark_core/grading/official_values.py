"""Benchmark core: the value normaliser of the public default test case, faults included. Standard library only.

Dates and timestamps become their day, numbers get two decimals (`numeric` half up, `float` as Python rounds), lists and
objects become JSON text. It raises where the public code does (an infinite `numeric`, more than 28 digits, a
`numeric` or a date inside a list): the public grader takes that for a wrong answer. As in bird-bench/BIRD-Interact at
451fe2c; never used by `strict`.
"""

import json
from collections.abc import Sequence
from datetime import date
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

NORMALISER_ERRORS = (ArithmeticError, TypeError, ValueError)
"""What `preprocess_results` raises on values that the public code cannot handle."""


def process_decimals(item: Any, decimal_places: int) -> Any:
    """Round every number in `item`, at any depth.

    Raises:
        decimal.InvalidOperation: for an infinite `numeric`, or one that needs more than 28 digits.
    """
    match item:
        case Decimal():
            return item.quantize(Decimal(1).scaleb(-decimal_places), rounding=ROUND_HALF_UP)
        case float():
            return round(item, decimal_places)
        case list() | tuple():
            return type(item)(process_decimals(part, decimal_places) for part in item)
        case dict():
            return {key: process_decimals(part, decimal_places) for key, part in item.items()}
        case _:
            return item


def preprocess_results(results: Sequence[Sequence[Any]] | None, decimal_places: int = 2) -> list[tuple[Any, ...]]:
    """Normalise rows; None gives no rows.

    Raises:
        ArithmeticError, TypeError, ValueError: as the public code does.
    """
    return [tuple(_cell(item, decimal_places) for item in row) for row in results or ()]


def _cell(item: Any, decimal_places: int) -> Any:
    if isinstance(item, date):
        return item.strftime("%Y-%m-%d")
    rounded = process_decimals(item, decimal_places)
    return json.dumps(rounded, sort_keys=True) if isinstance(rounded, dict | list) else rounded


def same_rows(got: list[tuple[Any, ...]], expected: list[tuple[Any, ...]], *, order: bool) -> bool:
    """How the public code compares normalised rows: as sets, or as lists; a side without rows equals nothing."""
    if not got or not expected:
        return False
    return got == expected if order else set(got) == set(expected)
