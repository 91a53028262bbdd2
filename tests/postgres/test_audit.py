"""Tests of the gold audit: a sound suite has no finding, and each kind of fault is found where it is."""

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from benchmark_core.errors import ServerError
from benchmark_core.jail import jail as jails
from benchmark_core.postgres.server import Server, external
from benchmark_core.postgres.templates import purge
from guard.audit import AuditReport, audit_gold
from guard.audit_static import NOTES, Code, Finding, schema_columns
from suites.questions import (
    AmbReference,
    Kind,
    LocReference,
    Question,
    QuestionKey,
    Reference,
    Stratum,
    Style,
    UnaReference,
    UnaSubKind,
)
from suites.tasks import (
    Ambiguity,
    Brief,
    Category,
    Conditions,
    Database,
    Flow,
    KnowledgeEntry,
    Level,
    Oracle,
    PostCondition,
    SubTask,
    Task,
)

SCHEMA = """CREATE TABLE shop (
    shop_id integer PRIMARY KEY, -- the key, (really)
    "Shop Name" text NOT NULL DEFAULT 'a, (b)',
    CONSTRAINT named UNIQUE ("Shop Name")
);
CREATE TABLE IF NOT EXISTS public.sale (sale_id int, shop_id int REFERENCES shop (shop_id), amount numeric(8,2) CHECK
    (amount > 0), PRIMARY KEY (sale_id, shop_id));"""
BUILD = f"""{SCHEMA}
INSERT INTO shop SELECT i, 'shop ' || i FROM generate_series(1, 3) i;
INSERT INTO sale SELECT i, 1 + i % 3, 1 + i FROM generate_series(1, 30) i;
CREATE VIEW big AS SELECT * FROM sale WHERE amount > 20;"""
COLUMNS = ("shop|shop_id", "shop|shop name", "sale|sale_id", "sale|shop_id", "sale|amount")


def entry(number: int, *children: int) -> KnowledgeEntry:
    return KnowledgeEntry(number, f"k{number}", "what", "how", "domain_knowledge", children)


def make_database(name: str = "mart") -> Database:
    meanings = {f"{name}|{column}": "what it means" for column in COLUMNS}
    return Database(name, f"{BUILD}\nCOMMENT ON TABLE shop IS '{name}';", SCHEMA, meanings, (entry(1), entry(2, 1)))


SUM = "SELECT shop_id, sum(amount) FROM sale WHERE amount > 20 GROUP BY shop_id ORDER BY 2 DESC"
QUERY = SubTask("Sums of big sales.", (SUM,), Category.QUERY, "Simple")
COUNT = SubTask("How many?", ("SELECT count(*) FROM sale",), Category.QUERY, "Simple")
MAKE = SubTask(
    "Keep the big ones.",
    ("CREATE TABLE kept AS SELECT * FROM sale WHERE amount > 20", "CREATE INDEX CONCURRENTLY ON kept (amount)"),
    Category.MANAGEMENT,
    "Moderate",
    post_conditions=(
        PostCondition("SELECT count(*), sum(amount) FROM kept", ((11, 286.0),)),
        PostCondition("SELECT count(*) FROM sale", ((30,),)),  # holds before, too: the rest is untouched
    ),
)
TRIM = SubTask(
    "Drop the smallest.",
    ("DELETE FROM kept WHERE amount = 21",),
    Category.MANAGEMENT,
    "Simple",
    post_conditions=(PostCondition("SELECT count(*) FROM kept", ((10,),)),),
)


def make_task(first: SubTask, follow_up: SubTask, number: int = 1, database: str = "mart") -> Task:
    instance = f"{database}_{number}"
    snippet = "amount  >\n20"
    ambiguity = Ambiguity("big", snippet, "more than 20", Level.CRITICAL, "intent", Flow.USER_USER)
    brief = Brief(instance, database, "big ones?", SCHEMA, {}, ())
    return Task(brief, Oracle(instance, database, "big ones?", first, follow_up, (ambiguity,), SCHEMA))


