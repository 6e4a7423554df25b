"""`manage.py tables`: write docs/tables.md from the decision tables."""

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from magiccontext.tables import page


class Command(BaseCommand):
    """Overwrites the page; a test compares it with the tables."""

    help = "Write docs/tables.md from the decision tables."
    requires_system_checks = []

    def handle(self, *args: Any, **options: Any) -> None:
        target = Path(settings.BASE_DIR) / "docs" / "tables.md"
        target.write_text(page())
        self.stdout.write(f"wrote {target.relative_to(settings.BASE_DIR)}")
