import pytest

from magiccontext.engine.toolnames import is_reduce_tool, tool_key


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("Read", "read"),
        ("mcp_TodoWrite", "todowrite"),
        ("mcp__magic-context__ctx_reduce", "ctx_reduce"),
        ("magic_context_ctx_reduce", "ctx_reduce"),
        ("CTX_REDUCE", "ctx_reduce"),
        (None, ""),
    ],
)
def test_tool_key(name: str | None, key: str) -> None:
    assert tool_key(name) == key


def test_reduce_tool_is_not_any_name_that_ends_so() -> None:
    assert is_reduce_tool("mcp_ctx_reduce")
    assert not is_reduce_tool("myctx_reduce")
    assert not is_reduce_tool("ctx_reduce_all")
    assert not is_reduce_tool(None)