def make_question(reference: Reference, instance: str = "mart_1", number: int = 1) -> Question:
    kind = {AmbReference: Kind.AMB, LocReference: Kind.LOC, UnaReference: Kind.UNA}[type(reference)]
    key = QuestionKey(instance, f"q{number}", Style.NORMAL, kind)
    return Question(key, "mart", Stratum.CORE, "What does big mean?", reference)


QUESTIONS = (
    make_question(AmbReference("big", "more than 20", ())),
    make_question(LocReference("order by 2 DESC", "largest first", ())),
    make_question(UnaReference("the table", UnaSubKind.TABLE_OR_COLUMN_NAMES)),
)


def audit(
    server: Server,
    tasks: Sequence[Task],
    *,
    databases: Sequence[Database] = (),
    questions: Sequence[Question] = (),
    deadline_s: float = 20.0,
) -> AuditReport:
    found = {database.name: database for database in databases or (make_database(),)}
    return asyncio.run(audit_gold(found, tasks, questions, server, deadline_s=deadline_s))


def with_oracle(change: Callable[[Oracle], Oracle], first: SubTask = QUERY, follow_up: SubTask = COUNT) -> Task:
    task = make_task(first, follow_up)
    return replace(task, oracle=change(task.oracle))


def only(report: AuditReport) -> Finding:
    assert len(report.findings) == 1, report.findings
    return report.findings[0]


def test_a_sound_suite_has_no_finding_and_takes_seconds(server: Server) -> None:
    databases = [make_database("mart"), make_database("depot")]
    pairs = [(QUERY, COUNT), (MAKE, TRIM)]
    tasks = [make_task(*pairs[i % 2], i, database.name) for database in databases for i in range(1, 8)]
    begin = time.monotonic()
    report = audit(server, tasks, databases=databases, questions=())
    took = time.monotonic() - begin
    assert report.findings == () and report.ungradable == frozenset()
    assert (report.databases, report.tasks) == (2, 14)
    assert took < 10


def test_a_server_given_by_dsn_serves(debian: str) -> None:
    server = external(debian)
    report = audit(server, [make_task(QUERY, COUNT), make_task(MAKE, TRIM, 2)], questions=QUESTIONS)
    assert report.findings == () and report.broken_questions == ()
    asyncio.run(purge(server))


def test_sound_questions_have_no_finding(server: Server) -> None:
    report = audit(server, [make_task(QUERY, COUNT)], questions=QUESTIONS)
    assert report.findings == () and report.broken_questions == ()


@pytest.mark.fault("D46")
def test_set_up_runs_first_and_the_follow_up_sees_what_sub_task_1_made(server: Server) -> None:
    set_up = ("CREATE TABLE aside (x int)", "INSERT INTO aside VALUES (1)")
    first = replace(
        MAKE, sol_sql=("CREATE TABLE kept AS SELECT * FROM sale WHERE amount > 20 AND EXISTS (TABLE aside)",)
    )
    clean_up = ("DROP TABLE aside", "DROP TABLE kept")
    task = with_oracle(lambda o: replace(o, preprocess_sql=set_up, clean_up_sqls=clean_up), first, TRIM)
    assert audit(server, [task]).findings == ()


def query(*statements: str) -> SubTask:
    return replace(QUERY, sol_sql=(*statements, SUM))


def ends(*statements: str) -> Task:
    return make_task(QUERY, replace(COUNT, sol_sql=statements))


def checked(sql: str, *rows: tuple[int, ...]) -> Task:
    return make_task(replace(MAKE, post_conditions=(PostCondition(sql, rows),)), COUNT)


def after(**changes: object) -> Task:
    return with_oracle(lambda oracle: replace(oracle, **changes))  # type: ignore[arg-type]


