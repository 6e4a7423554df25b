"""The models of this app, one file per idea."""

from memory_app.models.project import Project

__all__ = ["Project"]
