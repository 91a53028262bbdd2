"""Judge: whether a reply refuses or deflects, in ordinary English, and whether it answers all the same.

A refusal speaks of the answering itself ("I can't help with that", "no idea", "that's for you to work out"). A negation
inside an answer ("cancelled ones can't count", "I don't want refunds included", "no, leave them out") is none: the
patterns ask for the speaker as subject and a verb of telling or knowing, or for what only a refusal says.
"""

import re

_SOFT = r"(?:(?:really|actually|honestly|just|simply|even|afraid|possibly|very|also|personally|quite|sure|exactly)\s)"
_TELL = (
    r"(?:help|answer|say|tell|share|provide|give|reveal|disclose|discuss|comment|speak|talk|confirm|go\sinto"
    r"|get\sinto"
    r"|advise|walk|show\syou|do\s(?:that|this|so|sql)|judge|verify|check|review|assist|respond|reply|write"
    r"|produce|name"
    r"|hand|spell|explain|clarify|describe|guide|guess|weigh\sin|vouch|speculate|elaborate|break\s(?:that"
    r"|it)\sdown|supply"
    r"|be\s(?:of\s(?:much\s)?help|able\sto|the\sone)|get\syou|enlighten|recall|decide\sthat|know|look\sthat"
    r"|offer\syou)"
)
_TELLING = (
    r"(?:giving|sharing|answering|telling|writing|providing|discussing|explaining|showing|going\sinto|getting\sinto)"
)
_CANNOT = (
    r"(?:can't|can\s?not|cant|could(?:n't|\snot)|won't|will\snot|would(?:n't|\snot)|should(?:n't|\snot)"
    r"|must(?:n't|\snot)"
    r"|(?:am|'m|are|'re)\s(?:afraid\s)?not\s(?:able|going|allowed|permitted|supposed|willing|prepared|here"
    r"|in\sa\sposition)\sto"
    r"|(?:am|'m|are|'re)\s(?:unable|unwilling)\sto|(?:'d|would|had)\s(?:rather|prefer|sooner|better)\snot(?:\sto)?"
    r"|(?:'d|'ll)\snot|prefer\snot\sto|do(?:n't|\snot)\s(?:want|wish|intend|feel\sable|plan)\sto"
    r"|(?:(?:must|have\sto|will)\s)?(?:decline|refuse)\sto)"
)
_OPENING = r"(?:^|[,;:—–-]\s?|\b(?:but|and|so|because|since|as|sorry|afraid|unfortunately|apologies|no)\s)"
_SPEAKER = rf"(?:\bi(?:\s|(?='))|{_OPENING}we(?:\s|(?=')))"
_IT = (
    r"(?:that|this|it|those|these|how(?:\s[\w']+){1,5}?|the\s\w+(?:\s\w+){0,3}|what\syou(?:'re"
    r"|\sare)\sasking(?:\sfor)?)"
)
_IS = r"(?:'s|'re|\sis|\sare|\swould\sbe|\ssounds\slike|\sgoes|\sfalls|\slies)"
_WORK_OUT = r"(?:work|figure|find|look|check|sort|decide|see|dig|determine|judge|choose|handle|settle|make|do)"
_YOURSELF = r"(?:yourself|yourselves|on\syour\sown|for\syourself|without\sme|from\syour\s(?:side|end))"
_FIELD = (
    r"(?:area|department|call|field|job|expertise|business|side|line|concern|decision|remit|place|part"
    r"|task|choice|work)"
)

