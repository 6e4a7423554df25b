"""When m[0] is rendered anew (history-render section 5; worked examples 39 to 47)."""

from dataclasses import replace
from typing import Any

import pytest

from magiccontext.engine.head import m1
from magiccontext.engine.head.materialize import (
    TRIGGERS,
    Due,
    Weight,
    adopted,
    bust,
    due,
    moved,
    overweight,
    pressure_refold,
    same_base,
    workspace_fingerprint,
)
from magiccontext.engine.head.model import Budgets, HeadSource, Member, Mural, Pair, ProfileEntry, Workspace
from tests.engine.head.building import (
    BUDGETS,
    MODEL,
    NOW,
    PROJECT,
    compartment,
    count,
    fold,
    memory,
    mutation,
    refresh,
    signals,
    source,
)

OTHER = "git:other"
WORKSPACE = Workspace((Member(PROJECT, "own", epoch=3), Member(OTHER, "svc", epoch=4)))
GIVEN = source(
    compartments=(compartment(0),), memories=(memory(1),), memory_epoch=7, structural_mutation_id=2
)
PAIR = fold(GIVEN, tool_fingerprint="t1")


def reason(
    pair: Pair | None = PAIR, given: HeadSource = GIVEN, budgets: Budgets = BUDGETS, **known: Any
) -> str | None:
    found = due(pair, given, budgets, signals(**known))
    return found and found.reason


def stored(**fields: Any) -> Pair:
    return replace(PAIR, markers=replace(PAIR.markers, **fields))


def test_nothing_changed_nothing_due() -> None:
    assert reason() is None


# reason as recorded, what is stored, what is now
FIRES: list[tuple[str, Pair | None, dict[str, Any], dict[str, Any]]] = [
    ("first_render", None, {}, {}),
    ("first_render", replace(PAIR, m0=""), {}, {}),
    ("cached_m1_missing", replace(PAIR, m1=""), {}, {}),
    ("render_config:memory_disabled", PAIR, {"memory_enabled": False}, {}),
    ("compartment_render_epoch", stored(compartment_epoch="cre1"), {}, {}),
    ("compartment_render_epoch", stored(compartment_epoch=None), {}, {}),
    ("render_config:mural(off→on)", PAIR, {"mural_enabled": True}, {}),
    ("render_config:mural(on→off)", stored(mural_flag=True), {}, {}),
    (
        "render_config:budget(m5000-hp0.15:percentage:65→m4000-hp0.15:percentage:65)",
        stored(policy="m5000-hp0.15:percentage:65"),
        {},
        {},
    ),
    ("render_config:budget_shrink(m4000-h19697→m4000-h19500)", stored(allowances="m4000-h19697"), {}, {}),
    ("model_change", PAIR, {}, {"model_key": "openai/gpt"}),
    ("model_change", stored(model_key=""), {}, {}),
    ("system_hash", PAIR, {}, {"system_hash": "s2"}),
    ("system_hash", stored(system_hash=""), {}, {}),
    ("tool_list", PAIR, {}, {"tool_fingerprint": "t2"}),
    ("ttl_idle", PAIR, {}, {"now_ms": NOW + 400_001, "last_response_ms": NOW + 100_000}),
    ("host_compaction", PAIR, {}, {"now_ms": NOW + 9, "host_compaction_ms": NOW + 1}),
    ("project_change", PAIR, {"project": "git:elsewhere"}, {}),
    ("project_memory_epoch", PAIR, {"memory_epoch": 8}, {}),
    ("project_memory_epoch", PAIR, {"workspace": WORKSPACE}, {}),
    ("max_mutation_id", PAIR, {"structural_mutation_id": 3}, {}),
    ("upgrade_state", stored(upgrade_state="legacy"), {}, {}),
]


@pytest.mark.parametrize(("expected", "pair", "world", "known"), FIRES)
def test_every_trigger_fires(
    expected: str, pair: Pair | None, world: dict[str, Any], known: dict[str, Any]
) -> None:
    assert reason(pair, replace(GIVEN, **world), **known) == expected


def test_every_trigger_is_tested() -> None:
    assert {trigger.name for trigger in TRIGGERS} == {expected.partition("(")[0] for expected, *_ in FIRES}


@pytest.mark.parametrize(("expected", "pair", "world", "known"), FIRES)
def test_every_fold_consumes_its_reason(
    expected: str, pair: Pair | None, world: dict[str, Any], known: dict[str, Any]
) -> None:
    """Case 3 for every row: with the markers of the fold, nothing is due any more."""
    given = replace(GIVEN, **world)
    folded = fold(given, before=pair, **known)
    assert reason(folded, given, **known) is None


