"""Tests: writes small synthetic downloads in the official file layout. Every word of their content is invented here."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from suite_builder import KNOWLEDGE, MEANINGS, SCHEMA, read_jsonl, write_jsonl

Row = dict[str, Any]

TASKS = "bird_interact_data.jsonl"
AMB, LOC, UNA = "data_labeled.jsonl", "data_unlabeled.jsonl", "data_unanswerable.jsonl"
GOLD_SQL = "SELECT shop_name FROM shop WHERE sale_amount > 60"
GOLD_FIELDS: Row = {"sol_sql": [GOLD_SQL], "external_knowledge": [2], "test_cases": ["def test(): assert True"]}
SECOND_GOLD: Row = {"sol_sql": ["SELECT 2"], "external_knowledge": [], "test_cases": []}
_ASK = {
    AMB: "How far back does recently go",
    LOC: "In which order shall they be listed",
    UNA: "What is the primary key",
}


def task_row(instance_id: str, database: str = "mart", category: str = "Query") -> Row:
    """A public task row: gold empty, none of our own fields."""
    return {
        "selected_database": database,
        "instance_id": instance_id,
        "query": "The sum of sales over 60 euros since 1 February 2024, by shop.",
        "amb_user_query": "How much do shops make with big sales recently?",
        "user_query_ambiguity": {
            "critical_ambiguity": [
                {"term": "recently", "sql_snippet": "sold_on >= '2024-02-01'", "is_mask": False, "type": "intent"}
            ],
            "non_critical_ambiguity": [
                {"term": "order", "sql_snippet": "ORDER BY 2", "is_mask": False, "type": "sort"}
            ],
        },
        "knowledge_ambiguity": [
            {"term": "big", "sql_snippet": "> 60", "is_mask": True, "type": "knowledge", "deleted_knowledge": 2}
        ],
        "preprocess_sql": [],
        "clean_up_sqls": [],
        "sol_sql": [],
        "test_cases": [],
        "external_knowledge": [],
        "category": category,
        "high_level": True,
        "difficulty_tier": "Simple",
        "conditions": {"decimal": 2, "distinct": False, "order": True},
        "follow_up": {
            "query": "And how many of them?",
            "sol_sql": [],
            "test_cases": [],
            "external_knowledge": [],
            "type": "aggregation",
            "category": "Query",
            "difficulty_tier": "Simple",
        },
    }


def question_row(
    file: str, instance_id: str, number: int | str = 1, style: str = "normal", database: str = "mart"
) -> Row:
    """A question row: the five published fields and no other."""
    return {
        "instance_id": instance_id,
        "selected_database": database,
        "question_id": number,
        "question_type": style,
        "clarification_question": f"{_ASK[file]}? ({instance_id}, {number}, {style})",
    }


def gold_row(instance_id: str) -> Row:
    """A row of the gold file."""
    return {"instance_id": instance_id, **GOLD_FIELDS, "follow_up": dict(SECOND_GOLD)}


def write_questions(folder: Path, instance_ids: Iterable[str], *, database: str = "mart", una_file: str = UNA) -> Path:
    """One point in three styles for each id and kind; returns the folder."""
    folder.mkdir(parents=True)
    ids = list(instance_ids)
    for file in (AMB, LOC, UNA):
        rows = [
            question_row(file, i, f"question_{1}", style, database)
            for i in ids
            for style in ("normal", "verbose", "concise")
        ]
        write_jsonl(folder / (una_file if file == UNA else file), rows)
    return folder


def write_database(folder: Path, name: str = "mart") -> None:
    """Schema, column meanings (keys in mixed case) and knowledge base of one database."""
    place = folder / name
    place.mkdir(parents=True)
    (place / f"{name}_schema.txt").write_text(SCHEMA, encoding="utf-8")
    meanings: Row = {
        key.replace("mart|shop", f"{name}|Shop").replace("mart|", f"{name}|"): m for key, m in MEANINGS.items()
    }
    meanings[f"{name}|sale|details"] = {"column_meaning": "more", "fields_meaning": {"colour": "of the wrapping"}}
    (place / f"{name}_column_meaning_base.json").write_text(json.dumps(meanings), encoding="utf-8")
    write_jsonl(place / f"{name}_kb.jsonl", [dict(entry) for entry in KNOWLEDGE])


def write_tasks(folder: Path, instance_ids: Iterable[str], *, databases: str = "") -> Path:
    """Public tasks of the database `mart`, described below the subfolder `databases`; returns the folder."""
    folder.mkdir(parents=True)
    write_jsonl(folder / TASKS, [task_row(i, category="Management" if "_M_" in i else "Query") for i in instance_ids])
    write_database(folder / databases)
    return folder


def write_gold(path: Path, instance_ids: Iterable[str]) -> Path:
    """A gold file; returns its path."""
    write_jsonl(path, [gold_row(i) for i in instance_ids])
    return path


def edit(path: Path, line: int, **changes: Any) -> None:
    """Change fields of one line (from 1); a change to `...` removes the field."""
    rows = read_jsonl(path)
    row = rows[line - 1] | changes
    rows[line - 1] = {name: value for name, value in row.items() if value is not ...}
    write_jsonl(path, rows)


def write_real_size(root: Path) -> tuple[Path, Path, Path]:
    """Questions, tasks and gold of the published sizes: 700 questions a kind, 300 tasks, 18 databases."""
    names = [f"base_{n:02d}" for n in range(18)]
    ids = {f"{names[n % 18]}_{n}": names[n % 18] for n in range(300)}
    questions, tasks = root / "questions", root / "tasks"
    questions.mkdir(parents=True)
    tasks.mkdir()
    for file in (AMB, LOC, UNA):
        keys = [(i, q, s) for q in (1, 2) for i in ids for s in ("normal", "verbose", "concise")][:700]
        write_jsonl(questions / file, [question_row(file, i, q, s, ids[i]) for i, q, s in keys])
    write_jsonl(tasks / TASKS, [task_row(i, name) for i, name in ids.items()])
    for name in names:
        write_database(tasks / "databases", name)
    return questions, tasks, write_gold(root / "gold.jsonl", ids)