_PATTERNS = {
    "cannot tell": rf"{_SPEAKER}{_SOFT}*{_CANNOT}\s{_SOFT}{{0,3}}{_TELL}\b",
    "cannot tell, without subject": rf"{_OPENING}(?:but\s)?(?:{_CANNOT}|unable\sto|not\s(?:able"
    rf"|going)\sto)\s{_SOFT}*{_TELL}\b",
    "not telling": rf"{_SPEAKER}(?:won't|will\snot|'m\snot"
    rf"|am\snot)\s(?:be\s)?{_SOFT}*(?:comfortable\s(?:with\s)?)?{_TELLING}\b",
    "not the one to ask": r"\b(?:not\sthe\s(?:right\s|best\s)?(?:person|one)|asking\sthe\swrong|wrong\sperson)\b",
    "do not know": rf"(?:{_SPEAKER}|^){_SOFT}*(?:do(?:n't|\snot)|would(?:n't|\snot))\s{_SOFT}*(?:know"
    r"|understand|remember|recall)\b"
    r"(?!\s(?:of\s)?(?:any|a|the)\sreason)",
    "have not": rf"{_SPEAKER}{_SOFT}*(?:do(?:n't|\snot)|have(?:n't|\snot))\s{_SOFT}*(?:have|got|seen|looked\sat)\s"
    r"(?:access|that|this|those|any\s(?:idea|information|knowledge|access|details?|view|visibility)|a\s(?:clue"
    r"|view|preference)|the\s(?:clue|faintest|foggiest))",
    "do not deal with": rf"{_SPEAKER}{_SOFT}*(?:do(?:n't|\snot)|never)\s{_SOFT}*(?:deal\swith|work\swith|handle"
    r"|get\sinto|touch|look\sat|see|keep\strack"
    r"|worry\sabout|bother\swith|do\s(?:sql|that|databases?)|speak\ssql|write\s(?:sql|queries|code)"
    r"|care\s(?:how|which|what\sit)|mind\s(?:how|which|either))\b"
    rf"|{_SPEAKER}don't\s(?:share|discuss|mind)(?:\s(?:that|this|those|it))?\s?[.!,;]?$",
    "have no": rf"{_SPEAKER}(?:'ve\s|have\s|'ve\sgot\s|have\sgot\s|got\s){_SOFT}*(?:no|nothing|zero"
    r"|little)\s(?:\w+\s)?"
    r"(?:idea|clue|knowledge|access|insight|view|visibility|notion|information|opinion|preference|to\s(?:say"
    r"|add|offer|share))\b",
    "no idea": r"\b(?:no\s(?:idea|clue|comment|preference|opinion|way\sof\s(?:knowing|telling))|dunno|beats\sme"
    r"|not\sa\sclue|haven't\sa\sclue"
    r"|search\sme|who\sknows|hard\s(?:for\sme\s)?to\ssay|your\sguess\sis\sas\sgood|can't\shelp\syou"
    r"|nothing\si\scan\s(?:tell|say|help|share))\b",
    "not sure": rf"(?:(?:{_SPEAKER}(?:'m|am)\s|^){_SOFT}*not\s{_SOFT}*(?:sure|certain)|^unsure)\b\s?(?:$|[.!,;]"
    r"|about\s(?:that|this|any|it|the)\b"
    r"|what\b|which\b|how\b|where\b|if\si\b|i\s(?:can|follow|understand))",
    "out of reach": rf"\b{_IT}{_IS}?\s(?:\w+\s){{0,3}}?(?:out\sof|outside(?:\sof)?|beyond|above|not\swithin|over)\s"
    r"(?:what\s(?:i|we)\b|me\b|the\sscope|anything\si|my\s(?:head|pay|knowledge|scope|remit|reach|role|area"
    r"|depth|expertise|understanding))",
    "something I do not": rf"\b{_IT}{_IS}\s(?:\w+\s)?(?:something|anything|things?|information|details?"
    r"|a\s\w+(?:\s\w+)?)\s(?:that\s)?"
    r"(?:i|we)(?:'d\s(?:leave|rather)|\s(?:leave|can't|cannot|couldn't|won't|wouldn't|am\snot|never\s(?:see"
    r"|know|handle))|'m\snot"
    r"|\sdon't\s(?:know|have|see|deal|do\b|handle|understand|discuss|share))",
    "not something I": r"\b(?:isn't|aren't|not)\s(?:something|anything|things|information)\s(?:that\s)?(?:i"
    r"|we)(?:'d|'m|\s(?:can|could|would|know|have|do|am|deal|want))\b",
    "not mine": rf"\b(?:not|isn't|aren't)\s{_SOFT}*my\s{_FIELD}\b|\bnot\sfor\sme\sto\b|\babove\smy\spay\b"
    r"|\bover\smy\shead\b",
    "yours": rf"\b{_IT}{_IS}\s(?:\w+\s)?(?:up\sto\syou|on\syou|your\s(?:own\s)?{_FIELD}|(?:a\s(?:matter"
    r"|question|job)|one|something)\sfor\s(?:you|the|some(?:one|body))"
    r"|for\syou\s(?:to|and)|one\sfor\syou)\b|\bone's\sfor\syou\b",
    "something you should": r"\b(?:something|things?|one)\s(?:that\s)?you(?:'ll|'d|\swill"
    rf"|\swould)?\s(?:have\sto|need\sto|should|must|can|could|want\sto|get\sto)?\s?{_WORK_OUT}\b",
    "work it out yourself": rf"\byou(?:'ll|'d)?\s(?:\w+\s){{0,4}}?{_WORK_OUT}\b(?:\s\w+){{0,6}}?\s{_YOURSELF}\b"
    rf"|^(?:please\s)?{_WORK_OUT}\s(?:\w+\s){{0,4}}?{_YOURSELF}\b",
    "you have to work out": r"\byou(?:'ll|'d|\swill|\swould)?\s(?:have|need)\sto\s(?:work|figure|find|sort"
    r"|puzzle)\s(?:that|this|it|those|them)\s(?:\w+\s)?out\b",
    "leave it to you": r"\bleav(?:e|ing)\s(?:\w+\s){1,6}?(?:up\s)?(?:to\syou|with\syou|in\syour\shands)\b",
    "only know": r"\bi\s(?:can|could|do|will)\sonly\s(?:tell|say|speak|help|answer|talk|know|describe|explain"
    r"|share)\b|\bi\sonly\s(?:know|understand)\b",
    "ask another": r"\bask\s(?:me\s)?(?:something|anything|some(?:one|body))\b|\bask\s(?:your"
    r"|the)\s(?:\w+\s){0,2}(?:team|admin|dba|people|developers?|engineers?|experts?)\b",
    "either": r"\b(?:whichever|whatever)\s(?:way\s)?(?:you\s(?:think|like|prefer|find|feel|want|choose)|works"
    r"|suits|seems)\b|\beither\s(?:way|one)?\s?(?:is\sfine|works)\b",
    "no matter": r"\b(?:doesn't|does\snot)\smatter\sto\sme\b|\bno\sdifference\sto\sme\b|\bup\sto\syou\b"
    r"|\byour\scall\b|\byou\s(?:decide|choose|pick)\b[.!]?$|\bmeans?\s(?:nothing|little)\sto\sme\b",
    "pass": r"\b(?:pass|decline)\son\s(?:that|this|it)\b|\b(?:i(?:'ll|\swill)|i\shave\sto|i\smust)\s(?:pass"
    r"|decline)\b|\bnot\sat\sliberty\b|\bi\s(?:decline|refuse)\b",
    "only sorry": r"^(?:(?:i'm\s)?(?:sorry|apologies|afraid\snot)|(?:i'm\s)?afraid\snot|no\scan\sdo"
    r"|not\spossible|nope?,?\ssorry|sorry,?\sno)[.! ]*$",
}
_REFUSALS = tuple(re.compile(pattern) for pattern in _PATTERNS.values())

