import pytest

from magiccontext.engine.notation import (
    clean_assistant_text,
    is_placeholder_text,
    placeholder,
    prefix_for,
    strip_notation,
)

LEADING = [
    ("plain", "plain"),
    ("§12§ text", "text"),
    ("§12§text", "text"),
    ("§12§ §13§  text", "text"),
    ('§12">§13§ text', "text"),
    ('§12">§13§ §14§ text', "text"),
    ("§103012$ text", " text"),
    ("§3.5 stays", "§3.5 stays"),
    ("§3a stays", "§3a stays"),
    ("§3é stays", "§3é stays"),
    ("§7", "§7"),
    ("12 bare digits", "12 bare digits"),
    ("§12§ 12 bare digits", "12 bare digits"),
    ("text §12§ in the middle", "text §12§ in the middle"),
    ("§１§ full-width digits", "§１§ full-width digits"),
    ("", ""),
    ("§5§ \n  indented", "\n  indented"),
]


@pytest.mark.parametrize(("text", "stripped"), LEADING)
def test_leading_notation(text: str, stripped: str) -> None:
    assert strip_notation(text) == stripped


def test_at_most_eight_strips() -> None:
    # Each dangling mark is a strip of its own; a run of pairs is one.
    assert strip_notation("§1$" * 9 + "x") == "§1$x"
    assert strip_notation("§1§" * 20 + "x") == "x"


SAVED = [
    ("§12§ done", "done"),
    ("see §5§ and §6§ for it", "see and for it"),
    ('a §12">§13§ b', "a b"),
    ("as in §5, then", "as in , then"),
    ("ends with §7", "ends with"),
    ("stray § here§", "stray  here"),
    ("§3.5", "3.5"),
    ("  nothing to do  ", "nothing to do"),
]


@pytest.mark.parametrize(("text", "saved"), SAVED)
def test_saved_assistant_text(text: str, saved: str) -> None:
    assert clean_assistant_text(text) == saved
    assert "§" not in clean_assistant_text(text)


def test_prefix_and_placeholder_are_functions_of_the_number() -> None:
    assert prefix_for(12) == "§12§ "
    assert placeholder(12) == "[dropped §12§]"
    assert strip_notation(prefix_for(12) + "text") == "text"


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("[dropped §3§]", True),
        ("[dropped §3§][dropped §4§]", True),
        ("[dropped §3§] and text", False),
        ("[dropped §§]", False),
        ("[dropped §３§]", False),
        ("[dropped §3§]\n", False),
        ("", False),
    ],
)
def test_placeholder_text(text: str, is_one: bool) -> None:
    assert is_placeholder_text(text) is is_one


def test_case_05_text_that_already_starts_with_notation() -> None:
    for arrived in ("§12§ hello", "§103012$hello"):
        assert prefix_for(7) + strip_notation(arrived) == "§7§ hello"
    assert prefix_for(7) + strip_notation("§3.5 hello") == "§7§ §3.5 hello"
