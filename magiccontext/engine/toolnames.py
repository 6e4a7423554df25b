"""Tool names as rules compare them (reclaim-core sections 2.1 and 7).

Hosts spell one tool in many ways: another case, or behind the prefix of the MCP server that offers it.
Rules that name tools compare keys, never the spelling on the wire; the spelling stays as it came.
"""

from __future__ import annotations

import re
from functools import lru_cache

REDUCE = "ctx_reduce"

_MCP = "mcp_"
# Behind an MCP prefix the server's own name stands between: mcp__magic-context__ctx_reduce.
_REDUCE_TOOL = re.compile(rf"(?:|.*[^a-z0-9]){REDUCE}", re.DOTALL)


def is_reduce_tool(name: str | None) -> bool:
    """Whether a tool name means ``ctx_reduce``, with or without an MCP prefix (section 1.4)."""
    return name is not None and _REDUCE_TOOL.fullmatch(name.lower()) is not None


# A session asks for the same few names once per tag.
@lru_cache(maxsize=1024)
def tool_key(name: str | None) -> str:
    """The key under which rules know a tool: lower case, without a leading ``mcp_``; "" when unnamed."""
    if name is None:
        return ""
    if is_reduce_tool(name):
        return REDUCE
    return name.lower().removeprefix(_MCP)
