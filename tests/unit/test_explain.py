"""Unit: every code is explained, a document's reasons are explained, and a citation names what it depends on."""

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scored_run import GOOD_JUDGE, make_run, rows_of

from benchmark_core.errors import CertificateError, InputError
from guard import __version__
from guard.certificate import Issue, seal
from guard.citation import citation
from guard.document import document_digest
from guard.exit_codes import ExitCode
from guard.explain import Explained, every, explain_code, explain_document
from guard.policy import DEFAULT
from guard.reasons import CLASS_MEND, MEANS, MEND, Class, ClassCode, Code
from judge.rubric import Rating
from suites.questions import Kind

ISSUED = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)


def sealed(*edits: Any, calibrated: bool = True, **header: Any) -> dict[str, Any]:
    """A certificate; with edits that break rows, a refusal."""
    run = make_run(*edits, **header)
    calibration = GOOD_JUDGE if calibrated else None
    issue = Issue(ISSUED, 1, calibration=calibration)
    return seal(run.decide(calibration), run.tally(), run.header, issue)


def written(document: Mapping[str, Any], folder: Path) -> Path:
    path = folder / "certificate.json"
    path.write_text(json.dumps(document))
    return path


FAILING = rows_of(Kind.LOC, range(240), rating=Rating.C)
CERTIFICATE = sealed()
REFUSAL = sealed(FAILING)


def test_every_code_has_its_words() -> None:
    assert set(MEANS) == set(MEND) == set(Code)
    assert set(CLASS_MEND) == set(ClassCode)
    names = [each.code for each in every()]
    assert len(set(names)) == len(names), "one name, one meaning"
    assert set(names) == {*Code, *ClassCode, *Class, *(code.name.lower() for code in ExitCode)}
    assert len({each.means for each in every()}) == len(names)
    for each in every():
        assert each.means.endswith("."), each.code
        assert not each.mend.endswith("."), each.code
        assert each.mend and each.means[0].isupper()


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("below_floor", "below_floor"),
        (" Below-Floor ", "below_floor"),
        ("small_suite", "small_suite"),
        ("provisional", "provisional"),
        ("4", "incomplete"),
        ("130", "interrupted"),
        ("REFUSED_NOT_DECIDED", "refused_not_decided"),
    ],
)
def test_a_code_is_found_by_name_or_number(name: str, code: str) -> None:
    assert explain_code(name).code == code


@pytest.mark.parametrize(
    ("name", "says"), [("belowfloor", "did you mean below_floor?"), ("42", "--list"), ("", "--list")]
)
def test_an_unknown_code_is_named(name: str, says: str) -> None:
    with pytest.raises(InputError, match=re.escape(says)):
        explain_code(name)


def test_examples_hold_the_policys_numbers() -> None:
    """Figures worked out by hand from the formulas that the codes come from."""
    # 1 % of 700 rows
    assert "7 may lack a verdict" in (explain_code("unjudged_share").example or "")
    assert f"{DEFAULT.min_clusters - 1} tasks" in (explain_code("too_few_clusters").example or "")
    # t(39) = 2.0227; 1.5 * 4.0913 * 0.09 / 0.02^2 = 1380.8
    assert "at 92% about 1,381 rows" in (explain_code("not_decided_interval").example or "")
    # Rogan-Gladen: (0.05 + 0.8 - 1) / (0.9 + 0.8 - 1)
    assert "-0.214" in (explain_code("interval_outside_unit").example or "")
    assert explain_code("partial_run").example is None


def test_the_example_of_a_contradicted_calibration_is_one() -> None:
    bounds = re.search(r"interval \[(\S+), (\S+)\]", explain_code("interval_outside_unit").example or "")
    assert bounds and float(bounds[2]) < 0


def test_a_refusal_is_explained_reason_by_reason(tmp_path: Path) -> None:
    found = explain_document(written(REFUSAL, tmp_path))
    assert found.headline == "refusal: fail, class refused"
    assert [reason.code for reason in found.reasons] == [Code.BELOW_FLOOR]
    (detail,) = found.details[Code.BELOW_FLOOR]
    assert detail.startswith("LOC: [0.0000, ")
    text = "\n".join(found.lines)
    assert MEANS[Code.BELOW_FLOOR] in text and MEND[Code.BELOW_FLOOR] in text and detail in text
    assert ClassCode.SMALL_SUITE not in text, "a refusal is of no class that could be provisional"


def test_reasons_about_several_kinds_are_explained_once(tmp_path: Path) -> None:
    worst = [rows_of(kind, range(240), rating=Rating.B if kind is Kind.UNA else Rating.C) for kind in Kind]
    found = explain_document(written(sealed(*worst), tmp_path))
    assert [says[:3] for says in found.details[Code.BELOW_FLOOR]] == ["AMB", "LOC", "UNA"]
    assert [reason.code for reason in found.reasons].count(Code.BELOW_FLOOR) == 1


