"""The report: what it says, that it shows hostile text harmlessly, and what the public variant withholds."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any

import pytest
from suite_builder import small_suite

from benchmark_core.digest import digest
from benchmark_core.errors import InputError, SimulatorFailure
from benchmark_core.ports import Action
from guard import document
from guard.certificate import Issue, seal
from guard.certification import decide
from guard.excerpts import LONGEST, Piece, Role, excerpt, merge, occurrences, plain
from guard.ledger import Call, Header, ScoredItem, stream
from guard.ledger_writer import Ledger
from guard.policy import DEFAULT
from guard.report import TEMPLATES, render, write_report
from guard.runs import Counted, RunFolder
from guard.scorecard import expected_keys, tally
from guard.scoring import Scope, plan
from guard.worst import LIMIT, Worst, worst
from judge.rubric import Rating
from judge.verdict import Evidence, EvidenceKind, UnjudgedCause
from suites.load import Suite
from suites.questions import Kind, Question

WHOLE = Scope()
RULE = {"kind": "rule", "rubric": "reference"}
LLM = {"kind": "llm", "model": "judge-1", "rubric": "reference"}
VOID = {"meta"}
TAGS = (
    "html head meta title style body main header section h1 h2 h3 p b strong small span code mark i ul ol li dl dt dd "
    "article blockquote figure figcaption div table caption thead tbody tr th td svg g path use defs clippath rect text"
).split()
ATTRIBUTES = (
    "lang charset name content http-equiv class id title aria-labelledby aria-label aria-hidden role tabindex scope "
    "colspan dir href style d x y width height viewbox clip-path transform"
).split()


class Page(HTMLParser):
    """The parsed report: tags with their attributes, and text by the class or name of what it stands in."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.other: list[str] = []
        self._open: list[list[Any]] = []
        self.texts: list[tuple[str, str, str]] = []
        self.feed(html)
        self.close()
        assert not self._open, "unclosed tags"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self._open.append([tag, dict(attrs).get("class") or "", ""])

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        opened, name, text = self._open.pop()
        assert opened == tag, f"</{tag}> closes <{opened}>"
        self.texts.append((tag, name, text))
        if self._open:
            self._open[-1][2] += text

    def handle_data(self, data: str) -> None:
        if self._open:
            self._open[-1][2] += data

    def handle_comment(self, data: str) -> None:
        self.other.append(data)

    unknown_decl = handle_pi = handle_comment

    def all(self, tag: str, name: str = "") -> list[str]:
        return [text for found, of, text in self.texts if found == tag and (not name or name in of.split())]

    def body(self) -> str:
        return self.all("body")[0]


def scored(question: Question, reply: str = "Since February.", **changes: Any) -> ScoredItem:
    calls = (Call("simulator", "sim-1", "fp_1", 100, 20, 1, False, 0.5),)
    item = ScoredItem(question.key, question.database, reply=reply, rating=Rating.A, reason="fine", calls=calls)
    return replace(item, **changes)


def disclosing(question: Question, reply: str, *words: str, **changes: Any) -> ScoredItem:
    found = tuple(
        Evidence(EvidenceKind.FRAGMENT, word, at, at + len(word)) for word in words for at in [reply.index(word)]
    )
    return scored(question, reply, evidence=found, rating=Rating.B, **changes)


def counted(suite: Suite, items: tuple[ScoredItem, ...], scope: Scope = WHOLE, **changes: Any) -> Counted:
    work = plan(suite, scope)
    judge = changes.pop("judge", RULE)
    identities = {
        "simulator": {"variant": "baseline", "model": changes.pop("model", "sim-1"), "decoding": {"seed": None}},
        "judge": judge,
        "suite": {"name": suite.name, "version": suite.version, "digest": suite.digest},
        "plan": work.identity(),
    }
    header = Header(
        digests={name: digest(identity) for name, identity in identities.items()},
        identities=identities,
        planned=len(work.questions),
        partial=work.partial,
        judge_class=judge["kind"],
        suite_counts={kind: sum(q.kind is kind for q in suite.questions) for kind in Kind},
        started="2026-12-01T10:00:00+00:00",
    )
    header = replace(header, **changes)
    path = Path(mkdtemp(dir=FOLDER)) / "ledger.jsonl"
    with Ledger.open(path, header, resume=False) as ledger:
        for item in items:
            ledger.append(item)
    return Counted(header, path, tally(items, header, expected_keys(work.questions)))


def sealed(run: Counted) -> dict[str, Any]:
    decision = decide(run.scorecard, run.header, None, DEFAULT)
    return seal(decision, run.scorecard, run.header, Issue(datetime(2026, 12, 1, 12, tzinfo=UTC), 1))


