"""Judge: how often a judge errs, measured against people on held-out rows, and the strict reader of that file."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from benchmark_core.digest import digest
from benchmark_core.errors import InputError
from suites.questions import Kind

FORMAT = "usersim-guard/calibration/1"


class Share(NamedTuple):
    """So many of `n` rows."""

    successes: int
    n: int


@dataclass(frozen=True, slots=True)
class KindError:
    """A judge's errors on one kind.

    Attributes:
        sens: of the rows that people accept, those that the judge accepts.
        spec: of the rows that people do not accept, those that the judge does not accept.
        kappa_lower: lower 95 % bound of Cohen's kappa with people.
    """

    sens: Share
    spec: Share
    kappa_lower: float

    @property
    def informedness(self) -> float:
        """Sensitivity + specificity; 1 is guessing, 2 is perfect."""
        return self.sens.successes / self.sens.n + self.spec.successes / self.spec.n


@dataclass(frozen=True, slots=True)
class Calibration:
    """A judge's errors per kind. `judge` is the digest of the judge measured; no other judge may use them."""

    judge: str
    kinds: Mapping[Kind, KindError]

    def require_judge(self, judge: str) -> None:
        """Raise `InputError` unless this is the calibration of the judge with this digest."""
        if self.judge != judge:
            raise InputError(
                f"the calibration is of judge {self.judge}, the run was judged by {judge}; calibrate that one"
            )

    def to_json(self) -> dict[str, Any]:
        """The file's content."""
        kinds = {
            kind: {"sens": error.sens._asdict(), "spec": error.spec._asdict(), "kappa_lower": error.kappa_lower}
            for kind, error in self.kinds.items()
        }
        return {"format": FORMAT, "judge": self.judge, "split": "held-out", "kinds": kinds}

    @property
    def digest(self) -> str:
        """`sha256:…` over the content."""
        return digest(self.to_json())


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _ShareRow(_Row):
    successes: Annotated[int, Field(ge=0)]
    n: Annotated[int, Field(ge=1)]

    @model_validator(mode="after")
    def _no_more_than_all(self) -> Self:
        if self.successes > self.n:
            raise ValueError(f"{self.successes} successes of {self.n} rows")
        return self

    def build(self) -> Share:
        return Share(self.successes, self.n)


class _KindRow(_Row):
    sens: _ShareRow
    spec: _ShareRow
    kappa_lower: Annotated[float, Field(ge=-1, le=1, allow_inf_nan=False)]

    def build(self) -> KindError:
        return KindError(self.sens.build(), self.spec.build(), self.kappa_lower)


class _KindRows(_Row):
    AMB: _KindRow
    LOC: _KindRow
    UNA: _KindRow


class CalibrationFile(_Row):
    format: Literal["usersim-guard/calibration/1"]
    judge: Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]
    split: Literal["held-out"]
    kinds: _KindRows


def load_calibration(path: Path) -> Calibration:
    """Read a calibration file.

    Raises:
        InputError: a file that cannot be read or does not have the format, with the field at fault.
    """
    try:
        file = CalibrationFile.model_validate_json(path.read_bytes())
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        raise InputError(f"{path}: field '{field}': {first['msg']}; expected the format {FORMAT}") from None
    rows = {Kind.AMB: file.kinds.AMB, Kind.LOC: file.kinds.LOC, Kind.UNA: file.kinds.UNA}
    return Calibration(file.judge, MappingProxyType({kind: row.build() for kind, row in rows.items()}))
