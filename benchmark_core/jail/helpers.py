"""Benchmark core: what test cases of the public data call: its helper functions, and a driver that asks the other side.

Names and behaviour as in bird-bench/BIRD-Interact at 451fe2c. Made anew for every test.
"""

import sys
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

from benchmark_core.grading.official_text import default_edits, remove_comments, remove_distinct, remove_round
from benchmark_core.grading.official_values import preprocess_results, process_decimals

Ask = Callable[[Any], Any]


class Failure(Exception):
    """The other side gave no answer."""


def namespace(ask: Ask, job: dict[str, Any]) -> dict[str, Any]:
    """The global names of a test."""
    driver = _driver()

    def execute_queries(queries: Any, db_name: Any = None, conn: Any = None, *_: Any, **__: Any) -> tuple[Any, ...]:
        answer = _execute(ask, queries)
        return answer["rows"], answer["error"], answer["timeout"]

    def perform_query(query: Any, db_name: Any = None, conn: Any = None) -> tuple[Any, Any]:
        answer = _execute(ask, query)
        _raise(driver, answer)
        return answer["rows"], conn

    def ex_base(pred_sqls: Any, sol_sqls: Any, db_name: Any = None, conn: Any = None, conditions: Any = None) -> int:
        order = bool((conditions or {}).get("order"))
        question = {"kind": "ex_base", "pred": _texts(pred_sqls), "sol": _texts(sol_sqls), "order": order}
        return int(ask(question)["same"])

    def test_case_default(pred: Any, sol: Any, db_name: Any = None, conn: Any = None, conditions: Any = None) -> int:
        same = ex_base(default_edits(_texts(pred)), default_edits(_texts(sol)), db_name, conn, conditions)
        assert same == 1, "the results differ"
        return same

    return {
        "__name__": "test_case",
        "execute_queries": execute_queries,
        "perform_query": perform_query,
        "perform_query_on_postgresql_databases": perform_query,
        "ex_base": ex_base,
        "test_case_default": test_case_default,
        "remove_comments": remove_comments,
        "remove_distinct": remove_distinct,
        "remove_round": remove_round,
        "remove_round_functions": lambda text: remove_round([text])[0],
        "preprocess_results": preprocess_results,
        "process_decimals": process_decimals,
        "process_decimals_recursive": process_decimals,
        "check_sql_function_usage": check_sql_function_usage,
        "pred_query_result": job["pred_query_result"],
        "psycopg2": driver,
        "conn": Connection(ask, driver),
    }


def check_sql_function_usage(sqls: Iterable[str] | None, required_keywords: Iterable[str]) -> int:
    """1 when every keyword occurs in the statements, in whatever case; else 0."""
    text = " ".join(sqls or ()).lower()
    return int(bool(text) and all(keyword.lower() in text for keyword in required_keywords))


class Connection:
    """A connection as far as tests use one. Every statement stands for itself: there is nothing to commit."""

    autocommit = True

    def __init__(self, ask: Ask, driver: Any) -> None:
        self._ask, self._driver = ask, driver

    def cursor(self, *_: Any, **__: Any) -> "Cursor":
        return Cursor(self._ask, self._driver)

    def commit(self) -> None:
        """Nothing."""

    rollback = close = reset = commit


class Cursor:
    """A cursor over the last statement's result."""

    def __init__(self, ask: Ask, driver: Any) -> None:
        self._ask, self._driver = ask, driver
        self._rows: list[Any] | None = None
        self.description: list[tuple[Any, ...]] | None = None

    def __enter__(self) -> "Cursor":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> "Cursor":
        return self

    def __next__(self) -> Any:
        if (row := self.fetchone()) is None:
            raise StopIteration
        return row

    @property
    def rowcount(self) -> int:
        return -1 if self._rows is None else len(self._rows)

    def execute(self, query: str, parameters: Any = None) -> None:
        if parameters:
            raise self._driver.NotSupportedError("tests pass no parameters")
        answer = _execute(self._ask, query)
        _raise(self._driver, answer)
        self._rows = None if answer["rows"] is None else list(answer["rows"])
        self.description = [(name, None, None, None, None, None, None) for name in answer["columns"]] or None

    def fetchone(self) -> Any:
        rows = self.fetchmany(1)
        return rows[0] if rows else None

    def fetchmany(self, size: int = 1) -> list[Any]:
        if self._rows is None:
            raise self._driver.ProgrammingError("no results to fetch")
        found, self._rows = self._rows[:size], self._rows[size:]
        return found

    def fetchall(self) -> list[Any]:
        return self.fetchmany(sys.maxsize)

    def close(self) -> None:
        """Nothing."""


def _execute(ask: Ask, queries: Any) -> dict[str, Any]:
    answer = ask({"kind": "sql", "queries": _texts(queries)})
    if not isinstance(answer, dict):
        raise Failure("no answer")
    return answer


def _texts(queries: Any) -> list[str]:
    found = [queries] if isinstance(queries, str) else list(queries or ())
    return [query for query in found if isinstance(query, str)]


def _raise(driver: Any, answer: dict[str, Any]) -> None:
    if answer["timeout"]:
        raise driver.errors.QueryCanceled("canceling statement due to statement timeout")
    if answer["error"] is not None:
        raise driver.DatabaseError(answer["error"])


def _driver() -> Any:
    """A module that stands for psycopg2: the exceptions that tests catch."""
    module, errors = ModuleType("psycopg2"), ModuleType("psycopg2.errors")
    made: dict[str, type[Exception]] = {"Error": type("Error", (Exception,), {})}
    made["DatabaseError"] = type("DatabaseError", (made["Error"],), {})
    for name in "Operational Programming Integrity Data Internal NotSupported".split():
        made[f"{name}Error"] = type(f"{name}Error", (made["DatabaseError"],), {})
    for name, exception in made.items():
        setattr(module, name, exception)
    errors.QueryCanceled = type("QueryCanceled", (made["OperationalError"],), {})  # type: ignore[attr-defined]
    for name in "UniqueViolation ForeignKeyViolation NotNullViolation CheckViolation".split():
        setattr(errors, name, type(name, (made["IntegrityError"],), {}))
    module.errors = errors  # type: ignore[attr-defined]
    sys.modules.update({"psycopg2": module, "psycopg2.errors": errors})
    return module