FOLDER = ""


@pytest.fixture(scope="module", autouse=True)
def folder() -> Iterator[None]:
    global FOLDER
    with TemporaryDirectory() as FOLDER:
        yield


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Suite:
    """Not the open suite: its texts are gold."""
    return small_suite(tmp_path_factory.mktemp("suite"), tasks=2)


@pytest.fixture(scope="module")
def open_suite(suite: Suite) -> Suite:
    return replace(suite, name="open")


@pytest.fixture(scope="module")
def large_suite(tmp_path_factory: pytest.TempPathFactory) -> Suite:
    """Large enough for a decision."""
    return replace(small_suite(tmp_path_factory.mktemp("large"), tasks=12, points=4), name="open")


def all_good(suite: Suite) -> tuple[ScoredItem, ...]:
    return tuple(scored(q) for q in suite.questions)


def one_bad(suite: Suite, bad: ScoredItem) -> tuple[ScoredItem, ...]:
    return tuple(bad if item.key == bad.key else item for item in all_good(suite))


def test_the_first_line_says_who_judged(open_suite: Suite) -> None:
    page = Page(render(open_suite, counted(open_suite, all_good(open_suite)), None))
    first = page.body().strip().splitlines()[0]
    assert "rule judge" in first
    assert "provisional" in first
    page = Page(render(open_suite, counted(open_suite, all_good(open_suite), judge=LLM), None))
    assert page.body().strip().splitlines()[0] == "Judge: judge-1, rubric reference."


def test_a_partial_run_is_marked_before_anything_else(open_suite: Suite) -> None:
    scope = Scope(kinds=(Kind.AMB,))
    items = tuple(scored(q) for q in open_suite.questions if q.kind is Kind.AMB)
    run = counted(open_suite, items, scope)
    body = Page(render(open_suite, run, sealed(run))).body()
    assert body.index("Partial run: 6 of 18 core questions") < body.index("UserSim-Guard report")
    assert "partial_run" in body
    assert "Partial run" not in Page(render(open_suite, counted(open_suite, all_good(open_suite)), None)).body()


def test_a_refusal_names_its_reasons_and_what_mends_them(large_suite: Suite) -> None:
    run = counted(large_suite, tuple(replace(item, rating=Rating.B) for item in all_good(large_suite)))
    page = Page(render(large_suite, run, sealed(run)))
    assert page.all("h2")[0] == "Refused: it fails"
    body = page.body()
    assert "UNA below_floor" in body
    assert "change the simulator: more data will not lift it over the floor" in body
    assert "A certificate would be provisional because\n\nrule_judge" in body
    assert "AMB below_floor" not in body
    unsure = counted(large_suite, all_good(large_suite)[:-30])
    assert Page(render(large_suite, unsure, sealed(unsure))).all("h2")[0] == "Refused: not decided"


def test_a_certificate_shows_its_class(large_suite: Suite) -> None:
    run = counted(large_suite, all_good(large_suite))
    page = Page(render(large_suite, run, sealed(run)))
    assert page.all("h2")[0] == "Certified class provisional"
    assert "reaches 90.0\u00a0%" in page.body()
    assert "expires 2027-05-30" in page.body()


def test_a_decision_on_other_counts_is_not_shown(open_suite: Suite) -> None:
    run = counted(open_suite, all_good(open_suite))
    decision = sealed(run)
    later = counted(open_suite, all_good(open_suite)[:-1])
    tampered = {**decision, "reasons": []}
    for of, given in ((later, decision), (run, tampered), (run, {"kind": "certificate"})):
        page = Page(render(open_suite, of, given))
        assert "The decision on file does not hold for this run" in page.body()
        assert page.all("h2")[0] == "No decision"
    assert "does not hold" not in Page(render(open_suite, run, decision)).body()


def test_a_run_of_another_suite_is_refused(open_suite: Suite) -> None:
    run = counted(open_suite, all_good(open_suite))
    with pytest.raises(InputError, match="another suite than open"):
        render(replace(open_suite, digest="sha256:other"), run, None)