UNCOMMITTED = replace(MAKE, sol_sql=("BEGIN", MAKE.sol_sql[0]))
ONE_OF_THREE = replace(MAKE, post_conditions=(*MAKE.post_conditions, PostCondition("SELECT 1", ((2,),))))
IDLE = replace(TRIM, post_conditions=MAKE.post_conditions[1:])
SHORT = replace(make_task(QUERY, COUNT).oracle.ambiguities[0], sql_snippet="amount > 2")
TESTED = replace(MAKE, post_conditions=(), test_cases=("def test_case(p, s, d, c): {}",))


def by_test(statement: str) -> Task:
    return make_task(replace(TESTED, test_cases=(TESTED.test_cases[0].format(statement),)), COUNT)


BROKEN: dict[str, tuple[Task, Code, int | None, str]] = {
    "tests of nothing": (by_test("pass"), Code.ACCEPTS_EVERYTHING, 1, "pass an empty submission"),
    "tests of the impossible": (by_test("assert False, 4711"), Code.NEVER_PASSES, 1, "gold_error"),
    "as stored": (ends("SELECT array_agg(sale_id) FROM sale"), Code.ORDER_DEPENDENT, 2, "stored in another order"),
    "trailing comma": (make_task(query("SELECT a, FROM sale"), COUNT), Code.SOLUTION_FAILED, 1, "42601"),
    "follow-up": (ends("TABLE gone"), Code.SOLUTION_FAILED, 2, "42P01"),
    "ended": (
        make_task(query("SELECT pg_terminate_backend(pg_backend_pid())"), COUNT),
        Code.SOLUTION_FAILED,
        1,
        "08006",
    ),
    "slow": (make_task(query("SELECT pg_sleep(60)"), COUNT), Code.SOLUTION_TIMEOUT, 1, "stopped after"),
    "no rows": (ends("SELECT 1", "SELECT 2 WHERE false"), Code.NO_ROWS, 2, "no row"),
    "no result": (ends("SELECT 1", "CREATE TABLE x ()"), Code.NO_ROWS, 2, "no row"),
    "no solution": (ends(), Code.NO_ROWS, 2, "no row"),
    "undecided": (make_task(QUERY, replace(TRIM, post_conditions=())), Code.NO_POST_CONDITION, 2, "decides"),
    "wrong rows": (checked("SELECT count(*) FROM kept", (12,)), Code.POST_CONDITION_FAILED, 1, "1 rows expected, 1"),
    "one of three": (make_task(ONE_OF_THREE, COUNT), Code.POST_CONDITION_FAILED, 1, "post-condition 3"),
    "bad check": (checked("SELECT a, FROM kept", (1,)), Code.POST_CONDITION_FAILED, 1, "syntax"),
    "writing check": (checked("DELETE FROM sale RETURNING 1"), Code.POST_CONDITION_FAILED, 1, "read-only"),
    "uncommitted": (make_task(UNCOMMITTED, COUNT), Code.POST_CONDITION_FAILED, 1, "does not exist"),
    "holds before": (make_task(MAKE, IDLE), Code.HOLDS_BEFORE, 2, "before"),
    "set-up": (after(preprocess_sql=("TABLE gone",)), Code.PREPROCESS_FAILED, None, "42P01"),
    "clean-up": (after(clean_up_sqls=("DROP TABLE gone",)), Code.CLEAN_UP_FAILED, None, "42P01"),
    "no database": (make_task(QUERY, COUNT, database="elsewhere"), Code.DATABASE_UNAVAILABLE, None, "not built"),
    "snippet": (after(ambiguities=(SHORT,)), Code.SNIPPET_NOT_IN_SQL, 1, "'big'"),
}


@pytest.mark.fault("D37")
@pytest.mark.parametrize(("task", "code", "sub_task", "message"), BROKEN.values(), ids=BROKEN)
def test_each_fault_of_a_task_is_found(
    server: Server, task: Task, code: Code, sub_task: int | None, message: str
) -> None:
    sound = make_task(MAKE, TRIM, 2)
    report = audit(server, [task, sound], deadline_s=2.0)
    finding = only(report)
    assert (finding.instance_id, finding.code, finding.sub_task) == (task.instance_id, code, sub_task)
    assert message in finding.message
    assert report.ungradable == {task.instance_id}


