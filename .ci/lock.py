"""Write the lock files from the packages installed here: `python .ci/lock.py`, in an up-to-date `.venv`.

A lock file names the exact version of everything the project's declared dependencies pull in, and nothing
else that happens to be installed.
"""

import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
# File → the extras whose packages it holds beside the plain dependencies.
LOCK_FILES: dict[str, tuple[str, ...]] = {
    "requirements.lock": ("postgres", "redis"),
    "requirements-dev.lock": ("postgres", "redis", "dev"),
}


def closure(requirements: list[Requirement]) -> dict[str, str]:
    """Line of each package needed by these requirements in this environment, by its normal name.

    Raises PackageNotFoundError when one of them is not installed.
    """
    lines: dict[str, str] = {}
    seen: set[tuple[str, frozenset[str]]] = set()
    waiting = [(requirement, "") for requirement in requirements]
    while waiting:
        requirement, extra = waiting.pop()
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
            continue
        name = canonicalize_name(requirement.name)
        key = (name, frozenset(requirement.extras))
        if key in seen:
            continue
        seen.add(key)
        found = distribution(requirement.name)
        lines[name] = f"{name}=={found.version}{_platform_condition(requirement)}"
        for text in found.requires or []:
            inner = Requirement(text)
            waiting += [(inner, wanted) for wanted in ("", *requirement.extras)]
    return lines


def _platform_condition(requirement: Requirement) -> str:
    text = str(requirement.marker or "")
    return f" ; {text}" if "win32" in text and "extra" not in text else ""


def main() -> None:
    """Write every lock file."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    for name, extras in LOCK_FILES.items():
        texts = [*project["dependencies"]]
        for extra in extras:
            texts += project["optional-dependencies"][extra]
        try:
            lines = closure([Requirement(text) for text in texts])
        except PackageNotFoundError as error:
            raise SystemExit(f"{error.name} is not installed here; nothing was written to {name}") from error
        (ROOT / name).write_text("".join(f"{line}\n" for _, line in sorted(lines.items())), "utf-8")


if __name__ == "__main__":
    main()