def test_the_first_hit_wins() -> None:
    everything = stored(compartment_epoch="x", model_key="x", system_hash="x", upgrade_state="legacy")
    assert reason(everything) == "compartment_render_epoch"
    assert reason(replace(everything, m1=""), replace(GIVEN, memory_enabled=False)) == "cached_m1_missing"


# Section 5, "Not triggers".
QUIET: list[tuple[Pair, dict[str, Any], dict[str, Any]]] = [
    (PAIR, {"compartments": (compartment(0), compartment(1))}, {}),
    (PAIR, {"profile_version": 9}, {}),
    (PAIR, {"memories": (memory(1), memory(2))}, {}),
    (PAIR, {"mutation_head": 99, "mutations": (mutation(99, "archive", 1),)}, {}),
    (stored(docs_hash="other"), {}, {}),
    (stored(memory_render_epoch="other"), {}, {}),
    (PAIR, {"compartments": (compartment(0, importance=99),)}, {}),
    (PAIR, {"memories": ()}, {}),
    (stored(mural_flag=None, policy=None, allowances=None), {}, {}),
    (stored(project=None), {}, {}),
    (stored(tool_fingerprint=""), {}, {"tool_fingerprint": "t9"}),
    (PAIR, {"project": ""}, {}),
]


@pytest.mark.parametrize(("pair", "world", "known"), QUIET)
def test_what_is_no_trigger(pair: Pair, world: dict[str, Any], known: dict[str, Any]) -> None:
    assert reason(pair, replace(GIVEN, **world), **known) is None


def test_calibration_and_growth_are_no_trigger() -> None:
    assert reason(budgets=replace(BUDGETS, ratio=1.7)) is None
    assert reason(budgets=replace(BUDGETS, history=900_000, memory=20_000)) is None


# Pressure backstop: examples 39 to 42.
@pytest.mark.parametrize(
    ("number", "m0_tokens", "m1_tokens", "entries", "bound"),
    [
        (39, 40_000, 3_900, 0, None),
        (39, 40_000, 3_901, 0, "budget"),
        (40, 20_000, 3_000, 0, None),
        (40, 20_000, 3_001, 0, "ratio"),
        (41, 499, 400, 0, None),
        (42, 40_000, 100, 40, None),
        (42, 40_000, 100, 41, "entries"),
    ],
)
def test_backstop(number: int, m0_tokens: int, m1_tokens: int, entries: int, bound: str | None) -> None:
    assert overweight(Weight(m0_tokens, m1_tokens, 19_500, entries)) == bound


def test_case_28_a_placeholder_never_refolds() -> None:
    assert overweight(Weight(500, 5_000, 100, placeholder=True)) is None
    assert not pressure_refold(fold(source()), Budgets(1, 500, 1), count)


def test_case_29_a_tiny_m0_with_a_growing_m1_refolds_by_the_cap() -> None:
    pair = fold(source())
    news = source(compartments=tuple(compartment(n, p1="x" * 700) for n in range(30)))
    assert pressure_refold(refresh(pair, news), BUDGETS, count)
    assert not pressure_refold(
        refresh(pair, replace(news, compartments=news.compartments[:5])), BUDGETS, count
    )


def test_update_entries_of_the_bytes_count() -> None:
    pool = tuple(memory(number) for number in range(1, 60))
    pair = fold(source(memories=pool))
    assert count([pair.m0])[0] < 500
    for entries, refold in ((40, False), (41, True)):
        rows = tuple(mutation(n, "update", n, new_content="x") for n in range(1, entries + 1))
        after = refresh(pair, source(memories=pool, mutations=rows))
        assert m1.update_entries(after.m1) == entries
        assert pressure_refold(after, replace(BUDGETS, history=10**6), count) == refold


# Examples 43 and 44: last response at 1,000,000, lifetime 5 minutes.
@pytest.mark.parametrize(
    ("number", "now_ms", "materialized_ms", "expected"),
    [
        (43, 1_300_000, 0, None),
        (43, 1_300_001, 0, "ttl_idle"),
        (44, 1_300_001, 999_999, "ttl_idle"),
        (44, 1_300_001, 1_000_000, None),
    ],
)
def test_idle(number: int, now_ms: int, materialized_ms: int, expected: str | None) -> None:
    pair = stored(materialized_ms=materialized_ms)
    assert reason(pair, now_ms=now_ms, last_response_ms=1_000_000, ttl_ms=300_000) == expected


