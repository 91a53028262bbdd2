"""The sealed document: it says what was decided, nothing of a row, and no change to it goes unnoticed."""

import copy
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1
from cryptography.hazmat.primitives.asymmetric.ec import generate_private_key as generate_ec_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from scored_run import GOOD_JUDGE, Run, every, make_run, rows_of

from benchmark_core.digest import digest
from benchmark_core.errors import CertificateError, InputError
from guard import signing
from guard.certificate import Demands, Issue, Recount, attempt_number, certified, code_digest, seal, verify
from guard.document import document_digest, read, write
from guard.ledger_writer import Ledger
from guard.policy import DEFAULT
from guard.reasons import Class
from judge.rubric import Rating
from suites.questions import Kind

ISSUED = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)
LATER = ISSUED + timedelta(days=30)
KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
OTHER = Ed25519PrivateKey.from_private_bytes(bytes(32))
GOOD = make_run()
BAD = make_run(rows_of(Kind.AMB, every(2), rating=Rating.C))


def sealed(run: Run = GOOD, key: Ed25519PrivateKey | None = None) -> dict[str, Any]:
    issue = Issue(ISSUED, attempt=1, calibration=GOOD_JUDGE, key=key)
    return seal(run.decide(GOOD_JUDGE), run.tally(), run.header, issue)


def recount(run: Run = GOOD) -> Demands:
    return Demands(LATER, recount=Recount(run.header, run.items, run.expected, calibration=GOOD_JUDGE))


def leaves(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict | list) and value:
        for name, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(inner, (*place, name))
    else:
        yield place


def changed(document: dict[str, Any], place: tuple[Any, ...]) -> dict[str, Any]:
    """The document with one leaf changed to another value of its type."""
    document = copy.deepcopy(document)
    inner = document
    for name in place[:-1]:
        inner = inner[name]
    found = inner[place[-1]]
    match found:
        case bool():
            inner[place[-1]] = not found
        case int() | float():
            inner[place[-1]] = found + 1 if found == 0 or isinstance(found, int) else found / 2
        case str():
            inner[place[-1]] = found[:-1] + ("0" if not found.endswith("0") else "1")
        case _:
            inner[place[-1]] = {"x": 1} if found == {} else ["x"] if found == [] else "2027-01-01T00:00:00+00:00"
    return document


def resealed(document: dict[str, Any]) -> dict[str, Any]:
    """As a forger without a key would."""
    return {**document, "certificate_digest": document_digest(document)}


def test_a_certificate_holds_says_its_class_first_and_names_every_digest() -> None:
    document = sealed()
    assert list(document)[0] == "class" and document["class"] == "provisional"  # noqa: RUF015
    assert (document["kind"], document["decision"], document["format"]) == (
        "certificate",
        "pass",
        "usersim-guard/certificate/1",
    )
    assert {name for name, value in document["digests"].items() if value} == {
        *("simulator", "suite", "judge", "calibration", "policy", "scorecard", "code"),
    }
    assert document["usage"]["simulator"]["models"] == {"sim-1 @ fp_1": 720}
    assert document["identities"]["simulator"]["revision"] == "r7"
    assert (document["issued"], document["expires"]) == ("2026-12-01T12:00:00+00:00", "2027-05-30T12:00:00+00:00")
    assert (document["issuer"], document["signature"]) == ("self-issued", None)
    found = certified(document, document["digests"]["simulator"], recount())
    assert (found.certificate_class, found.issuer) == (Class.PROVISIONAL, "self-issued")
    assert found.certificate == document["certificate_digest"]


def test_a_refusal_is_sealed_too_and_certifies_nothing() -> None:
    document = sealed(BAD)
    assert (document["class"], document["kind"], document["decision"]) == ("refused", "refusal", "fail")
    assert document["expires"] is None
    assert [reason["code"] for reason in document["reasons"]] == ["below_floor"]
    assert verify(document, recount(BAD)).kind == "refusal"
    with pytest.raises(CertificateError, match="a refusal"):
        certified(document, document["digests"]["simulator"], Demands(LATER))


@pytest.mark.parametrize("run", [GOOD, BAD], ids=["certificate", "refusal"])
def test_no_text_of_a_row_gets_in(run: Run) -> None:
    assert "SECRET" in repr(run.items)
    assert "SECRET" not in json.dumps(sealed(run))


@pytest.mark.parametrize("key", [None, KEY], ids=["self-issued", "signed"])
def test_a_change_of_any_field_is_found(key: Ed25519PrivateKey | None) -> None:
    document = sealed(key=key)
    places = list(leaves(document))
    assert len(places) > 130
    for place in places:
        with pytest.raises(CertificateError):
            verify(changed(document, place), Demands(LATER))
    for name in document:
        with pytest.raises(CertificateError):
            verify({k: v for k, v in document.items() if k != name}, Demands(LATER))
    with pytest.raises(CertificateError, match="field 'note'"):
        verify(resealed({**document, "note": "x"}), Demands(LATER))


