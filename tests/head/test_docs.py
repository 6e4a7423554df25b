"""Documents the server reads itself (history-render section 1; section 11 cases 12 and 13)."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from magiccontext import config
from sessions_app.services import project_docs
from tests.head.conftest import Desk

Configured = Callable[..., None]


@pytest.fixture(autouse=True)
def _nothing_kept() -> None:
    project_docs.texts.clear()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with one project in it, and a secret beside the root."""
    project = tmp_path / "work" / "app"
    project.mkdir(parents=True)
    (project / "ARCHITECTURE.md").write_text("two parts\n")
    (project / "STRUCTURE.md").write_text("src, tests\n")
    (project / "README.md").write_text("hello\n")
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "ARCHITECTURE.md").write_text("secret\n")
    return tmp_path / "work"


def read(directory: Path | str, *roots: Path) -> list[tuple[str, str]]:
    return list(project_docs.read(str(directory), [str(root) for root in roots]))


BOTH = [("ARCHITECTURE.md", "two parts\n"), ("STRUCTURE.md", "src, tests\n")]


def test_they_are_read_below_a_root_in_their_order(root: Path) -> None:
    assert read(root / "app", root) == BOTH
    assert read(root / "app", root / "app") == BOTH
    assert read(root / "app", root.parent / "elsewhere", root) == BOTH


def test_without_a_root_nothing_is_read(root: Path) -> None:
    assert read(root / "app") == []


@pytest.mark.parametrize(
    "directory",
    [
        "../secret",
        "app/../../secret",
        "app/..",
        "../elsewhere/app",
        "missing",
        "app/README.md",
        "app/ARCHITECTURE.md",
    ],
)
def test_nothing_outside_of_a_root_is_read(root: Path, directory: str) -> None:
    assert read(f"{root}/{directory}", root) == []
    assert read(directory, root) == []


def test_a_directory_that_only_begins_like_a_root_is_outside(root: Path) -> None:
    beside = root.with_name("work-2")
    beside.mkdir()
    (beside / "ARCHITECTURE.md").write_text("no\n")
    assert read(beside, root) == []


@pytest.mark.parametrize("linked", ["the file", "its directory", "a directory above"])
def test_13_nothing_is_read_through_a_link(root: Path, linked: str) -> None:
    secret = root.parent / "secret"
    if linked == "the file":
        (root / "app" / "ARCHITECTURE.md").unlink()
        (root / "app" / "ARCHITECTURE.md").symlink_to(secret / "ARCHITECTURE.md")
        assert read(root / "app", root) == BOTH[1:]
    elif linked == "its directory":
        (root / "link").symlink_to(secret)
        assert read(root / "link", root) == []
    else:
        (root / "up").symlink_to(root.parent)
        assert read(root / "up" / "secret", root) == []


def test_a_root_may_be_a_link_because_the_person_named_it(root: Path) -> None:
    alias = root.with_name("alias")
    alias.symlink_to(root)
    assert read(alias / "app", alias) == BOTH


