"""The models of this app, one file per idea."""

from sessions_app.models.host_key import HostKey

__all__ = ["HostKey"]
