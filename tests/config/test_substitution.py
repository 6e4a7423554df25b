"""`{env:}` and `{file:}` (config.md section 2; cases 12 to 15)."""

from pathlib import Path

import pytest

from magiccontext.config.jsonc import parse
from magiccontext.config.problems import ProblemClass
from magiccontext.config.substitution import substitute


@pytest.fixture
def config_path(tmp_path: Path) -> Path:
    folder = tmp_path / "cortexkit"
    folder.mkdir()
    return folder / "magic-context.jsonc"


def test_a_variable_is_put_in(config_path: Path, tmp_path: Path) -> None:
    text, problems = substitute('{"a": "{env: TTL }"}', config_path, {"TTL": "1h"}, tmp_path)
    assert parse(text).value == {"a": "1h"}
    assert problems == []


@pytest.mark.parametrize("value", ['","enabled":false,"x":"', 'say "hi"\nand\tmore', "back\\slash", "\x00"])
def test_a_value_cannot_leave_its_string(config_path: Path, tmp_path: Path, value: str) -> None:
    text, _ = substitute('{"a": "{env:X}"}', config_path, {"X": value}, tmp_path)
    assert parse(text).value == {"a": value}


@pytest.mark.parametrize("environment", [{}, {"X": ""}])
def test_a_missing_variable_gives_an_empty_text_and_a_problem(
    config_path: Path, tmp_path: Path, environment: dict[str, str]
) -> None:
    text, problems = substitute('{\n  "api_key": "{env:X}"}', config_path, environment, tmp_path)
    assert parse(text).value == {"api_key": ""}
    assert [(p.problem_class, p.line, p.column) for p in problems] == [(ProblemClass.SUBSTITUTION, 2, 15)]


def test_a_file_is_put_in_trimmed(config_path: Path, tmp_path: Path) -> None:
    (config_path.parent / "secret").write_text('  top "secret"\n')
    text, problems = substitute('{"a": "{file:secret}"}', config_path, {}, tmp_path)
    assert parse(text).value == {"a": 'top "secret"'}
    assert problems == []


def test_a_tilde_means_home_and_a_variable_may_build_a_path(config_path: Path, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("k")
    text, problems = substitute(
        '{"a": "{file:~/key}", "b": "{file:{env:ROOT}/key}"}', config_path, {"ROOT": str(tmp_path)}, tmp_path
    )
    assert parse(text).value == {"a": "k", "b": "k"}
    assert problems == []


def test_a_missing_file_gives_an_empty_text_and_a_problem(config_path: Path, tmp_path: Path) -> None:
    text, problems = substitute('{"a": "{file:nowhere}"}', config_path, {}, tmp_path)
    assert parse(text).value == {"a": ""}
    assert [problem.problem_class for problem in problems] == [ProblemClass.SUBSTITUTION]


@pytest.mark.parametrize("folder", [".ssh", ".aws", ".gnupg", ".config/gh"])
def test_a_file_in_a_folder_of_credentials_still_expands_with_a_notice(
    config_path: Path, tmp_path: Path, folder: str
) -> None:
    (tmp_path / folder).mkdir(parents=True)
    (tmp_path / folder / "token").write_text("s3cret")
    text, problems = substitute(f'{{"a": "{{file:~/{folder}/token}}"}}', config_path, {}, tmp_path)
    assert parse(text).value == {"a": "s3cret"}
    assert [problem.problem_class for problem in problems] == [ProblemClass.SECURITY]
    assert "s3cret" not in problems[0].message


def test_tokens_without_a_name_and_tokens_in_comments_do_nothing(config_path: Path, tmp_path: Path) -> None:
    text, problems = substitute(
        '{"a": "{env:}", "b": "{file: }" // {env:MISSING} {file:/nowhere}\n}', config_path, {}, tmp_path
    )
    assert parse(text).value == {"a": "{env:}", "b": "{file: }"}
    assert problems == []
