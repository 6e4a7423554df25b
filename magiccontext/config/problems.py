"""What was wrong with a configuration, as values (config.md sections 1, 3 and "minimum data")."""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class Place(NamedTuple):
    """Where something stands in a text; both count from 1."""

    line: int
    column: int


class ProblemClass(StrEnum):
    """What kind of thing was wrong."""

    FILE_PARSE = "file-parse"
    FILE_IO = "file-io"
    INVALID_LEAF = "invalid-leaf"
    SUBSTITUTION = "substitution"
    SECURITY = "security"
    MIGRATION = "migration"


class Outcome(StrEnum):
    """How a load went, worst first (section 3). The two file outcomes are used for either tier."""

    PARSE_ERROR = "project-file-parse-error"
    IO_ERROR = "project-file-io-error"
    SCHEMA_RECOVERY = "schema-recovery"
    SUBSTITUTION_FAILURE = "substitution-failure"
    OK = "ok"


OUTCOME_OF: dict[ProblemClass, Outcome] = {
    ProblemClass.FILE_PARSE: Outcome.PARSE_ERROR,
    ProblemClass.FILE_IO: Outcome.IO_ERROR,
    ProblemClass.INVALID_LEAF: Outcome.SCHEMA_RECOVERY,
    ProblemClass.SUBSTITUTION: Outcome.SUBSTITUTION_FAILURE,
}


@dataclass(frozen=True)
class ConfigProblem:
    """One thing that was wrong. The message never holds a value of the file, which may be a secret.

    `line` and `column` count from 1 and are 0 when the problem has no place in the file. `recovered` says for
    a parse error whether any key survived.
    """

    problem_class: ProblemClass
    path: str
    message: str
    line: int = 0
    column: int = 0
    recovered: bool = False

    def warning(self) -> str:
        """The one line a person reads."""
        place = f"{self.path}:{self.line}:{self.column}" if self.line else self.path
        if self.problem_class is not ProblemClass.FILE_PARSE:
            return f"[user config] {place}: {self.message}"
        ending = (
            "recovered values were applied, but the file must be fixed."
            if self.recovered
            else "using defaults for this file."
        )
        return f"[user config] {place}: {self.message}; {ending}"


def outcome_of(problems: tuple[ConfigProblem, ...]) -> Outcome:
    """The worst outcome these problems stand for; security and migration notices alone are `ok`."""
    found = {OUTCOME_OF.get(problem.problem_class, Outcome.OK) for problem in problems}
    return next((outcome for outcome in Outcome if outcome in found), Outcome.OK)
