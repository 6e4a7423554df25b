"""Finding, recovering and re-reading the user's file (config.md sections 1, 3, 7 and 9)."""

import json
import os
from pathlib import Path

import pytest

from magiccontext.config.files import ConfigReader, Loaded, find_file, read_file, user_config_base
from magiccontext.config.problems import Outcome, ProblemClass
from magiccontext.config.schema import Config, restart_keys


@pytest.fixture
def base(tmp_path: Path) -> Path:
    (tmp_path / "cortexkit").mkdir()
    return tmp_path / "cortexkit" / "magic-context"


def write(base: Path, content: object, suffix: str = ".jsonc") -> Path:
    path = base.with_name(base.name + suffix)
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def read(base: Path, content: object, environment: dict[str, str] | None = None) -> Loaded:
    return read_file(write(base, content), environment or {}, base.parent)


def messages(loaded: Loaded) -> str:
    return "\n".join(problem.warning() for problem in loaded.problems)


def test_no_file_gives_the_defaults(base: Path) -> None:
    loaded = read_file(find_file(base), {}, base.parent)
    assert loaded.config == Config()
    assert (loaded.problems, loaded.outcome) == ((), Outcome.OK)
    assert loaded.path.name == "magic-context.jsonc"


@pytest.mark.parametrize(
    ("xdg", "root"), [("/conf", "/conf"), ("relative", "/home/u/.config"), ("", "/home/u/.config")]
)
def test_the_folder_follows_xdg_only_when_it_is_absolute(xdg: str, root: str) -> None:
    found = user_config_base({"XDG_CONFIG_HOME": xdg}, Path("/home/u"))
    assert found == Path(root) / "cortexkit" / "magic-context"


def test_jsonc_is_taken_before_json_and_they_are_never_combined(base: Path) -> None:
    write(base, {"enabled": False}, ".json")
    assert find_file(base).suffix == ".json"
    write(base, {"smart_drops": False})
    loaded = read_file(find_file(base), {}, base.parent)
    assert (loaded.config.smart_drops, loaded.config.enabled) == (False, True)


def test_every_key_reads_back(base: Path) -> None:
    written = {
        "$schema": "https://example.org/schema.json",
        "enabled": False,
        "cache_ttl": {"default": "5m", "openai/*": "1h"},
        "output_reserve": {"default": 8000},
        "compaction": {"enabled": False},
        "execute_threshold_percentage": {"default": 70, "x/y": 80.5},
        "execute_threshold_tokens": {"x/y": 90000},
        "protected_tokens": 20000.0,
        "protected_tools": {"mcp_TodoWrite": 4, "bash": 2},
        "keep_reasoning_tokens": 0,
        "history_budget_percentage": 0.2,
        "historian_timeout_ms": 60000,
        "smart_drops": False,
        "temporal_awareness": False,
        "fail_closed_blocking": False,
        "sqlite": {"cache_size_mb": 128, "mmap_size_mb": 256},
        "unknown_key": [1, 2],
    }
    loaded = read(base, written)
    assert loaded.problems == ()
    config = loaded.config
    assert config.protected_tools == {"todowrite": 4, "ctx_reduce": 3, "bash": 2}
    assert config.protected_tokens == 20000
    assert (config.execute_threshold_percentage, config.cache_ttl) == (
        written["execute_threshold_percentage"],
        written["cache_ttl"],
    )
    assert (config.enabled, config.compaction.enabled, config.sqlite.mmap_size_mb) == (False, False, 256)


def test_an_invalid_value_inside_an_object_costs_that_value_alone(base: Path) -> None:
    loaded = read(base, '{\n"sqlite": {"cache_size_mb": 1,\n "mmap_size_mb": 16}, "smart_drops": false}')
    assert (loaded.config.sqlite.cache_size_mb, loaded.config.sqlite.mmap_size_mb) == (64, 16)
    assert loaded.config.smart_drops is False
    assert loaded.outcome is Outcome.SCHEMA_RECOVERY
    [problem] = loaded.problems
    assert (problem.problem_class, problem.line) == (ProblemClass.INVALID_LEAF, 2)
    assert "sqlite.cache_size_mb" in problem.message


def test_an_invalid_entry_of_a_map_leaves_its_siblings(base: Path) -> None:
    loaded = read(base, {"execute_threshold_percentage": {"default": 70, "x/y": 95, "(per model)": 80}})
    assert loaded.config.execute_threshold_percentage == {"default": 70, "(per model)": 80}
    assert "execute_threshold_percentage.x/y: number 95" in messages(loaded)
    assert "90" in messages(loaded)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("enabled", 1),
        ("enabled", "true"),
        ("cache_ttl", 300),
        ("output_reserve", -1),
        ("compaction", False),
        ("execute_threshold_percentage", 19.9),
        ("execute_threshold_percentage", 90.5),
        ("execute_threshold_percentage", "65"),
        ("execute_threshold_percentage", True),
        ("execute_threshold_tokens", 50000),
        ("protected_tokens", 3999),
        ("protected_tokens", 4000.5),
        ("protected_tokens", "20k"),
        ("protected_tools", ["bash"]),
        ("keep_reasoning_tokens", 1_000_001),
        ("history_budget_percentage", 0.51),
        ("historian_timeout_ms", 59_999),
        ("sqlite", "big"),
    ],
)
def test_an_invalid_key_takes_its_default_and_the_others_stay(base: Path, key: str, value: object) -> None:
    loaded = read(base, {key: value, "temporal_awareness": False})
    assert getattr(loaded.config, key) == getattr(Config(), key)
    assert loaded.config.temporal_awareness is False
    assert loaded.outcome is Outcome.SCHEMA_RECOVERY
    assert key in messages(loaded)


