"""The models of this app, one file per idea."""

from memory_app.models.alias import IdentityAlias
from memory_app.models.memory import Memory
from memory_app.models.mutation import MemoryMutation
from memory_app.models.project import Project
from memory_app.models.project_state import ProjectState
from memory_app.models.user_memory import UserMemory
from memory_app.models.workspace import Workspace, WorkspaceMember

__all__ = [
    "IdentityAlias",
    "Memory",
    "MemoryMutation",
    "Project",
    "ProjectState",
    "UserMemory",
    "Workspace",
    "WorkspaceMember",
]
