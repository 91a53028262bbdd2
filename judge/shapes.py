"""Judge: finds text that has the shape of SQL, and mentions of what a real user does not know to exist.

All expressions are ours and bounded, so that no reply makes them slow.
"""

import re
from collections.abc import Iterator

from judge.finding import Finding
from judge.passages import Passage
from judge.verdict import EvidenceKind

_KEYWORDS = (
    r"SELECT|FROM|WHERE|JOIN|GROUP BY|ORDER BY|HAVING|UNION|INSERT|UPDATE|DELETE|CREATE|ALTER|WITH|VALUES|LIMIT|CASE"
)
_FENCE = re.compile(r"```[^`]{0,4000}(?:```|$)")
_IN_FENCE = re.compile(rf"\b(?:{_KEYWORDS})\b|[=<>(]", re.IGNORECASE)
_FUNCTIONS = (
    r"count|sum|avg|min|max|coalesce|nullif|round|extract|date_trunc|date_part|to_char|to_date|cast|row_number|rank"
    r"|dense_rank|ntile|lag|lead|string_agg|array_agg|json_agg|percentile_cont|percentile_disc|unnest|greatest|least"
    r"|lower|upper|trim|substring|abs|ceil|floor|power|exp|sqrt|stddev|variance|age|now"
)
_LIST = r"[\w.\"]++(?:\s*+,\s*+[\w.\"]++){0,20}+"
_OPERAND = r"(?:'[^'\n]{0,80}'|[\w.]{1,60})"
_CODE = [
    re.compile(pattern)
    for pattern in (
        rf"\b(?i:{_FUNCTIONS})\((?!(?:s|es|d|ed|ing|imum|age)\))[^()\n]{{0,120}}\)?",
        rf"\b(?i:select)\s+(?i:distinct\s+)?(?:\*|\w+\(|{_LIST}\s+(?i:from)\s+[\w.\"]+\s*(?:;|(?i:where|group|order|join|limit)\b))",
        r"(?<![\w.\"])[\w.\"]++\s*+(?:=|<>|!=|>=|<=)\s*'[^'\n]{0,80}'",
        r"\b\w++\s++(?:(?i:i?like)\s+'[^'\n%]{0,60}%[^'\n]{0,60}'|(?i:in)\s*\(\s*'[^'\n]{0,80}')",
        rf"(?<![\w.])[a-zA-Z]\w*+\.[a-zA-Z]\w*+\s*+(?:=|<>|!=|>=|<=|<|>)\s*{_OPERAND}",
        rf"\b\w++\s*+(?:<>|!=)\s*{_OPERAND}",
        r"[\w)]::[a-zA-Z]\w*",
        r"\b(?i:interval)\s+'[^'\n]{0,40}'",
        r"\b(?i:is\s+(?:not\s+)?distinct\s+from)\b",
        r"\b(?i:delete\s+from|insert\s+into)\s+\w+\s*(?:\(|(?i:where|values|select)\b)",
    )
]
_UPPER = re.compile(
    r"\bSELECT\b|\bFROM\s+[\w.\"]+|\bWHERE\b(?:\s+\S+){0,3}|\b(?:GROUP|ORDER|PARTITION)\s+BY\b(?:\s+[\w.,]+)?"
    r"|\b(?:(?:LEFT|RIGHT|FULL|INNER|OUTER|CROSS)\s+){1,2}JOIN\b|\bJOIN\s+\w+|\bHAVING\b|\bINSERT\s+INTO\b"
    r"|\bDELETE\s+FROM\b|\bUPDATE\s+\w+\s+SET\b|\bCASE\s+WHEN\b|\bIS\s+(?:NOT\s+)?NULL\b|\bLIMIT\s+\d+"
    r"|\bUNION(?:\s+ALL)?\b|\bOVER\s*\(|\bBETWEEN\s+\S{1,40}\s+AND\b|\bCREATE\s+(?:TABLE|VIEW|INDEX)\b"
    r"|\b(?:COALESCE|NULLIF|ILIKE|DISTINCT\s+ON|ALTER\s+TABLE)\b"
)

_SQL = r"sql(?:\s+(?:query|queries|code|snippet|statement|solution|fragment)s?)?"
_SAYS = r"(?:says?|shows?|lists?|indicates?|defines?|specif(?:y|ies)|uses?|filters?|joins?|tells?|states?)"
_APPARATUS = {
    "reference": r"\b(?:reference|gold(?:en)?(?:[\s-]standard)?)\s+"
    rf"(?:{_SQL}|quer(?:y|ies)|solutions?|snippets?|answers?|code)\b|\bground[\s-]?truth\b",
    "target": rf"\b(?:expected|target|underlying|hidden|provided)\s+{_SQL}\b",
    "snippet": rf"\bsql\s+(?:snippet|fragment|segment|clause)s?\b|\b(?:the|this|that)\s+{_SQL}\s+{_SAYS}\b",
    "label": r"\b(?:un)?label+ed\s+ambigu\w+|\bannotated\s+ambigu\w+|\bambiguity\s+(?:label|annotation|type)s?\b"
    rf"|\bthe\s+annotations?\s+{_SAYS}\b",
    "action": r"\b(?:un)?label+ed\s?\(|\bunanswerable\b",
    "ai": r"\bas\s+an?\s+(?:ai|artificial|(?:large\s+)?language\s+model)\b"
    r"|\b(?:simulated\s+user|user\s+simulator)\b"
    r"|\bi(?:\s+am|['’]m)\s+(?:just\s+|only\s+)?an?\s+(?:ai|(?:large\s+)?language\s+model|simulated|chat\s?bot)\b",
    "prompt": r"\bmy\s+(?:system\s+prompt|programming)\b"
    rf"|\b(?:my\s+instructions|the\s+(?:system\s+)?prompt)\s+{_SAYS}\b",
    "schema": r"(?<!what )(?<!how )\b(?:the|your|our)\s+(?:database\s+|db\s+)?schema\s+"
    rf"(?:{_SAYS}|has|contains|includes|stores)\b"
    r"|\b(?:according\s+to|based\s+on|looking\s+at)\s+the\s+(?:database\s+|db\s+|provided\s+)?schema\b",
    "knowledge": r"\bexternal\s+knowledge\b",
}
_APPARATUS_RE = {name: re.compile(pattern, re.IGNORECASE) for name, pattern in _APPARATUS.items()}


def code(passage: Passage) -> Iterator[Finding]:
    """Stretches in the shape of SQL. Upper-case keywords count only where the text is not upper case throughout."""
    text = passage.text
    for fence in _FENCE.finditer(text):
        if _IN_FENCE.search(fence[0]):
            yield _found(EvidenceKind.CODE, fence)
    for pattern in _CODE if passage.shouts else [*_CODE, _UPPER]:
        for match in pattern.finditer(text):
            yield _found(EvidenceKind.CODE, match)


def apparatus(passage: Passage) -> Iterator[Finding]:
    """Mentions of the reference SQL, labels, actions, instructions, the schema as a source."""
    for name, pattern in _APPARATUS_RE.items():
        for match in pattern.finditer(passage.text):
            yield Finding(EvidenceKind.APPARATUS, name, match.start(), match.end())


def _found(kind: EvidenceKind, match: re.Match[str]) -> Finding:
    return Finding(kind, " ".join(match[0].casefold().split()), match.start(), match.end())
