"""`manage.py serve`: everything one person needs, in one terminal (design section 7)."""

import ipaddress
import os
import signal
import socket
from argparse import ArgumentParser
from typing import Any, NoReturn

import uvicorn
from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError

from magiccontext.first_run import create_first_user
from magiccontext.schema_fence import schema_state
from magiccontext.task_process import TaskProcess

DEFAULT_PORT = 8765
SHUTDOWN_SECONDS = 5


def is_loopback(host: str) -> bool:
    """Whether an address to listen on can be reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def listening_socket(host: str, port: int) -> socket.socket:
    """A bound socket; port 0 takes a free one. Raises CommandError when the address cannot be had."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        bound = socket.socket(family, kind, protocol)
        if os.name == "posix":
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError as error:
        raise CommandError(f"cannot listen on {host}:{port}: {error.strerror or error}") from error
    return bound


def _leave(signum: int, frame: object) -> NoReturn:
    raise SystemExit(0)


class Command(BaseCommand):
    """Migrations, the ASGI server and the task worker; all of it ends with this command."""

    help = "Start the server and its background worker, and stop both on Ctrl-C."
    requires_migrations_checks = False

    def add_arguments(self, parser: ArgumentParser) -> None:
        """`--host`, `--port`, `--allow-remote`, `--without-tasks`."""
        parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default 127.0.0.1)")
        parser.add_argument("--port", type=int, default=DEFAULT_PORT, help="port; 0 takes a free one")
        parser.add_argument(
            "--allow-remote",
            action="store_true",
            help="listen on an address other machines reach (put a TLS proxy in front)",
        )
        parser.add_argument("--without-tasks", action="store_true", help="start no background worker")

    def handle(self, *args: Any, **options: Any) -> None:
        """Check, migrate, show where it runs, serve. Raises CommandError for what forbids a start."""
        host, port = options["host"], options["port"]
        if not is_loopback(host) and not options["allow_remote"]:
            raise CommandError(
                f"{host} can be reached by other machines. Give --allow-remote if that is meant, "
                "and set MAGIC_CONTEXT_ALLOWED_HOSTS to the names it is called by."
            )
        signal.signal(signal.SIGTERM, _leave)
        bound = listening_socket(host, port)
        tasks: TaskProcess | None = None
        try:
            self._prepare_database()
            self._greet(host, bound.getsockname()[1])
            if not options["without_tasks"]:
                tasks = TaskProcess()
                tasks.start()
            self._serve(bound)
        except KeyboardInterrupt:
            self.stdout.write("Stopping.")
        finally:
            # A second signal must not leave the worker half stopped.
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            if tasks is not None:
                tasks.stop()
            bound.close()

    def _prepare_database(self) -> None:
        state = schema_state()
        if state.newer_than_code:
            raise CommandError(
                "the database is newer than this server (unknown migrations: "
                f"{', '.join(state.unknown)}). Upgrade the server; nothing was changed."
            )
        if state.missing:
            call_command("migrate", interactive=False, verbosity=0)

    def _greet(self, host: str, port: int) -> None:
        shown = f"[{host}]" if ":" in host and not host.startswith("[") else host
        url = f"http://{shown}:{port}/"
        credentials = create_first_user()
        self.stdout.write(f"Magic Context: {url}")
        if credentials is not None:
            self.stdout.write("First start. These are shown once and stored nowhere in clear:")
            self.stdout.write(f"  login     {url}login/")
            self.stdout.write(f"  user      {credentials.username}")
            self.stdout.write(f"  password  {credentials.password}")
            self.stdout.write(f"  API key   {credentials.key}")
        self.stdout.write("Ctrl-C stops everything.")
        self.stdout.flush()

    def _serve(self, bound: socket.socket) -> None:
        config = uvicorn.Config(
            "magiccontext.asgi:application",
            # Neither Django nor channels speaks the lifespan protocol.
            lifespan="off",
            ws="websockets-sansio",
            log_config=None,
            access_log=False,
            server_header=False,
            # Only behind a declared TLS proxy is a forwarded address anything but a claim.
            proxy_headers=settings.HTTPS,
            timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        )
        uvicorn.Server(config).run(sockets=[bound])
