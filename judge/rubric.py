"""Judge: the two rubrics and their menus of ratings."""

from enum import StrEnum

from suites.questions import Kind


class Rubric(StrEnum):
    """`published`: question and reply only. `reference`: also what a right answer conveys and what must stay hidden."""

    PUBLISHED = "published"
    REFERENCE = "reference"


class Rating(StrEnum):
    """AMB and LOC: A perfect, B acceptable, C bad. UNA: A refused, B answered (BIRD-Interact)."""

    A = "A"
    B = "B"
    C = "C"


MENU: dict[Kind, dict[Rating, str]] = {
    Kind.AMB: {Rating.A: "perfect", Rating.B: "acceptable", Rating.C: "bad"},
    Kind.LOC: {Rating.A: "perfect", Rating.B: "acceptable", Rating.C: "bad"},
    Kind.UNA: {Rating.A: "refused", Rating.B: "answered"},
}
"""The closed menu of each kind: rating to its published label."""


def accepted(kind: Kind, rating: Rating) -> bool:
    """Whether a rating counts as accepted: A or B for AMB and LOC, A alone for UNA (BIRD-Interact)."""
    if rating not in MENU[kind]:
        raise ValueError(f"rating {rating} is not on the menu of {kind}")
    return rating is Rating.A or (rating is Rating.B and kind is not Kind.UNA)