def test_a_number_too_large_for_a_number_is_no_setting(base: Path) -> None:
    loaded = read(base, '{"historian_timeout_ms": 1e999}')
    assert loaded.config.historian_timeout_ms == 600_000
    assert loaded.outcome is Outcome.SCHEMA_RECOVERY


def test_an_old_count_of_protected_tags_is_recognised(base: Path) -> None:
    assert "old number of tags" in messages(read(base, {"protected_tokens": 20}))


def test_a_bad_protected_tool_is_found_under_the_name_it_was_written(base: Path) -> None:
    loaded = read(base, {"protected_tools": {"mcp_TodoWrite": -1, "bash": 2}})
    assert loaded.config.protected_tools == {"todowrite": 1, "ctx_reduce": 3, "bash": 2}
    assert "protected_tools.mcp_TodoWrite" in messages(loaded)


def test_a_secret_put_in_never_shows_in_a_problem(base: Path) -> None:
    loaded = read(base, '{"history_budget_percentage": "{env:KEY}"}', {"KEY": "sk-very-secret"})
    assert "sk-very-secret" not in messages(loaded) + repr(loaded.problems)
    assert "string, 14 chars" in messages(loaded)


def test_a_broken_file_gives_what_can_be_read_and_says_where(base: Path) -> None:
    loaded = read(base, '{"smart_drops": false,\n "enabled" false}')
    assert (loaded.config.smart_drops, loaded.config.enabled) == (False, True)
    assert loaded.outcome is Outcome.PARSE_ERROR
    [problem] = loaded.problems
    assert (problem.line, problem.recovered) == (2, True)
    assert problem.warning().endswith("recovered values were applied, but the file must be fixed.")


def test_an_empty_file_gives_the_defaults_and_says_so(base: Path) -> None:
    loaded = read(base, "")
    assert loaded.config == Config()
    assert loaded.problems[0].warning().endswith("using defaults for this file.")


def test_a_folder_in_place_of_the_file_is_an_io_error(base: Path) -> None:
    find_file(base).mkdir()
    loaded = read_file(find_file(base), {}, base.parent)
    assert (loaded.config, loaded.outcome) == (Config(), Outcome.IO_ERROR)


def test_unsafe_keys_are_reported_and_no_failure(base: Path) -> None:
    loaded = read(base, '{"sqlite": {"__proto__": 1}, "smart_drops": false}')
    assert loaded.config.smart_drops is False
    assert [problem.problem_class for problem in loaded.problems] == [ProblemClass.SECURITY]
    assert loaded.outcome is Outcome.OK


# --- reading again (section 9) ---------------------------------------------------------------------------


def reader_of(base: Path) -> ConfigReader:
    return ConfigReader(base, {}, base.parent)


def touch_later(path: Path, seconds: int) -> None:
    os.utime(path, (path.stat().st_atime, path.stat().st_mtime + seconds))


def test_an_unchanged_file_is_not_read_again(base: Path) -> None:
    write(base, {"cache_ttl": "1h"})
    reader = reader_of(base)
    assert reader.load() is reader.load()


def test_a_live_key_changes_at_once_and_a_restart_key_waits(base: Path) -> None:
    path = write(base, {"cache_ttl": "1h", "smart_drops": True})
    reader = reader_of(base)
    reader.load()
    write(base, {"cache_ttl": "30m", "smart_drops": False, "historian_timeout_ms": 70000})
    touch_later(path, 5)
    loaded = reader.load()
    assert (loaded.config.cache_ttl, loaded.config.historian_timeout_ms) == ("30m", 70000)
    assert loaded.config.smart_drops is True
    assert loaded.waiting == ("smart_drops",)


def test_removing_a_live_key_makes_it_a_default_again(base: Path) -> None:
    path = write(base, {"cache_ttl": "5m", "smart_drops": False})
    reader = reader_of(base)
    assert "cache_ttl" in reader.load().config.model_fields_set
    write(base, {"smart_drops": False})
    touch_later(path, 5)
    config = reader.load().config
    assert "cache_ttl" not in config.model_fields_set
    assert "smart_drops" in config.model_fields_set


@pytest.mark.parametrize("content", ['{"cache_ttl": "30m",', {"cache_ttl": 7}, ""])
def test_a_half_written_save_changes_nothing(base: Path, content: object) -> None:
    path = write(base, {"cache_ttl": "1h"})
    reader = reader_of(base)
    reader.load()
    write(base, content)
    touch_later(path, 5)
    loaded = reader.load()
    assert loaded.config.cache_ttl == "1h"
    assert (loaded.adopted, bool(loaded.problems)) == (False, True)
    write(base, {"cache_ttl": "2h"})
    touch_later(path, 10)
    assert (reader.load().config.cache_ttl, reader.load().adopted) == ("2h", True)


def test_the_keys_that_apply_live_are_those_of_the_spec() -> None:
    assert set(Config.model_fields) - restart_keys() == {"cache_ttl", "historian_timeout_ms"}
