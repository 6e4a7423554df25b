"""`manage.py task_worker`: the background worker `serve` starts; it stops when its standard input ends.

At scale, `manage.py qcluster` is the same worker without that leash.
"""

import sys
from typing import Any

from django.core.management.base import BaseCommand
from django_q.cluster import Cluster

from magiccontext.task_process import stop_when_closed


class Command(BaseCommand):
    """Run one django-q2 cluster until standard input is closed."""

    help = "Run background tasks until standard input is closed (started by `serve`)."
    requires_migrations_checks = False

    def handle(self, *args: Any, **options: Any) -> None:
        """Start the cluster, watch the server, wait for the cluster's end."""
        cluster = Cluster()
        cluster.start()
        stop_when_closed(sys.stdin.buffer)
        cluster.sentinel.join()
