"""What of a request makes m[0] anew, and that a head outlives the process (history-render section 5)."""

from __future__ import annotations

from typing import Any

from sessions_app.models import HeadState
from sessions_app.services.cache import states
from tests.transform.conftest import Caller, exchange

OWN_TOOLS = {"own_tools": True}


def tool(name: str = "bash", description: str = "runs a command", **schema: Any) -> dict[str, Any]:
    return {"name": name, "description": description, "input_schema": {"type": "object", **schema}}


def made() -> int:
    return HeadState.objects.get().materialized_ms


def test_hosts_case_20_a_tools_schema_is_no_trigger_its_name_and_description_are(caller: Caller) -> None:
    """Hosts section 11, 20; history-render section 5, row 10."""
    array = exchange(2)
    caller.transform(array, tools=[tool()], capabilities=OWN_TOOLS)
    first = made()
    caller.transform(array, tools=[tool(properties={"command": {}})], capabilities=OWN_TOOLS)
    assert made() == first
    for changed in (tool(description="runs"), tool("shell", "runs")):
        before = made()
        caller.transform(array, tools=[changed], capabilities=OWN_TOOLS)
        assert made() > before


def test_where_the_host_does_not_say_that_the_tools_are_the_sessions_own_they_are_no_trigger(
    caller: Caller,
) -> None:
    """Section 5, row 10: never for such a host."""
    array = exchange(2)
    caller.transform(array, tools=[tool()])
    first = made()
    caller.transform(array, tools=[tool("shell")])
    assert made() == first


def test_only_the_words_of_the_system_prompt_are_its_hash(caller: Caller) -> None:
    """Replay-lanes 13.3: markers come and go, and JSON has many spellings; neither loses a prefix."""
    array = exchange(2)
    plain = {"type": "text", "text": "You are an agent.\nToday's date: Monday\n\ud83d"}
    caller.transform(array, system=[plain])
    first = made()
    marker = {"type": "ephemeral", "ttl": "1h"}
    for same in (
        [{**plain, "cache_control": marker}],
        [{"cache_control": marker, **plain}],
        [{**plain, "text": plain["text"].replace("Monday", "Tuesday")}],
        plain["text"],
    ):
        assert caller.transform(array, system=same).json()["pass"]["permitted"] == "defer"
        assert made() == first
    caller.transform(array, system=[{**plain, "text": "You are a poet."}])
    assert made() > first


def test_a_head_is_replayed_by_another_process(caller: Caller) -> None:
    """Design section 5: the stored rows give the same bytes and the same markers."""
    array = exchange(3)
    first = caller.transform(array, project={"identity": "git:a", "docs": {"STRUCTURE.md": "rooms"}})
    head, stamp = caller.head(first), made()
    states.clear()
    again = caller.transform(array, project={"identity": "git:a", "docs": {"STRUCTURE.md": "halls"}})
    assert caller.head(again) == head and "rooms" in str(head) and made() == stamp