@pytest.mark.parametrize("run", [GOOD, BAD], ids=["certificate", "refusal"])
def test_a_forged_field_with_a_fresh_digest_is_found_by_the_ledger(run: Run) -> None:
    document = sealed(run)
    beyond_a_ledger = {("attempt",), ("digests", "code"), ("certificate_digest",)}
    if document["kind"] == "refusal":
        beyond_a_ledger.add(("issued",))  # its expiry, None, does not follow from it
    for place in set(leaves(document)) - beyond_a_ledger:
        with pytest.raises(CertificateError):
            verify(resealed(changed(document, place)), recount(run))


def test_the_ledger_names_what_differs() -> None:
    other = make_run(rows_of(Kind.AMB, [3], rating=Rating.C))
    with pytest.raises(CertificateError, match=r"digests\.scorecard: .*kinds\.AMB\.accepted: 240 in .*, 239 counted"):
        verify(sealed(), recount(other))
    reordered = replace(GOOD, items=GOOD.items[::-1])
    assert verify(sealed(), recount(reordered)).kind == "certificate"


def test_another_policy_or_calibration_is_another_decision() -> None:
    demands = recount()
    assert demands.recount is not None
    changes: tuple[dict[str, Any], ...] = ({"policy": replace(DEFAULT, min_clusters=9)}, {"calibration": None})
    for change in changes:
        name = next(iter(change))
        with pytest.raises(CertificateError, match=rf"digests\.{name}"):
            verify(sealed(), replace(demands, recount=replace(demands.recount, **change)))


def test_a_refusal_cannot_be_forged_into_a_certificate_that_makes_sense() -> None:
    document = sealed(BAD)
    forged = {**document, "class": "provisional", "kind": "certificate", "decision": "pass", "reasons": []}
    forged["expires"] = "2027-05-30T12:00:00+00:00"
    with pytest.raises(CertificateError, match="contradict"):
        verify(resealed(forged), Demands(LATER))
    forged["kinds"] = {**forged["kinds"], "AMB": sealed()["kinds"]["AMB"]}
    verify(resealed(forged), Demands(LATER))  # without key or ledger nobody can tell: hence both
    with pytest.raises(CertificateError, match="the ledger says otherwise"):
        verify(resealed(forged), recount(BAD))
    with pytest.raises(CertificateError, match="issuer"):
        verify(resealed(forged), Demands(LATER, public_key=KEY.public_key()))


@pytest.mark.parametrize(
    "place", [("identities", "simulator", "model"), ("identities", "judge", "kind"), ("policy", "version")]
)
def test_what_a_digest_was_made_of_cannot_be_swapped(place: tuple[str, ...]) -> None:
    name = "policy" if place[0] == "policy" else place[1]
    with pytest.raises(CertificateError, match=rf"digests\.{name}"):
        verify(resealed(changed(sealed(), place)), Demands(LATER))


def test_expiry_is_to_the_second() -> None:
    document = sealed()
    expires = datetime.fromisoformat(document["expires"])
    assert verify(document, Demands(expires - timedelta(seconds=1))).kind == "certificate"
    with pytest.raises(CertificateError, match="expires"):
        verify(document, Demands(expires))
    assert verify(sealed(BAD), Demands(expires)).kind == "refusal"


def test_the_certificate_of_another_simulator_is_refused() -> None:
    document = sealed()
    with pytest.raises(CertificateError, match=r"digests\.simulator"):
        certified(document, digest("another"), Demands(LATER))
    with pytest.raises(CertificateError, match=r"digests\.suite"):
        verify(document, Demands(LATER, digests={"suite": digest("another")}))
    assert verify(document, Demands(LATER, digests={"suite": document["digests"]["suite"]})).attempt == 1


class TestSignature:
    def test_the_trusted_issuer_s_holds(self) -> None:
        document = sealed(key=KEY)
        found = certified(document, document["digests"]["simulator"], Demands(LATER, KEY.public_key()))
        assert found.issuer == signing.issuer(KEY.public_key())

    @pytest.mark.parametrize("key", [None, OTHER], ids=["self-issued", "stranger"])
    def test_any_other_issuer_is_refused_where_one_is_trusted(self, key: Ed25519PrivateKey | None) -> None:
        with pytest.raises(CertificateError, match="issuer"):
            verify(sealed(key=key), Demands(LATER, KEY.public_key()))

    @pytest.mark.parametrize("signature", [None, "", "!!", "AAAA", sealed(key=OTHER)["signature"]])
    def test_a_wrong_or_missing_signature_is_refused(self, signature: str | None) -> None:
        with pytest.raises(CertificateError, match="signature"):
            verify({**sealed(key=KEY), "signature": signature}, Demands(LATER))

    @pytest.mark.parametrize(
        "issuer", ["self-issued", "ed25519:", "ed25519:AAAA", "rsa:AAAA", signing.issuer(KEY.public_key())[8:]]
    )
    def test_a_signature_needs_its_issuer(self, issuer: str) -> None:
        document = resealed({**sealed(key=KEY), "issuer": issuer})
        document["signature"] = signing.sign(KEY, document["certificate_digest"])
        with pytest.raises(CertificateError, match="signature"):
            verify(document, Demands(LATER))


