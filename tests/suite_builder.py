"""Tests: writes small, valid suite folders, so that a test can break exactly one thing."""

import json
from pathlib import Path
from typing import Any

from suites.load import Suite, load
from suites.manifest import Manifest, read_manifest, write_manifest

BUILD_SQL = """
CREATE TABLE shop (shop_id int PRIMARY KEY, shop_name text NOT NULL);
CREATE TABLE sale (sale_id int PRIMARY KEY, shop_id int REFERENCES shop, sold_on date, sale_amount numeric(8,2));
INSERT INTO shop SELECT i, 'shop ' || i FROM generate_series(1, 4) i;
INSERT INTO sale SELECT i, 1 + i % 4, date '2024-01-01' + i, (i * 37 % 101)::numeric FROM generate_series(1, 200) i;
"""
SCHEMA = (
    "CREATE TABLE shop (shop_id int PRIMARY KEY, shop_name text NOT NULL);\n"
    "CREATE TABLE sale (sale_id int PRIMARY KEY, shop_id int REFERENCES shop, sold_on date,\n"
    "  sale_amount numeric(8,2));\n"
)
MEANINGS = {
    "mart|shop|shop_id": "key of the shop",
    "mart|shop|shop_name": "its name",
    "mart|sale|sale_id": "key of the sale",
    "mart|sale|shop_id": "where it was sold",
    "mart|sale|sold_on": "day of the sale",
    "mart|sale|sale_amount": "amount in euros",
}
KNOWLEDGE = [
    {
        "id": 1,
        "knowledge": "Sale value",
        "description": "What a sale is worth",
        "definition": "The amount in euros",
        "type": "domain_knowledge",
        "children_knowledge": -1,
    },
    {
        "id": 2,
        "knowledge": "Big sale",
        "description": "A sale that counts as big",
        "definition": "A sale whose sale value is over 60",
        "type": "calculation_knowledge",
        "children_knowledge": [1],
    },
]


def task_row(instance_id: str) -> dict[str, Any]:
    """A valid task: big sales per shop; the follow-up counts them."""
    return {
        "instance_id": instance_id,
        "selected_database": "mart",
        "query": "For each shop, the sum of sales over 60 euros since 1 February 2024, largest first.",
        "amb_user_query": "How much do shops make with big sales recently?",
        "user_query_ambiguity": {
            "critical_ambiguity": [
                {
                    "term": "recently",
                    "sql_snippet": "v.sold_on >= DATE '2024-02-01'",
                    "is_mask": False,
                    "type": "intent",
                    "deleted_knowledge": None,
                    "flow": "user_user",
                    "meaning": "since the first of February 2024",
                }
            ],
            "non_critical_ambiguity": [],
        },
        "knowledge_ambiguity": [
            {
                "term": "big sales",
                "sql_snippet": "v.sale_amount > 60",
                "is_mask": True,
                "type": "knowledge",
                "deleted_knowledge": 2,
                "flow": "user_user",
                "meaning": "sales of more than sixty euros",
            }
        ],
        "environmental_ambiguity": [],
        "preprocess_sql": [],
        "clean_up_sqls": [],
        "sol_sql": [
            "SELECT s.shop_name, SUM(v.sale_amount) AS big_total FROM shop AS s "
            "JOIN sale AS v ON v.shop_id = s.shop_id WHERE v.sale_amount > 60 "
            "AND v.sold_on >= DATE '2024-02-01' GROUP BY s.shop_name ORDER BY big_total DESC"
        ],
        "test_cases": [],
        "external_knowledge": [2],
        "conditions": {"decimal": 2, "distinct": False, "order": True},
        "category": "Query",
        "high_level": True,
        "difficulty_tier": "Simple",
        "post_conditions": [],
        "follow_up": {
            "query": "And how many such sales were there?",
            "sol_sql": ["SELECT COUNT(*) FROM sale WHERE sale_amount > 60 AND sold_on >= DATE '2024-02-01'"],
            "test_cases": [],
            "external_knowledge": [2],
            "conditions": {"decimal": -1, "distinct": False, "order": False},
            "type": "aggregation",
            "category": "Query",
            "difficulty_tier": "Simple",
            "post_conditions": [],
        },
    }


_SPLIT = {"AMB": "data_labeled.jsonl", "LOC": "data_unlabeled.jsonl", "UNA": "data_unanswerable.jsonl"}
_REFERENCE: dict[str, dict[str, Any]] = {
    "AMB": {
        "ambiguity": "recently",
        "answer": "Everything since the first of February 2024.",
        "facts": [{"text": "since 1 February 2024", "any_of": ["february"], "none_of": ["january"]}],
    },
    "LOC": {
        "fragment": "ORDER BY big_total DESC",
        "answer": "The shop with the largest total comes first.",
        "facts": [{"text": "largest first", "any_of": ["largest|highest|biggest first|top"], "none_of": ["smallest"]}],
    },
    "UNA": {"asks_for": "the name of the column with the amounts", "sub_kind": "table_or_column_names"},
}
_ASK = {
    "AMB": "How far back does recently go",
    "LOC": "In which order shall the shops be listed",
    "UNA": "Where exactly are the amounts kept, by name",
}


def question_row(kind: str, instance_id: str, question_id: str, style: str) -> dict[str, Any]:
    """A valid question of a kind."""
    return {
        "instance_id": instance_id,
        "selected_database": "mart",
        "question_id": question_id,
        "question_type": style,
        "clarification_question": f"{_ASK[kind]}? ({instance_id}, {question_id}, {style})",
        "label": kind,
        "stratum": "core",
        "reference": _REFERENCE[kind],
    }


def write_suite(root: Path, *, tasks: int = 2, points: int = 1) -> Path:
    """Write a suite of `tasks` tasks with `points` points per kind and task, three styles each; returns its folder."""
    folder = root / "mart"
    folder.mkdir(parents=True)
    (folder / "mart_build.sql").write_text(BUILD_SQL)
    (folder / "mart_schema.txt").write_text(SCHEMA)
    (folder / "mart_column_meaning_base.json").write_text(json.dumps(MEANINGS))
    write_jsonl(folder / "mart_kb.jsonl", KNOWLEDGE)
    ids = [f"mart_{number}" for number in range(1, tasks + 1)]
    write_jsonl(root / "bird_interact_data.jsonl", [task_row(i) for i in ids])
    for kind, name in _SPLIT.items():
        rows = [
            question_row(kind, i, f"q{point}", style)
            for i in ids
            for point in range(1, points + 1)
            for style in ("concise", "normal", "verbose")
        ]
        write_jsonl(root / name, rows)
    (root / "manifest.toml").write_text(
        'format = "usersim-guard/suite/1"\nname = "mart"\nversion = "1"\nlicence = "CC-BY-4.0"\n[files]\n[counts]\n'
    )
    seal(root)
    return root


def seal(root: Path) -> None:
    """Rewrite the manifest."""
    suite = load(root, verify_manifest=False)
    manifest: Manifest = read_manifest(root)
    write_manifest(root, manifest, suite.tasks, suite.questions)


def small_suite(root: Path, *, tasks: int = 2, points: int = 1) -> Suite:
    """Write and load."""
    return load(write_suite(root, tasks=tasks, points=points))


def write_jsonl(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def read_jsonl(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