def mart(**changes: object) -> Database:
    return replace(make_database(), **changes)  # type: ignore[arg-type]


MEANINGS = make_database().column_meanings
FEWER = {key: text for key, text in MEANINGS.items() if key != "mart|sale|amount"}
CYCLE = (entry(1, 2), entry(2, 3), entry(3, 1))
FAULTY: dict[str, tuple[Database, Code, str]] = {
    "meaning missing": (mart(column_meanings=FEWER), Code.COLUMN_WITHOUT_MEANING, "sale.amount"),
    "column missing": (mart(column_meanings={**MEANINGS, "mart|sale|x": "?"}), Code.MEANING_WITHOUT_COLUMN, "sale.x"),
    "schema lacks": (
        mart(schema=SCHEMA.replace("sale_id int,", "")),
        Code.SCHEMA_DIFFERS,
        "sale_id stands only in the b",
    ),
    "schema adds": (
        mart(schema=SCHEMA + "CREATE TABLE t (y int)"),
        Code.SCHEMA_DIFFERS,
        "t.y stands only in the schema",
    ),
    "cycle": (mart(knowledge=CYCLE), Code.KNOWLEDGE_NOT_A_DAG, "each other"),
    "itself": (mart(knowledge=(entry(1, 1),)), Code.KNOWLEDGE_NOT_A_DAG, "each other"),
    "unknown entry": (mart(knowledge=(entry(1, 7),)), Code.KNOWLEDGE_NOT_A_DAG, "[7]"),
}


@pytest.mark.fault("D45")
@pytest.mark.parametrize(("database", "code", "message"), FAULTY.values(), ids=FAULTY)
def test_each_fault_of_a_database_is_found(server: Server, database: Database, code: Code, message: str) -> None:
    report = audit(server, [make_task(QUERY, COUNT)], databases=[database])
    finding = only(report)
    assert (finding.instance_id, finding.database, finding.code) == (None, "mart", code)
    assert message in finding.message
    assert report.ungradable == frozenset()


def test_a_database_that_is_not_built_makes_its_tasks_ungradable(server: Server) -> None:
    broken = replace(make_database("depot"), build_sql="CREATE TABLE half (x int); SELECT 1/0")
    tasks = [make_task(QUERY, COUNT), make_task(QUERY, COUNT, 1, "depot"), make_task(MAKE, TRIM, 2, "depot")]
    report = audit(server, tasks, databases=[make_database(), broken])
    assert [(f.instance_id, f.code) for f in report.findings] == [
        (None, Code.BUILD_FAILED),
        ("depot_1", Code.DATABASE_UNAVAILABLE),
        ("depot_2", Code.DATABASE_UNAVAILABLE),
    ]
    assert report.ungradable == {"depot_1", "depot_2"}


def test_each_fault_of_a_question_is_found_and_leaves_its_task_gradable(server: Server) -> None:
    bad_task = make_task(QUERY, COUNT, 2)
    bad_task = replace(bad_task, oracle=replace(bad_task.oracle, ambiguities=(SHORT,)))
    questions = [
        make_question(LocReference("ORDER BY 1", "", ()), number=1),
        make_question(LocReference("amount > 2", "", ()), number=2),
        make_question(AmbReference("small", "", ()), number=3),
        make_question(AmbReference("big", "", ()), "mart_2", number=4),
        make_question(LocReference("ORDER BY 2", "", ()), "mart_9", number=5),
        *QUESTIONS,
    ]
    report = audit(server, [make_task(QUERY, COUNT), bad_task], questions=questions)
    assert [(broken.key.question_id, broken.code) for broken in report.broken_questions] == [
        ("q1", Code.FRAGMENT_NOT_IN_SQL),
        ("q2", Code.FRAGMENT_NOT_IN_SQL),
        ("q3", Code.UNKNOWN_REFERENCE),
        ("q4", Code.SNIPPET_NOT_IN_SQL),
        ("q5", Code.UNKNOWN_REFERENCE),
    ]
    assert report.ungradable == {"mart_2"}