HOSTILE = {
    "script": "</script><img src=x onerror=alert(1)><script>alert(2)</script>",
    "cdata": "]]><svg onload=alert(1)><![CDATA[ <!-- --> <!doctype html> <?xml ?>",
    "style": "</style></blockquote></main><style>*{display:none}</style>",
    "quotes": "\" onmouseover=\"alert(1)\" ' autofocus onfocus='alert(1)' `",
    "template": "{{ 7*7 }} {% include 'x' %} {# no #} ${x} &lt;b&gt; &amp; &#60;",
    "mathtext": "$\\frac{1}{0$ ^_ \\textbf",
    "emoji": "🙂🏽 👩‍👩‍👧 \N{COMBINING ACUTE ACCENT}" + "e\u0301" * 30,
    "bidi": "abc\u202eLQS\u2066x\u2069 \u200bzero",
    "control": "a\x00b\x07c\x1b[31m d\r\ne\u2028f",
    "arabic": "مرحبا بالعالم",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_text_is_text_wherever_it_stands(open_suite: Suite, text: str) -> None:
    question = replace(open_suite.questions[0], text=text)
    suite = replace(open_suite, questions=(question, *open_suite.questions[1:]))
    call = Call(text, text, text, None, 1, 1, False, 0.1)
    bad = disclosing(
        question, f"{text}!{text}", text, reason=text, action=Action(Kind.LOC, text), database=text, calls=(call,)
    )
    items = tuple(
        replace(i, database=text) if i.key.instance_id == bad.key.instance_id else i for i in one_bad(suite, bad)
    )
    html = render(suite, counted(suite, items, model=text, excluded_tasks=(text,)), None)
    html.encode()
    page = Page(html)
    _only_our_markup(page)
    assert "Reply" + _as_shown(f"{text}!{text}") in page.all("blockquote", "reply")
    assert "Question" + _as_shown(text) in page.all("blockquote", "question")
    assert _as_shown(text) in page.all("dd")
    assert not set(html) & set("\u202e\u2066\u2069\u200b\u2028\x00\x07\x1b")


def _as_shown(text: str) -> str:
    return "".join(piece.text for piece in excerpt(text))


def _only_our_markup(page: Page) -> None:
    assert page.other == []
    assert {tag for tag, _ in page.tags} <= set(TAGS)
    for tag, attributes in page.tags:
        assert set(attributes) <= set(ATTRIBUTES), tag
        assert attributes.get("href", "#").startswith("#")
    assert len(page.all("style")) == len(page.all("h1")) == len(page.all("main")) == 1
    assert "url(" not in page.all("style")[0]
    assert "@import" not in page.all("style")[0]


def test_the_page_is_self_contained_and_accessible(open_suite: Suite) -> None:
    items = tuple(scored(q, action=Action(q.kind, "recently")) for q in open_suite.questions)
    html = render(open_suite, counted(open_suite, items), None)
    page = Page(html)
    _only_our_markup(page)
    assert not re.search(r"https?:", html)
    policy = next(a["content"] for tag, a in page.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline';")
    ids = Counter(attributes["id"] for _, attributes in page.tags if "id" in attributes)
    assert set(ids.values()) == {1}
    named = {attributes["aria-labelledby"] for _, attributes in page.tags if "aria-labelledby" in attributes}
    used = set(re.findall(r'(?:href="|url\()#([^")]+)', html))
    assert named | used <= set(ids)
    drawings = [attributes for tag, attributes in page.tags if tag == "svg"]
    assert len(drawings) == 5
    assert all(a["role"] == "img" and a["aria-label"] for a in drawings)
    assert "AMB: 100.0 %, interval" in drawings[0]["aria-label"]
    assert all("scope" in attributes for tag, attributes in page.tags if tag == "th")
    assert len(page.all("caption")) == len(page.all("table")) == 8


def test_drawings_take_every_colour_from_the_page(open_suite: Suite) -> None:
    items = tuple(scored(q, action=Action(q.kind, "recently")) for q in open_suite.questions)
    page = Page(render(open_suite, counted(open_suite, items), None))
    known = set(re.findall(r"(--[\w-]+):", page.all("style")[0]))
    colours = {
        colour
        for _, attributes in page.tags
        for colour in re.findall(r"(?:fill|stroke): ([^;]+)", attributes.get("style", ""))
    }
    assert colours - {"none"} <= {f"var({name})" for name in known}
    assert len(colours) > 4


@pytest.mark.parametrize("dark", [False, True])
def test_text_has_contrast(dark: bool) -> None:
    css = (TEMPLATES / "report.css").read_text(encoding="utf-8")
    light, _, rest = css.partition("@media (prefers-color-scheme: dark)")
    source = rest.partition("@media")[0] if dark else light
    values = dict(re.findall(r"(--[\w-]+): (#[0-9a-fA-F]+);", source))
    pairs = ["ink surface", "ink page", "ink sunk", "ink heat", "muted surface", "muted page", "muted sunk"]
    pairs += ["mark-ink mark", "surface ink"]
    pairs += [f"{tone} {ground}" for tone in ("good", "bad", "unsure") for ground in ("surface", f"{tone}-bg")]
    pairs += [f"ink {tone}-bg" for tone in ("good", "bad", "unsure")]
    for pair in pairs:
        above, below = sorted((_luminance(values[f"--{name}"]) for name in pair.split()), reverse=True)
        assert (above + 0.05) / (below + 0.05) >= 4.5, pair


def _luminance(colour: str) -> float:
    """Relative luminance (WCAG 2.2)."""
    digits = colour[1:] if len(colour) == 7 else "".join(2 * d for d in colour[1:])
    linear = [
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4
        for c in (int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4))
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_disclosed_words_are_marked(open_suite: Suite) -> None:
    reply = "sold_on >= DATE and the shop"
    question = open_suite.questions[0]
    bad = disclosing(question, reply, "sold_on >=", ">= DATE", "sold_on", "shop")
    page = Page(render(open_suite, counted(open_suite, one_bad(open_suite, bad)), None))
    assert page.all("mark") == ["marked", "sold_on >= DATE", "shop"]  # the first explains the colour
    assert f"Reply{reply}" in page.all("blockquote", "reply")


def test_a_long_reply_is_cut_around_what_it_discloses(open_suite: Suite) -> None:
    reply = "start " + "x" * 60_000 + " shop_name " + "<" * 40_000 + " end"
    bad = disclosing(open_suite.questions[0], reply, "shop_name")
    html = render(open_suite, counted(open_suite, one_bad(open_suite, bad)), None)
    plain_html = render(open_suite, counted(open_suite, one_bad(open_suite, replace(bad, reply="shop_name"))), None)
    assert len(html) - len(plain_html) < 10_000
    (shown,) = (text for text in Page(html).all("blockquote", "reply") if "shop_name" in text)
    assert shown.startswith("Replystart xxx")
    assert shown.endswith("<<< end")
    assert len(re.findall(r"\[… [\d,]+ characters cut …\]", shown)) == 2


def test_determinism(open_suite: Suite) -> None:
    bad = disclosing(open_suite.questions[0], "the shop_name", "shop_name", action=Action(Kind.AMB, "recently"))
    items = one_bad(open_suite, bad)
    first = render(open_suite, counted(open_suite, items), None)
    assert render(open_suite, counted(open_suite, items[::-1]), None) == first


def gold_items(suite: Suite) -> tuple[ScoredItem, ...]:
    """Replies, reasons and targets that quote the annotation in every way that a run can hold it."""
    amb, loc, una = (next(q for q in suite.questions if q.kind is kind) for kind in Kind)
    leak = (
        "Sort it by ORDER BY  big_total\nDESC, v.sold\u200b_on >= DATE '2024-02-01', "
        "i.e. EVERYTHING since the first of February 2024."
    )
    bad = [
        disclosing(
            amb, leak, "big_total", reason="conveys: since 1 February 2024", action=Action(Kind.AMB, "recently")
        ),
        scored(loc, leak, rating=Rating.C, reason="fragment", action=Action(Kind.LOC, "ORDER BY big_total DESC")),
        # offsets that do not fit the words
        scored(una, "it is sale_amount", rating=Rating.B, evidence=(Evidence(EvidenceKind.CODE, "sale_amount", 0, 2),)),
    ]
    changed = {item.key: item for item in bad}
    failed = ScoredItem(suite.questions[1].key, "mart", failure=SimulatorFailure.CRASHED, reason="SUM(v.sale_amount)")
    changed[failed.key] = failed
    return tuple(changed.get(item.key, item) for item in all_good(suite))


GOLD = ("order by", "big_total", "sold_on", "sale_amount", "1 february", "first of february", "fragment:", "2024-02")


def test_the_public_variant_withholds_gold(suite: Suite) -> None:
    run = counted(suite, gold_items(suite))
    public = Page(render(suite, run, sealed(run)))
    text = " ".join([public.body(), *(v for _, a in public.tags for v in a.values())]).casefold()
    squeezed = re.sub(r"\s+|u\+200b", " ", text)
    assert [gold for gold in GOLD if gold in squeezed or gold in text.replace("u+200b", "")] == []
    assert "Public variant" in public.body()
    assert public.all("mark") == []
    assert "withheld" in public.all("span", "hidden")
    assert "Sort it by withheld, withheld" in " ".join(public.all("blockquote", "reply"))


def test_the_private_variant_and_the_open_suite_show_it(suite: Suite, open_suite: Suite) -> None:
    private = Page(render(suite, counted(suite, gold_items(suite)), None, public=False))
    shown = Page(render(open_suite, counted(open_suite, gold_items(open_suite)), None))
    for page in (private, shown):
        assert "conveys: since 1 February 2024" in page.all("dd")
        assert "ORDER BY big_total DESC" in page.all("dd")
        assert "big_total" in page.all("mark")
    assert "Private variant" in private.body()
    assert "variant:" not in shown.body()


@pytest.mark.parametrize("what", ["empty", "failed", "unjudged"])
def test_runs_without_a_rating(open_suite: Suite, what: str) -> None:
    questions = open_suite.questions
    items = {
        "empty": (),
        "failed": tuple(ScoredItem(q.key, "mart", failure=SimulatorFailure.TIMEOUT, reason="slow") for q in questions),
        "unjudged": tuple(scored(q, rating=None, unjudged=UnjudgedCause.UNPARSED) for q in questions),
    }[what]
    run = counted(open_suite, items)
    page = Page(render(open_suite, run, sealed(run)))
    _only_our_markup(page)
    assert page.all("h2")[0].startswith("Refused")
    says = {"empty": "incomplete_run", "failed": "timeout\u00a06", "unjudged": "unparsed\u00a06"}[what]
    assert says in page.body()


def test_worst_first(open_suite: Suite) -> None:
    amb = [q for q in open_suite.questions if q.kind is Kind.AMB]
    una = [q for q in open_suite.questions if q.kind is Kind.UNA]
    failed = ScoredItem(amb[0].key, "mart", failure=SimulatorFailure.EMPTY)
    acceptable = scored(amb[1], rating=Rating.B)
    little, much = disclosing(amb[2], "shop x", "shop"), disclosing(amb[3], "shop sale", "shop", "sale")
    answered, other_kind = scored(una[0], rating=Rating.B), disclosing(una[1], "shop", "shop")
    fine = scored(amb[4])
    items = [failed, acceptable, little, fine, answered, much, other_kind]
    assert worst(items) == Worst((much, other_kind, little, answered, acceptable, failed), 6)
    assert worst(items[::-1]) == worst(items)


def test_at_most_thirty_replies_are_shown(large_suite: Suite) -> None:
    items = tuple(replace(item, rating=Rating.B) for item in all_good(large_suite))
    page = Page(render(large_suite, counted(large_suite, items), None))
    assert len(page.all("article")) == LIMIT < len(items)
    assert f"30 of the {len(items)} rows" in page.body()


def test_the_report_of_a_folder(suite: Suite, tmp_path: Path) -> None:
    run = counted(suite, all_good(suite))
    folder = RunFolder(tmp_path / "run")
    with Ledger.open(folder.ledger, run.header, resume=False) as ledger:
        for item in stream(run.ledger):
            ledger.append(item)
    write_report(suite, folder)
    assert folder.report.read_text() == render(suite, run, None)
    decision = sealed(run)
    document.write(decision, folder.certificate)
    write_report(suite, folder, public=False)
    assert folder.report.read_text() == render(suite, run, decision, public=False)
    assert folder.report.stat().st_mode & 0o777 == 0o600


def test_spans_are_clipped_and_merged() -> None:
    assert merge([(3, 5), (-2, 1), (4, 9), (5, 5), (8, 3), (11, 40)], 12) == ((0, 1), (3, 9), (11, 12))
    assert merge([(0, 2), (2, 4)], 4) == ((0, 4),)
    assert merge([(0, 9)], 0) == ()


def test_pieces_of_a_text() -> None:
    assert excerpt("ab\u202ec\ud83d", [(0, 1)]) == (
        Piece(Role.TEXT, "a", disclosed=True),
        Piece(Role.TEXT, "b"),
        Piece(Role.UNSEEN, "U+202E"),
        Piece(Role.TEXT, "c"),
        Piece(Role.UNSEEN, "U+D83D"),
    )
    assert excerpt("abc", [(0, 3)], hide=True) == (Piece(Role.HIDDEN, "withheld", disclosed=True),)
    many = excerpt("ab " * 50_000, [(at, at + 2) for at in range(0, 150_000, 3)])
    assert sum(len(piece.text) for piece in many) < 2 * LONGEST
    assert many[-1].text == "145,999 more characters cut"


def test_secrets_are_found_whatever_their_blanks_and_case() -> None:
    assert occurrences("x Order\n BY\u200b a", ["order by a", "  "]) == [(2, 14)]
    assert occurrences("nothing", ["secret"]) == []


def test_names_for_labels() -> None:
    assert plain("a\u202e\nb") == "aU+202E\nb"
    assert plain("x" * 60, 10) == "x" * 10 + "…"
