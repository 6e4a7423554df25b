"""Golden kinds 09 to 09e: per-model lookups against the reference (config.md section 10)."""

import json
from collections.abc import Callable
from typing import Any

from magiccontext.config import lookup

Golden = Callable[[str], list[dict[str, Any]]]

ONE_WALK = "one walk with the provider wildcard serves every per-model map (config.md section 10.1)"


def _decided_by_wildcard(answer: dict[str, Any]) -> bool:
    return str(answer.get("matched_key")).endswith("/*")


# Kind → which of our answers may differ from the reference's, and why.
DEVIATIONS: dict[str, tuple[Callable[[dict[str, Any]], bool], str]] = {
    "09c": (_decided_by_wildcard, ONE_WALK),
}


def _compare(
    kind: str, cases: list[dict[str, Any]], answer: Callable[[dict[str, Any]], dict[str, Any]]
) -> None:
    may_differ, _ = DEVIATIONS.get(kind, (lambda got: False, ""))
    wrong = []
    for case in cases:
        got = answer(case["input"])
        if got != case["expected"] and not may_differ(got):
            wrong.append(f"{json.dumps(case)} gave {got}")
    assert not wrong, "\n".join(wrong)


def test_the_keys_of_the_walk_come_in_the_reference_order(golden: Golden) -> None:
    def answer(given: dict[str, Any]) -> dict[str, Any]:
        return {"lookup_order": [[key, str(kind)] for key, kind in lookup.model_keys(given["model"])]}

    _compare("09", golden("09"), answer)


def test_a_map_gives_the_most_specific_value(golden: Golden) -> None:
    def answer(given: dict[str, Any]) -> dict[str, Any]:
        found = lookup.match_model(given["values"], given["model"])
        if found is None:
            return {"value": None, "source": None}
        return {"value": found.value, "source": str(found.key_class)}

    _compare("09b", golden("09b"), answer)


def test_the_execute_threshold_resolves_as_in_the_reference(golden: Golden) -> None:
    def answer(given: dict[str, Any]) -> dict[str, Any]:
        found = lookup.resolve_execute_threshold(
            given["percentage_config"],
            given.get("tokens_config"),
            given.get("context_limit"),
            given["model"],
            fallback=given["fallback"],
        )
        result = {
            "percentage": found.percentage,
            "mode": str(found.mode),
            "matched_key": found.matched_key,
            "clamped": found.clamped,
            "configured_value": found.configured_value,
        }
        if "tokens_config" in given:
            result["absolute_tokens"] = found.absolute_tokens
        return result

    _compare("09c", golden("09c"), answer)


def test_the_cache_lifetime_by_model(golden: Golden) -> None:
    def answer(given: dict[str, Any]) -> dict[str, Any]:
        return {"ttl": lookup.resolve_cache_ttl(given["cache_ttl"], given["model"]).text}

    _compare("09d", golden("09d"), answer)


def test_provider_names_between_hosts(golden: Golden) -> None:
    def answer(given: dict[str, Any]) -> dict[str, Any]:
        ref = given["ref"]
        return {
            "to_canonical_pi": lookup.canonical_model(ref, "pi"),
            "to_pi": lookup.host_model(ref, "pi"),
            "to_canonical_omp": lookup.canonical_model(ref, "omp"),
            "to_omp": lookup.host_model(ref, "omp"),
            "all": list(lookup.aliases_of(ref)),
        }

    _compare("09e", golden("09e"), answer)