def test_without_a_response_there_is_no_idling() -> None:
    assert reason(now_ms=NOW * 9, last_response_ms=0) is None


def test_case_25_a_turn_of_many_steps_folds_once() -> None:
    answered = NOW + 1_000
    pair, folds = PAIR, 0
    for step in range(5):
        known = {"now_ms": NOW + 400_000 + step, "last_response_ms": answered}
        if reason(pair, **known):
            pair, folds = fold(GIVEN, before=pair, **known), folds + 1
    assert folds == 1
    assert reason(pair, now_ms=NOW + 900_000, last_response_ms=NOW + 500_000) == "ttl_idle"


def test_case_26_a_cache_that_never_expires_never_idles() -> None:
    assert reason(now_ms=NOW * 1_000, last_response_ms=NOW + 1, ttl_ms=float("inf")) is None


def test_case_01_a_publication_changes_no_byte() -> None:
    published = replace(GIVEN, compartments=(compartment(0), compartment(1)))
    assert reason(PAIR, published) is None


def test_case_03_markers_that_are_not_adopted_fold_for_ever() -> None:
    moved_on = replace(GIVEN, memory_epoch=8)
    assert reason(PAIR, moved_on) == reason(PAIR, moved_on) == "project_memory_epoch"
    assert reason(fold(moved_on, before=PAIR, tool_fingerprint="t1"), moved_on) is None


def test_case_08_a_missing_m1_is_made_anew_with_the_history() -> None:
    torn = replace(PAIR, m1="")
    assert reason(torn) == "cached_m1_missing"
    healed = fold(GIVEN, before=torn, tool_fingerprint="t1")
    assert healed.complete
    assert (healed.m0, healed.boundary) == (PAIR.m0, PAIR.boundary)


def test_case_11_an_expiry_passing_waits_for_the_next_fold() -> None:
    given = source(memories=(memory(1, expires_ms=NOW + 10),))
    pair = fold(given)
    assert reason(pair, given, now_ms=NOW + 1_000) is None
    assert refresh(pair, given) == pair
    assert "fact 1" not in fold(given, now_ms=NOW + 1_000).m0


def test_case_21_leaving_a_workspace_folds_although_the_epochs_agree() -> None:
    inside = replace(GIVEN, workspace=WORKSPACE)
    pair = fold(inside)
    assert reason(pair, inside) is None
    assert reason(pair, GIVEN) == "project_memory_epoch"


@pytest.mark.parametrize(
    "changed",
    [
        replace(WORKSPACE, members=(*WORKSPACE.members, Member("git:third"))),
        replace(WORKSPACE, share_categories='["NAMING"]'),
        replace(WORKSPACE, members=(WORKSPACE.members[0], Member(OTHER, "svc", epoch=5))),
    ],
)
def test_the_fingerprint_sees_members_sharing_and_epochs(changed: Workspace) -> None:
    assert workspace_fingerprint(changed) != workspace_fingerprint(WORKSPACE)


def test_the_fingerprint_ignores_order_and_needs_two() -> None:
    turned = replace(WORKSPACE, members=WORKSPACE.members[::-1])
    assert workspace_fingerprint(turned) == workspace_fingerprint(WORKSPACE)
    assert workspace_fingerprint(Workspace(WORKSPACE.members[:1])) is None


def test_inside_a_workspace_the_own_epoch_is_not_compared() -> None:
    pair = fold(replace(GIVEN, workspace=WORKSPACE))
    assert reason(pair, replace(GIVEN, workspace=WORKSPACE, memory_epoch=99)) is None


def test_case_22_numbers_that_went_back_fold_too() -> None:
    assert reason(PAIR, replace(GIVEN, memory_epoch=6)) == "project_memory_epoch"
    assert reason(PAIR, replace(GIVEN, structural_mutation_id=1)) == "max_mutation_id"


ALIASES = {"anthropic-alias/claude": MODEL, "anthropic-alias/other": "anthropic/other"}


def test_case_23_an_alias_is_the_same_model_another_model_is_not() -> None:
    def canonical(key: str) -> str:
        return ALIASES.get(key, key)

    assert reason(model_key="anthropic-alias/claude", canonical=canonical) is None
    assert reason(stored(model_key="anthropic-alias/claude"), canonical=canonical) is None
    assert reason(model_key="anthropic-alias/other", canonical=canonical) == "model_change"


