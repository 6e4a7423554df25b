"""Making the most of invalid values (config.md section 7).

An invalid value inside an object costs that value alone; an invalid top-level value costs that key. Either
way its default applies, everything beside it stays, and the message names the place and the *shape* of what
was there, because substitution may already have put a secret into it.
"""

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from magiccontext.config.jsonc import KeyPath
from magiccontext.config.problems import ConfigProblem, Place, ProblemClass
from magiccontext.config.schema import UNION_TAGS, Config
from magiccontext.engine.toolnames import tool_key

OLD_PROTECTED_TAGS_HINT = "values below 4000 look like the old number of tags; protected_tokens counts tokens"


def shape_of(value: object) -> str:
    """A value described without showing it; numbers and truth values are harmless and shown."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return f"boolean {str(value).lower()}"
    if isinstance(value, int | float):
        return f"number {value:g}"
    if isinstance(value, str):
        return f"string, {len(value)} chars"
    if isinstance(value, list):
        return f"array of {len(value)}"
    if isinstance(value, dict):
        return f"object with keys {', '.join(sorted(map(str, value)))}" if value else "empty object"
    return type(value).__name__


def _owned_path(raw: Mapping[str, Any], location: tuple[str | int, ...]) -> KeyPath:
    """The path of the deepest object member an issue concerns.

    Union tags are not steps; a path that goes through an array stops at the member that owns the array.
    """
    path: list[str | int] = []
    current: Any = raw
    for step in location:
        if step in UNION_TAGS:
            continue
        if not isinstance(current, dict) or step not in current:
            break
        path.append(step)
        current = current[step]
    return tuple(path)


def _value_at(raw: Mapping[str, Any], path: KeyPath) -> Any:
    current: Any = raw
    for step in path:
        current = current[step]
    return current


def _remove(raw: dict[str, Any], path: KeyPath) -> None:
    owner: Any = raw
    for step in path[:-1]:
        owner = owner[step]
    owner.pop(path[-1], None)


def _message(path: KeyPath, value: object, issue: ErrorDetails) -> str:
    reason = issue["msg"]
    if path == ("protected_tokens",) and isinstance(value, int | float) and value < 4000:
        reason = f"{reason}; {OLD_PROTECTED_TAGS_HINT}"
    dotted = ".".join(str(step) for step in path)
    return f"{dotted}: {shape_of(value)} is not usable, its default applies ({reason})"


def recover(
    raw: Mapping[str, Any], places: Mapping[KeyPath, Place], config_path: Path
) -> tuple[Config, list[ConfigProblem]]:
    """The settings a raw object gives, and one problem for each value that was left out. Never raises."""
    kept = copy.deepcopy(dict(raw))
    problems: list[ConfigProblem] = []
    # Removing an outer value can only take issues away, so each round leaves out at least one value or ends.
    while True:
        try:
            return Config.model_validate(kept), problems
        except ValidationError as error:
            issues = error.errors(include_url=False, include_input=False, include_context=False)
        removed: set[KeyPath] = set()
        for issue in issues:
            path = _owned_path(kept, _normal_location(kept, issue["loc"]))
            if path and path not in removed:
                removed.add(path)
                place = places.get(path, Place(0, 0))
                problems.append(
                    ConfigProblem(
                        ProblemClass.INVALID_LEAF,
                        str(config_path),
                        _message(path, _value_at(kept, path), issue),
                        place.line,
                        place.column,
                    )
                )
        if not removed:
            message = "the settings could not be used; all defaults apply"
            problems.append(ConfigProblem(ProblemClass.INVALID_LEAF, str(config_path), message))
            return Config(), problems
        for path in sorted(removed, key=len, reverse=True):
            _remove(kept, path)


def _normal_location(raw: Mapping[str, Any], location: tuple[str | int, ...]) -> tuple[str | int, ...]:
    """An issue's location in the words of the file, where a tool's name may be spelled in another way."""
    if len(location) == 2 and location[0] == "protected_tools":
        for written in raw["protected_tools"]:
            if tool_key(written) == location[1]:
                return (location[0], written)
    return location
