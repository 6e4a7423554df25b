"""`{env:NAME}` and `{file:PATH}` in a person's own file (config.md section 2).

Works on the text before it is parsed. What is put in is JSON-escaped, so that no value can end the string it
stands in. Comments are gone by then, so a token in a comment does nothing. A value never reaches a message.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from magiccontext.config.jsonc import strip_comments
from magiccontext.config.problems import ConfigProblem, ProblemClass

_ENV = re.compile(r"\{env:([^{}]*)\}")
_FILE = re.compile(r"\{file:([^{}]*)\}")

# Folders whose content is a key to something else; reading them is allowed, and said aloud.
SENSITIVE_FOLDERS = (".ssh", ".aws", ".gnupg", ".config/gh")


@dataclass
class _Substitution:
    config_path: Path
    environment: Mapping[str, str]
    home: Path
    problems: list[ConfigProblem] = field(default_factory=list)

    def _report(self, text: str, at: int, kind: ProblemClass, message: str) -> None:
        line = text.count("\n", 0, at) + 1
        column = at - (text.rfind("\n", 0, at) + 1) + 1
        self.problems.append(ConfigProblem(kind, str(self.config_path), message, line, column))

    def env(self, text: str, found: re.Match[str]) -> str:
        name = found[1].strip()
        if not name:
            return found[0]
        value = self.environment.get(name, "")
        if not value:
            message = f"the environment variable {name} is unset or empty; an empty text was put in"
            self._report(text, found.start(), ProblemClass.SUBSTITUTION, message)
        return _escaped(value)

    def file(self, text: str, found: re.Match[str]) -> str:
        written = _unescaped(found[1]).strip()
        if not written:
            return found[0]
        path = self._resolved(written)
        if any(path.is_relative_to(self.home / folder) for folder in SENSITIVE_FOLDERS):
            message = f"{written} lies in a folder that holds credentials; its content was put in"
            self._report(text, found.start(), ProblemClass.SECURITY, message)
        try:
            content = path.read_text(encoding="utf-8-sig", errors="replace")
        except (OSError, ValueError):
            message = f"the file {written} is missing or cannot be read; an empty text was put in"
            self._report(text, found.start(), ProblemClass.SUBSTITUTION, message)
            return ""
        return _escaped(content.strip())

    def _resolved(self, written: str) -> Path:
        if written.startswith("~/"):
            return Path.resolve(self.home / written[2:])
        return Path.resolve(self.config_path.parent / written)


def _escaped(value: str) -> str:
    return json.dumps(value)[1:-1]


def _unescaped(written: str) -> str:
    # The path stands inside a JSON string, so a backslash in it is written twice.
    try:
        value = json.loads(f'"{written}"')
    except ValueError:
        return written
    return str(value)


def _replace(text: str, pattern: re.Pattern[str], value_of: Callable[[str, re.Match[str]], str]) -> str:
    return pattern.sub(lambda found: value_of(text, found), text)


def substitute(
    text: str, config_path: Path, environment: Mapping[str, str], home: Path
) -> tuple[str, list[ConfigProblem]]:
    """The text without comments and with its tokens replaced, and what could not be.

    Environment first, so that a variable may be part of a file's path. Relative paths start at the folder of
    `config_path`, `~/` at `home`. A token with nothing inside stays as written.
    """
    work = _Substitution(config_path, environment, home.resolve())
    text = _replace(strip_comments(text), _ENV, work.env)
    text = _replace(text, _FILE, work.file)
    return text, work.problems