def test_13_a_link_put_there_after_the_first_look_is_not_followed(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = root / "app" / "ARCHITECTURE.md"
    look = os.stat

    def swapping(path: str, **more: object) -> os.stat_result:
        found = look(path, **more)  # type: ignore[arg-type]
        if path == "ARCHITECTURE.md":
            target.unlink()
            target.symlink_to(root.parent / "secret" / "ARCHITECTURE.md")
        return found

    monkeypatch.setattr(os, "stat", swapping)
    assert read(root / "app", root) == BOTH[1:]


def test_13_a_file_that_grew_after_the_first_look_is_absent(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = os.stat

    def growing(path: str, **more: object) -> os.stat_result:
        found = look(path, **more)  # type: ignore[arg-type]
        if path == "ARCHITECTURE.md":
            (root / "app" / path).write_text("x" * (project_docs.MOST_BYTES + 1))
        return found

    monkeypatch.setattr(os, "stat", growing)
    assert read(root / "app", root) == BOTH[1:]


@pytest.mark.parametrize(("size", "counts"), [(256 * 1024, True), (256 * 1024 + 1, False)])
def test_13_the_largest_file_that_counts(root: Path, size: int, counts: bool) -> None:
    (root / "app" / "ARCHITECTURE.md").write_text("x" * size)
    assert [name for name, _ in read(root / "app", root)] == ["ARCHITECTURE.md"] * counts + ["STRUCTURE.md"]


def test_what_is_no_regular_file_is_absent_and_holds_nothing_up(root: Path) -> None:
    for name in ("ARCHITECTURE.md", "STRUCTURE.md"):
        (root / "app" / name).unlink()
    os.mkfifo(root / "app" / "ARCHITECTURE.md")
    (root / "app" / "STRUCTURE.md").mkdir()
    assert read(root / "app", root) == []


def test_bytes_that_are_no_text_do_not_fail(root: Path) -> None:
    (root / "app" / "ARCHITECTURE.md").write_bytes(b"a\xff\x00b")
    assert read(root / "app", root)[0] == ("ARCHITECTURE.md", "a\ufffd\x00b")


def test_a_file_is_read_again_only_when_it_looks_different(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Modification time, size or inode."""
    opened: list[str] = []
    keep = project_docs.texts.put

    def noting(key: tuple[str, str], looks: project_docs.Print, text: str) -> None:
        opened.append(key[1])
        keep(key, looks, text)

    monkeypatch.setattr(project_docs.texts, "put", noting)
    target = root / "app" / "ARCHITECTURE.md"
    read(root / "app", root)
    read(root / "app", root)
    assert opened == ["ARCHITECTURE.md", "STRUCTURE.md"]
    seen = target.stat()
    target.write_text("TWO PARTS\n")
    os.utime(target, ns=(seen.st_atime_ns, seen.st_mtime_ns + 1))
    assert read(root / "app", root)[0][1] == "TWO PARTS\n"
    fresh = target.with_name("new")
    fresh.write_text("2 parts..\n")
    os.utime(fresh, ns=(seen.st_atime_ns, seen.st_mtime_ns + 1))
    fresh.replace(target)
    assert read(root / "app", root)[0][1] == "2 parts..\n"


def test_no_descriptor_stays_open(root: Path) -> None:
    listed = Path("/proc/self/fd")
    if not listed.exists():
        pytest.skip("this system does not list open files")
    before = len(list(listed.iterdir()))
    for _ in range(20):
        read(root / "app", root)
        read(root / "missing", root)
    assert len(list(listed.iterdir())) == before


# in a pass


@pytest.mark.django_db
def test_a_host_that_sends_none_gets_those_of_its_directory(
    desk: Desk, root: Path, configured: Configured
) -> None:
    configured(project_docs_root=[str(root)])
    desk.members["project"] = {**desk.members["project"], "directory": str(root / "app")}
    before = desk.step()
    assert "<project-docs>" not in before.m0  # no reason to fold
    folded = desk.serve(model="anthropic/claude-opus-4-5")
    assert '<file name="ARCHITECTURE.md">\ntwo parts\n</file>' in folded.m0
    assert folded.m0.index("ARCHITECTURE.md") < folded.m0.index("STRUCTURE.md")
    desk.members["project"] = {**desk.members["project"], "docs": {"STRUCTURE.md": "as sent"}}
    sent = desk.serve(model="anthropic/claude-haiku")
    assert "as sent" in sent.m0 and "two parts" not in sent.m0


@pytest.mark.django_db
def test_without_the_setting_nothing_is_read(desk: Desk, root: Path) -> None:
    desk.members["project"] = {**desk.members["project"], "directory": str(root / "app")}
    assert "<project-docs>" not in desk.serve(model="anthropic/claude-opus-4-5").m0


@pytest.mark.parametrize(("given", "kept"), [("work", []), ("", []), ("/srv/work", ["/srv/work"])])
def test_a_root_that_is_not_absolute_is_none(configured: Configured, given: str, kept: list[str]) -> None:
    configured(project_docs_root=[given])
    assert config.load().config.project_docs_root == kept