_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_CLAUSE = re.compile(r"[.!?;\n]+\s*|\s[—–-]\s|,?\s\b(?:but|however|though|although|still|instead|anyway)\b,?\s*")
_STEP = re.compile(
    r"\b(?:join|filter|group|sort|order|aggregate|sum|add\sup|average|count|divide|multiply|subtract|select"
    r"|rank|combine"
    r"|partition|merge|keep|match|link|take|pick|limit|compute|calculate|restrict)\b"
)
_TEACHES = re.compile(
    r"\b(?:first|then|next|finally|after\sthat|(?:start|begin)\s(?:by|with)|step\s\d"
    r"|you\s(?:should|need|could|would|can|have|just|want|must))\b"
)
_APPROVES = re.compile(
    r"\b(?:that|it|this|your\s\w+|the\s(?:query|sql|join|logic))\s(?:\w+\s)?(?:looks?|is|seems?|sounds?)\s(?:\w+\s)?"
    r"(?:right|correct|good|fine|ok|okay|wrong|incorrect)\b"
)


def is_refusal(text: str) -> bool:
    """Whether some sentence of the text refuses, deflects, or says that the speaker does not know."""
    return any(_refuses(sentence) for sentence in _SENTENCE.split(_plain(text)))


def answers_beside(text: str) -> bool:
    """Whether a text, beside refusing, teaches steps of a solution or approves one: a refusal in name only."""
    rest = [clause for clause in _CLAUSE.split(_plain(text)) if not _refuses(clause)]
    if any(_APPROVES.search(clause) for clause in rest):
        return True
    steps = {found for clause in rest for found in _STEP.findall(clause)}
    return len(steps) > 1 and any(_TEACHES.search(clause) for clause in rest)


def _refuses(sentence: str) -> bool:
    return any(pattern.search(sentence) for pattern in _REFUSALS)


def _plain(text: str) -> str:
    return re.sub(r"[^\S\n]+", " ", text.replace("’", "'").replace("‘", "'").casefold()).strip()