def test_a_provisional_certificate_is_explained_even_when_it_has_expired(tmp_path: Path) -> None:
    found = explain_document(written(sealed(calibrated=False), tmp_path))
    assert found.headline.startswith("certificate: pass, class provisional, holds until 2027-05-30")
    assert ClassCode.UNCALIBRATED_JUDGE in [reason.code for reason in found.reasons]
    old = sealed()
    old |= {"issued": "2020-01-01T00:00:00+00:00", "expires": "2020-06-29T00:00:00+00:00"}
    old["certificate_digest"] = document_digest(old)
    assert "2020-06-29" in explain_document(written(old, tmp_path)).headline


def test_a_program_gets_reasons_and_citation(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "guard", "explain", str(written(REFUSAL, tmp_path)), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    found = json.loads(done.stdout)
    assert (found["headline"], found["digest"]) == ("refusal: fail, class refused", REFUSAL["certificate_digest"])
    assert [reason["code"] for reason in found["reasons"]] == [Code.BELOW_FLOOR]
    assert found["reasons"][0]["found"][0].startswith("LOC: ")
    assert found["citation"] == citation(REFUSAL)


def test_a_document_that_was_changed_is_not_explained(tmp_path: Path) -> None:
    with pytest.raises(CertificateError, match="certificate_digest"):
        explain_document(written(REFUSAL | {"attempt": 9}, tmp_path))
    with pytest.raises(CertificateError, match="not JSON"):
        (tmp_path / "x.json").write_text("{")
        explain_document(tmp_path / "x.json")


def test_a_detail_cannot_steer_the_terminal(tmp_path: Path) -> None:
    hostile = sealed(FAILING)
    hostile["reasons"][0]["detail"] = "\x1b[2J" + "x" * 5000
    hostile["certificate_digest"] = document_digest(hostile)
    lines = explain_document(written(hostile, tmp_path)).lines
    assert all("\x1b" not in line and len(line) < 1000 for line in lines)


def test_a_citation_names_all_it_depends_on() -> None:
    document = CERTIFICATE
    sentence, _, entry = citation(document).partition("\n\n")
    for part in (
        f"UserSim-Guard {__version__} certified the simulated user baseline (model sim-1, revision r7)",
        "class provisional because of small_suite",
        "on the suite open 1 (sha256:",
        "judged by judge-1",
        f"calibrated by {GOOD_JUDGE.digest}",
        f"under policy {DEFAULT.version} ({DEFAULT.digest})",
        "on 2026-12-01, attempt 1",
        document["certificate_digest"],
        "self-issued, holds until 2027-05-30",
    ):
        assert part in sentence, part
    assert entry.startswith(f"@misc{{usersim-guard-{document['certificate_digest'][7:19]},\n")
    assert "year = {2026}" in entry


def test_a_refusal_is_cited_as_what_it_is() -> None:
    assert "refused to certify" in citation(REFUSAL) and "because it fails" in citation(REFUSAL)
    undecided = citation(sealed(tasks=5, suite_counts=dict.fromkeys(Kind, 30)))
    assert "because the data do not decide it" in undecided and "holds until" not in undecided


def test_the_version_is_named_only_for_the_code_at_hand() -> None:
    document = sealed()
    document["digests"]["code"] = "sha256:" + "0" * 64
    document["certificate_digest"] = document_digest(document)
    assert __version__ not in citation(document).partition(" certified ")[0]
    assert citation(document).startswith("UserSim-Guard (code sha256:0000")


@given(
    st.text(max_size=200) | st.sampled_from(["}} @misc{x,", "a\n\n@b{c", "\\input{x}", "50% off_#1 & $x^2~", "\u202e"])
)
def test_a_name_cannot_break_the_entry(model: str) -> None:
    document = {**CERTIFICATE, "identities": {"simulator": {"variant": "baseline", "model": model}}}
    sentence, _, entry = citation(document).partition("\n\n")
    assert "\n" not in sentence
    lines = entry.split("\n")
    assert [line.split(" = ")[0].strip() for line in lines[1:-1]] == ["author", "title", "year", "note"]
    for line in lines[1:-1]:
        value = line.split(" = ", 1)[1]
        assert value.startswith("{") and value.endswith("},")
        inner = value[1:-2].removeprefix("{").removesuffix("}")
        assert not re.search(r"[{}~^\x00-\x1f\u202e]|(?<!\\)[#$%&_]|\\(?![#$%&_])", inner), inner


def test_lines_for_people_begin_with_the_name() -> None:
    assert Explained("a", "reason", "B.", "c", "d").lines == ("a (reason)", "  B.", "  For example: d", "  To do: c.")
