#!/usr/bin/env python
"""Django's command line for this project: `serve`, `token`, `demo`, `migrate` and the rest."""

import os
import sys

from django.core.management import execute_from_command_line


def main() -> None:
    """Run the management command named on the command line."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "magiccontext.settings")
    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