class TestKeyFiles:
    def test_keys_read_back(self, tmp_path: Path) -> None:
        private, public = tmp_path / "key.pem", tmp_path / "public.pem"
        private.write_bytes(KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        public.write_bytes(KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
        document = sealed(key=signing.load_private_key(private))
        assert verify(document, Demands(LATER, signing.load_public_key(public))).signature

    @pytest.mark.parametrize(
        "content",
        [
            b"SECRET",
            KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"pass")),
            generate_ec_key(SECP256R1()).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
        ],
        ids=["garbage", "passphrase", "other kind"],
    )
    def test_another_private_key_file_is_refused_unquoted(self, tmp_path: Path, content: bytes) -> None:
        (tmp_path / "key.pem").write_bytes(content)
        with pytest.raises(InputError, match="expected an Ed25519 private key") as caught:
            signing.load_private_key(tmp_path / "key.pem")
        assert "SECRET" not in str(caught.value)

    def test_another_public_key_file_is_refused(self, tmp_path: Path) -> None:
        ec = generate_ec_key(SECP256R1()).public_key()
        for content in (b"garbage", ec.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)):
            (tmp_path / "public.pem").write_bytes(content)
            with pytest.raises(InputError, match="expected an Ed25519 public key"):
                signing.load_public_key(tmp_path / "public.pem")
        for load in (signing.load_public_key, signing.load_private_key):
            with pytest.raises(InputError, match="cannot be read"):
                load(tmp_path / "absent.pem")


class TestFile:
    def test_it_reads_back_and_leaves_no_draft(self, tmp_path: Path) -> None:
        path = tmp_path / "certificate.json"
        path.write_text("old", encoding="utf-8")
        write(sealed(), path)
        assert read(path) == sealed()
        assert verify(read(path), recount()).kind == "certificate"
        assert path.read_text(encoding="utf-8").startswith('{\n  "class": "provisional"')
        assert [file.name for file in tmp_path.iterdir()] == ["certificate.json"]

    def test_a_write_that_fails_leaves_the_old_file(self, tmp_path: Path) -> None:
        path = tmp_path / "certificate.json"
        write(sealed(), path)
        with pytest.raises(ValueError):
            write({"rate": float("nan")}, path)
        assert read(path) == sealed()

    @pytest.mark.parametrize("text", ["", "{", "[]", '"x"', "[" * 100_000, '{"a":"' + "x" * (5 << 20) + '"}'])
    def test_what_is_no_document_is_refused(self, tmp_path: Path, text: str) -> None:
        path = tmp_path / "certificate.json"
        path.write_text(text, encoding="utf-8")
        with pytest.raises(CertificateError, match=r"certificate\.json"):
            read(path)

    def test_an_absent_file_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(CertificateError, match="cannot be read"):
            read(tmp_path / "absent.json")

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("kind", "diploma"),
            ("class", "excellent"),
            ("attempt", 0),
            ("attempt", "1"),
            ("issued", "2026-12-01T12:00:00"),
            ("issued", "yesterday"),
            ("kinds", []),
            ("kinds", {}),
            ("identities", float("nan")),
            ("identities", {1: object()}),
            ("format", "usersim-guard/certificate/2"),
        ],
    )
    def test_a_hostile_field_is_named_not_a_crash(self, field: str, value: Any) -> None:
        with pytest.raises(CertificateError, match=f"field '{field}|JSON cannot"):
            verify({**sealed(), field: value}, Demands(LATER))


def test_attempts_are_the_known_runs_of_this_simulator(tmp_path: Path) -> None:
    simulator = GOOD.header.digests["simulator"]
    other = replace(GOOD.header, digests={**GOOD.header.digests, "simulator": digest("another")})
    paths = [tmp_path / name / "ledger.jsonl" for name in "abc"]
    for path, header in zip(paths, (GOOD.header, other, GOOD.header), strict=True):
        Ledger.open(path, header, resume=False).close()
    assert attempt_number(paths, simulator) == 2


def test_the_code_digest_is_one_of_the_source() -> None:
    assert code_digest() == code_digest() == sealed()["digests"]["code"]