def test_what_needs_a_newer_server_is_said_and_gradable(server: Server) -> None:
    report = audit(server, [ends("SELECT any_value(shop_id ORDER BY shop_id) FROM sale")])
    finding = only(report)
    assert (finding.code, finding.sub_task) == (Code.NEEDS_NEWER, 2)
    assert finding.message == "the function any_value needs PostgreSQL 16"
    assert report.faults == ()


@pytest.mark.fault("D38")
def test_a_reference_that_only_official_fails_is_said_and_gradable(server: Server) -> None:
    report = audit(server, [ends("SELECT DISTINCT ON (shop_id) shop_id FROM sale ORDER BY 1")])
    finding = only(report)
    assert (finding.code, finding.sub_task) == (Code.REGIMES_DIFFER, 2)
    assert report.faults == () and report.ungradable == frozenset()


def test_what_cannot_be_graded_here_is_said(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jails, "_SERVER", "pass")
    assert only(audit(server, [by_test("assert True")])).code is Code.NOT_GRADED


@pytest.mark.fault("D43")
def test_a_reference_that_depends_on_the_plan_is_found(server: Server) -> None:
    report = audit(server, [ends("SELECT shop_id FROM sale JOIN shop USING (shop_id) LIMIT 1")])
    found = [finding for finding in report.findings if finding.code is Code.PLAN_DEPENDENT]
    assert [(finding.sub_task, finding.message[:36]) for finding in found] == [
        (2, "its result is another one under: SET")
    ]
    assert report.ungradable == {"mart_1"}


@pytest.mark.fault("D43")
def test_what_leaves_postgresql_no_choice_is_steady(server: Server) -> None:
    settled = "SELECT array_agg(sale_id ORDER BY sale_id), sum(amount), avg(amount::float8), max(sale_id) FROM sale"
    ties = replace(COUNT, sol_sql=("SELECT sale_id FROM sale ORDER BY shop_id",), conditions=Conditions(order=True))
    tasks = [ends(settled), make_task(QUERY, ties, 2)]
    assert audit(server, tasks).findings == ()


def test_every_code_is_triggered_by_a_test_above() -> None:
    of_a_question = {Code.FRAGMENT_NOT_IN_SQL, Code.UNKNOWN_REFERENCE}
    elsewhere = of_a_question | NOTES | {Code.BUILD_FAILED, Code.NOT_GRADED, Code.PLAN_DEPENDENT}
    assert {b[1] for b in BROKEN.values()} | {f[1] for f in FAULTY.values()} | elsewhere == set(Code)


def test_the_report_is_json_without_gold(server: Server) -> None:
    task = make_task(MAKE, replace(TRIM, post_conditions=(PostCondition("SELECT 90210 AS secret", ((4711,),)),)))
    report = audit(server, [task], questions=[make_question(LocReference("no such", "", ()))])
    text = json.dumps(report.to_json())
    assert json.loads(text)["ungradable"] == ["mart_1"]
    assert json.loads(text)["findings"][0]["code"] == "post_condition_failed"
    assert json.loads(text)["broken_questions"][0]["key"]["question_id"] == "q1"
    assert not [gold for gold in ("90210", "4711", "secret", "DELETE", SUM) if gold in text]


def test_a_server_that_is_gone_is_an_error_not_a_finding() -> None:
    with pytest.raises(ServerError):
        audit(Server("host=/nonexistent user=u password=p dbname=d", 180000), [make_task(QUERY, COUNT)])


def test_schema_columns_reads_past_comments_literals_and_sample_rows() -> None:
    text = f"{SCHEMA}\n/* CREATE TABLE no (x int) */ -- CREATE TABLE no (y int)\nFirst 3 rows:\n1  it's  (x"
    assert {f"{table}|{column}" for table, column in schema_columns(text)} == set(COLUMNS)
    assert schema_columns("CREATE TABLE empty ()") == frozenset()
    assert schema_columns("CREATE TABLE") == frozenset()
