"""Guard: refuses, before anything is spent, what the data at hand cannot carry, and says how it is obtained."""

from collections.abc import Iterator

from benchmark_core.errors import InputError
from guard.choices import CONTROLS, MODEL_SIMULATORS, PLUGIN, SIMULATORS, Choices
from guard.scoring import Plan
from judge.rubric import Rubric
from suites.questions import Kind
from suites.suite import Part, Suite, how_to_get

_OF_MODELS = (Part.TASKS, Part.GOLD, Part.DATABASES)


def demand(suite: Suite, work: Plan, choices: Choices) -> None:
    """Check that simulator and judge exist and have what they need for the questions of a plan.

    Raises:
        InputError: naming what is missing and how it is obtained.
    """
    name = choices.simulator.name
    if name not in SIMULATORS and not name.startswith(PLUGIN):
        raise InputError(f"--simulator {name}: expected one of {', '.join(SIMULATORS)}")
    if problems := [*_simulator(suite, work, choices), *_judge(work, choices)]:
        raise InputError("\n".join(problems))


def _simulator(suite: Suite, work: Plan, choices: Choices) -> Iterator[str]:
    name = choices.simulator.name
    if name in CONTROLS and any(question.reference is None for question in work.questions):
        yield f"--simulator {name}: controls answer from references, and official questions have none"
    needs = _OF_MODELS if name in MODEL_SIMULATORS else ()
    if name == "remote" and choices.simulator.remote and choices.simulator.remote.sends_oracle:
        needs = _OF_MODELS
    asked = {question.key.instance_id for question in work.questions}
    for part in needs:
        if lacking := sorted(asked & set(suite.lacking[part])):
            named = ", ".join(lacking[:5]) + (", …" if len(lacking) > 5 else "")
            yield f"--simulator {name}: {len(lacking)} of {len(asked)} tasks lack {part} ({named}). {how_to_get(part)}"


def _judge(work: Plan, choices: Choices) -> Iterator[str]:
    without = [question for question in work.questions if question.reference is None]
    if choices.judge.endpoint is None and any(question.kind is not Kind.UNA for question in without):
        yield (
            "--judge rule: rates AMB and LOC by references, and official questions have none: "
            "say --judge llm --rubric published (or --kinds UNA, which is a partial run)"
        )
    if choices.judge.endpoint is not None and choices.judge.rubric is Rubric.REFERENCE and without:
        yield "--rubric reference: official questions have no references: say --rubric published"
