"""The page of decision tables says what the tables say (design section 3)."""

from pathlib import Path

from magiccontext.tables import page


def test_the_page_is_up_to_date() -> None:
    written = Path(__file__).resolve().parents[2] / "docs" / "tables.md"
    assert written.read_text() == page(), "run `manage.py tables`"