def test_case_24_what_is_unknown_on_this_pass_fires_nothing_and_is_not_recorded() -> None:
    assert reason(model_key="", system_hash="", tool_fingerprint="") is None
    blind = fold(GIVEN, before=PAIR, model_key="", system_hash="", tool_fingerprint="")
    assert (blind.markers.model_key, blind.markers.system_hash, blind.markers.tool_fingerprint) == (
        MODEL,
        "s1",
        "t1",
    )


@pytest.mark.parametrize(
    ("cause", "same", "busts"),
    [
        (Due("model_change", True), True, True),
        (Due("max_mutation_id", False), True, False),
        (Due("max_mutation_id", False), False, True),
    ],
)
def test_case_27_a_fold_that_changes_nothing_carries_nobody(cause: Due, same: bool, busts: bool) -> None:
    after = PAIR if same else replace(PAIR, m0=PAIR.m0 + "!")
    assert bust(cause, PAIR, after) == busts


def test_another_image_or_m1_is_a_bust_and_so_is_the_first_render() -> None:
    quiet = Due("upgrade_state", False)
    assert bust(quiet, PAIR, replace(PAIR, mural=Mural("data:")))
    assert bust(quiet, PAIR, replace(PAIR, m1="x"))
    first = due(None, source(), BUDGETS, signals())
    assert first is not None
    assert bust(first, None, fold(source()))


@pytest.mark.parametrize(
    "name", ["model_change", "system_hash", "tool_list", "ttl_idle", "host_compaction", "first_render"]
)
def test_reasons_that_lose_the_cache(name: str) -> None:
    assert next(trigger for trigger in TRIGGERS if trigger.name == name).loses_cache


def test_no_other_reason_loses_the_cache() -> None:
    assert sum(trigger.loses_cache for trigger in TRIGGERS) == 6


def test_case_34_memory_off_drops_its_blocks_at_once_and_settles() -> None:
    given = replace(GIVEN, profile=(ProfileEntry(1, "p", 1),))
    pair, off = fold(given), replace(given, memory_enabled=False)
    assert reason(pair, off) == "render_config:memory_disabled"
    bare = fold(off, before=pair)
    assert "memory" not in bare.m0 + bare.m1
    assert "profile" not in bare.m0 + bare.m1
    assert reason(bare, off) is None


def test_memory_off_also_drops_news_in_m1() -> None:
    pair = refresh(fold(source()), source(memories=(memory(1),)))
    assert reason(pair, source(memory_enabled=False)) == "render_config:memory_disabled"


def test_case_36_the_mural_goes_with_one_fold_and_a_newer_one_waits() -> None:
    drawn = replace(GIVEN, mural=Mural("data:1", "h1"), mural_enabled=True, images_accepted=True)
    pair = fold(drawn)
    redrawn = replace(drawn, mural=Mural("data:2", "h2"))
    assert reason(pair, redrawn) is None
    assert refresh(pair, redrawn).mural == Mural("data:1", "h1")
    off = replace(drawn, mural_enabled=False)
    assert reason(pair, off) == "render_config:mural(on→off)"
    gone = fold(off, before=pair)
    assert (gone.mural, reason(gone, off)) == (None, None)


def test_case_42_a_sibling_that_changed_only_the_documents_does_not_matter() -> None:
    assert same_base(stored(docs_hash="other"), PAIR)
    assert same_base(replace(PAIR, m1="other"), PAIR)
    assert not same_base(replace(PAIR, m0="other"), PAIR)
    assert not same_base(replace(PAIR, mural=Mural("data:")), PAIR)
    assert not same_base(stored(max_memory_id=9), PAIR)


def test_adopted_writes_what_was_never_recorded_and_nothing_else() -> None:
    known = signals(tool_fingerprint="t9")
    found = adopted(stored(project=None, tool_fingerprint=""), GIVEN, known).markers
    assert (found.project, found.tool_fingerprint) == (PROJECT, "t9")
    assert adopted(PAIR, GIVEN, known) is PAIR


@pytest.mark.parametrize(
    ("world", "retry"),
    [
        ({}, False),
        ({"memories": (memory(1), memory(2))}, False),
        ({"memory_epoch": 8}, True),
        ({"workspace": WORKSPACE}, True),
        ({"profile_version": 1}, True),
        ({"compartments": (compartment(0), compartment(1))}, True),
        ({"structural_mutation_id": 3}, True),
        ({"mutation_head": 1}, True),
        ({"compartments": (compartment(0, legacy=True),)}, True),
        ({"project": "git:elsewhere"}, True),
    ],
)
def test_what_sends_a_fold_back(world: dict[str, Any], retry: bool) -> None:
    assert moved(PAIR.markers, replace(GIVEN, **world)) == retry
