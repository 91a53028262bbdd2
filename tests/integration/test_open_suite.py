"""Integration: the open suite is sound, and the measure finds again what is known of the controls."""

import math
import re
from collections import Counter
from collections.abc import Mapping
from contextlib import nullcontext

import pytest

from guard.demo import FAULTY_KINDS, Controls, false_alarms, missed_faults, score_controls
from guard.faults import read_faults, read_paraphrases
from guard.runs import Watch
from guard.scoring import Scope
from suites.load import Suite, load
from suites.questions import Kind, Style, UnaReference, UnaSubKind
from suites.tasks import Category, FollowUpType, KnowledgeEntry, Level

QUIET = Watch(lambda _plan, _done: lambda _item: None)


@pytest.fixture(scope="module")
def suite() -> Suite:
    return load()


@pytest.fixture(scope="module")
def controls(suite: Suite, tmp_path_factory: pytest.TempPathFactory) -> Controls:
    return score_controls(suite, Scope(), tmp_path_factory.mktemp("controls"), lambda: nullcontext(QUIET))


def test_it_has_the_promised_size(suite: Suite) -> None:
    assert len(suite.tasks) == 14
    assert sum(task.oracle.first.category is Category.MANAGEMENT for task in suite.tasks) >= 5
    assert Counter(q.kind for q in suite.questions) == dict.fromkeys(Kind, 141)
    points = Counter((q.key.instance_id, q.key.question_id, q.kind) for q in suite.questions)
    assert set(points.values()) == {len(Style)}
    assert all(schema.count("CREATE TABLE") >= 7 for schema in (d.schema for d in suite.databases.values()))


def test_tasks_are_annotated_as_promised(suite: Suite) -> None:
    for task in suite.tasks:
        assert 2 <= len(task.oracle.ambiguities) <= 5, task.instance_id
    levels = Counter(a.level for task in suite.tasks for a in task.oracle.ambiguities)
    assert levels[Level.KNOWLEDGE] >= 7
    assert levels[Level.ENVIRONMENTAL] >= 4
    assert {task.oracle.follow_up.type for task in suite.tasks} == set(FollowUpType)
    asked = {(q.key.instance_id, getattr(q.reference, "ambiguity", None)) for q in suite.questions}
    annotated = {(t.instance_id, a.term) for t in suite.tasks for a in t.oracle.ambiguities}
    assert annotated <= asked, "every ambiguity is asked about"
    kinds = {q.reference.sub_kind for q in suite.questions if isinstance(q.reference, UnaReference)}
    assert kinds == set(UnaSubKind)


def test_multi_hop_knowledge(suite: Suite) -> None:
    for database in suite.databases.values():
        entries = {entry.id: entry for entry in database.knowledge}
        assert max(_levels(number, entries) for number in entries) >= 4


def _levels(number: int, entries: Mapping[int, KnowledgeEntry]) -> int:
    return 1 + max((_levels(child, entries) for child in entries[number].children_knowledge), default=0)


@pytest.mark.parametrize("learned_on", ["bike_depot", "ferry_line"])
def test_kinds_are_not_told_apart_by_their_words(suite: Suite, learned_on: str) -> None:
    """A naive Bayes on the words of one database's questions names the kind of the other's; chance is 0.33."""
    learn = [q for q in suite.questions if q.database == learned_on]
    rest = [q for q in suite.questions if q.database != learned_on]
    having = {kind: Counter(w for q in learn if q.kind is kind for w in _words(q.text)) for kind in Kind}
    size = Counter(q.kind for q in learn)
    known = set().union(*having.values())

    def guess(text: str) -> Kind:
        words = _words(text) & known
        return max(Kind, key=lambda kind: sum(math.log((having[kind][w] + 0.5) / (size[kind] + 1)) for w in words))

    assert sum(guess(q.text) is q.kind for q in rest) / len(rest) <= 0.7


def _words(text: str) -> set[str]:
    return set(re.findall(r"[a-z']+", text.lower()))


def test_every_expectation_of_the_controls_holds(controls: Controls) -> None:
    assert [e for e in controls.expectations() if not e.holds] == []
    assert len(controls.doses) == 21


def test_the_hand_written_replies_are_complete(suite: Suite) -> None:
    faults = read_faults(suite)
    points = {(q.key.instance_id, q.key.question_id, q.kind) for q in suite.questions}
    for fault, kinds in FAULTY_KINDS.items():
        have = {(f.instance_id, f.question_id, f.kind) for f in faults if f.fault is fault}
        assert have == {point for point in points if point[2] in kinds}, fault
    assert len({f.reply for f in faults}) == len(faults), "each is written for its point"
    assert len(read_paraphrases(suite)) >= 60


def test_the_rule_judges_own_error_stays_small(suite: Suite) -> None:
    """Figures are in the README; here only that nobody makes them much worse unnoticed."""
    assert false_alarms(suite).share <= 0.25
    assert missed_faults(suite).share <= 0.05
