"""JSON Schemas of the bodies that are read raw, for the OpenAPI document (hosts section 10)."""

from __future__ import annotations

from typing import Any

TOKENS: dict[str, Any] = {"type": "integer", "minimum": 0}

USAGE: dict[str, Any] = {
    "type": "object",
    "description": "Tokens of the newest single response; input_tokens is the uncached part of the prompt.",
    "properties": {
        "input_tokens": TOKENS,
        "cache_read_input_tokens": TOKENS,
        "cache_creation_input_tokens": TOKENS,
        "output_tokens": TOKENS,
        "completed_at": {"type": "string", "format": "date-time"},
        "message_id": {"type": "string", "maxLength": 255},
        "pass_id": {"type": "integer", "minimum": 0},
    },
}

TRANSFORM_BODY: dict[str, Any] = {
    "type": "object",
    "required": ["format", "model", "messages"],
    "properties": {
        "format": {"type": "string", "enum": ["anthropic", "openai-chat"]},
        "model": {
            "type": "string",
            "minLength": 1,
            "maxLength": 255,
            "example": "anthropic/claude-sonnet-4-5",
        },
        "variant": {"type": "string"},
        "context_limit": {
            "type": "integer",
            "description": "Window of the model about to be called, in tokens.",
        },
        "output_limit": {"type": "integer"},
        "project": {
            "type": "object",
            "properties": {
                "directory": {"type": "string", "maxLength": 512},
                "identity": {"type": "string", "maxLength": 512},
                "docs": {"type": "object", "additionalProperties": {"type": "string"}},
            },
        },
        "parent_session": {"type": "string", "maxLength": 255},
        "subagent": {"type": "boolean", "default": False},
        "purpose": {"type": "string", "enum": ["turn", "utility"], "default": "turn"},
        "system": {"description": "The host's own value, returned unchanged."},
        "tools": {"description": "The host's own tool list."},
        "messages": {"type": "array", "items": {"type": "object"}},
        "usage": USAGE,
        "last_sent": {
            "type": "object",
            "required": ["view_version"],
            "properties": {
                "view_version": {"type": "integer"},
                "raw_from": {"oneOf": [{"type": "integer"}, {"type": "string"}]},
            },
        },
        "estimate": {
            "type": "object",
            "required": ["request_tokens"],
            "properties": {"request_tokens": TOKENS},
        },
        "capabilities": {
            "type": "object",
            "properties": {
                "tools": {"type": "array", "items": {"type": "string"}},
                "remove_messages": {"type": "boolean"},
                "images": {"type": "boolean"},
                "abort": {"type": "boolean"},
                "own_tools": {"type": "boolean"},
                "stores_nudges": {"type": "boolean"},
                "compaction_marker": {"type": "boolean"},
            },
        },
        "provider_error": {"oneOf": [{"type": "string"}, {"type": "object"}]},
        "sync": {
            "type": "object",
            "description": "messages holds only what follows the named front.",
            "required": ["base"],
            "properties": {
                "base": {
                    "type": "object",
                    "required": ["count", "chain"],
                    "properties": {
                        "count": {"type": "integer", "minimum": 0},
                        "chain": {"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"},
                    },
                }
            },
        },
        "answer": {"type": "string", "enum": ["messages", "edits"], "default": "messages"},
        "at": {"type": "string", "format": "date-time", "description": "Scope replay only."},
    },
}

LEVELS = ["defer", "soft_plus", "soft", "hard"]

DIRECTIVE: dict[str, Any] = {
    "type": "object",
    "description": "Repeated unchanged until the event directive_done; a newer one takes its place.",
    "required": ["directive_id", "kind"],
    "properties": {
        "directive_id": {"type": "string"},
        "kind": {"type": "string", "enum": ["compaction_marker"]},
        "target_mid": {"type": "string", "description": "The user message to set the marker on."},
        "target_ordinal": {"type": "integer", "minimum": 1},
        "end_mid": {"type": "string", "description": "The last message the summaries stand for."},
        "ordinal": {"type": "integer", "minimum": 1},
        "text": {"type": "string"},
    },
}

TRANSFORM_ANSWER: dict[str, Any] = {
    "type": "object",
    "required": ["view_version", "notices", "directives", "jobs", "outcome"],
    "properties": {
        "messages": {"type": "array", "items": {"type": "object"}},
        "view": {"type": "object"},
        "message_ids": {"type": "array", "items": {"type": "string"}},
        "system": {},
        "pass": {
            "type": ["object", "null"],
            "properties": {
                "id": {"type": "integer"},
                "level": {"type": "string", "enum": LEVELS},
                "permitted": {"type": "string", "enum": LEVELS},
                "scheduler": {"type": "string"},
                "reasons": {"type": "array", "items": {"type": "string"}},
                "usage_percent": {"type": "number"},
                "first_changed": {"type": ["integer", "null"]},
                "lanes": {"type": "object", "additionalProperties": {"type": "integer"}},
                "bytes_saved": {"type": "integer"},
                "ms": {"type": "number"},
            },
        },
        "view_version": {"type": "integer"},
        "raw_from": {"oneOf": [{"type": "integer"}, {"type": "string"}, {"type": "null"}]},
        "chain": {"type": ["string", "null"]},
        "outcome": {"type": "string", "enum": ["serve", "replay", "passthrough", "utility"]},
        "notices": {"type": "array", "items": {"type": "object"}},
        "directives": {"type": "array", "items": DIRECTIVE},
        "jobs": {"type": "integer"},
    },
}

LABEL: dict[str, Any] = {"type": "string", "minLength": 1, "maxLength": 255}

TOOL_BODY: dict[str, Any] = {
    "type": "object",
    "description": "The tool's arguments, with two members of the call itself.",
    "properties": {
        "call_key": {**LABEL, "description": "A call with a key seen before gets the first answer."},
        "agent": {**LABEL, "description": "Which of several agents under one session id calls."},
        "at": {"type": "string", "format": "date-time", "description": "Scope replay only."},
    },
    "additionalProperties": True,
}

TOOL_ANSWER: dict[str, Any] = {
    "type": "object",
    "required": ["content", "is_error", "data"],
    "properties": {
        "content": {"type": "string"},
        "is_error": {"type": "boolean"},
        "data": {"type": "object"},
    },
}


def _event(kind: str, properties: dict[str, Any], *required: str) -> dict[str, Any]:
    return {
        "type": "object",
        "title": kind,
        "required": ["type", "event_id", *required],
        "properties": {"type": {"const": kind}, "event_id": LABEL, **properties},
    }


EVENT: dict[str, Any] = {
    "oneOf": [
        _event(
            "response",
            {
                "pass_id": {"type": "integer", "minimum": 0},
                "message_id": LABEL,
                "usage": USAGE,
                "finish": LABEL,
                "model": LABEL,
                "error": {"oneOf": [{"type": "string"}, {"type": "object"}]},
                "completed_at": {"type": "string", "format": "date-time"},
            },
        ),
        _event("message_removed", {"message_id": LABEL}, "message_id"),
        _event("host_compacted", {"completed_at": {"type": "string", "format": "date-time"}}),
        _event(
            "forked",
            {
                "parent": LABEL,
                "through": {
                    "oneOf": [{"type": "integer"}, {"type": "string"}],
                    "description": "Ordinal or identity of the last message taken; absent: all.",
                },
            },
            "parent",
        ),
        _event("deleted", {}),
        _event("model_changed", {"model": LABEL}, "model"),
        _event("switched_away", {}),
        _event("directive_done", {"directive_id": LABEL}, "directive_id"),
    ]
}

EVENTS_BODY: dict[str, Any] = {"type": "array", "maxItems": 1000, "items": EVENT}

EVENTS_ANSWER: dict[str, Any] = {
    "type": "object",
    "required": ["results"],
    "properties": {
        "results": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["event_id", "type", "status"],
                "properties": {
                    "event_id": {"type": "string"},
                    "type": {"type": "string"},
                    "status": {"type": "string", "enum": ["applied", "ignored", "error"]},
                    "code": {"type": "string"},
                    "detail": {"type": "string"},
                },
            },
        }
    },
}

COMMAND_BODY: dict[str, Any] = {
    "type": "object",
    "properties": {
        "confirm": LABEL,
        "diagnostics": {"type": "boolean", "description": "status: more rows."},
        "at": {"type": "string", "format": "date-time", "description": "Scope replay only."},
    },
    "additionalProperties": True,
}

COMMAND_ANSWER: dict[str, Any] = {
    "type": "object",
    "required": ["text", "data"],
    "properties": {"text": {"type": "string"}, "data": {"type": "object"}},
}

STATUS_ANSWER: dict[str, Any] = {
    "type": "object",
    "required": ["sessions", "passes", "incidents"],
    "properties": {
        "sessions": {"type": "integer"},
        "sessions_being_deleted": {"type": "integer"},
        "sessions_with_error": {"type": "integer"},
        "passes": {"type": "object", "additionalProperties": {"type": "integer"}},
        "incidents": {"type": "integer"},
        "newest_incident": {"type": ["object", "null"]},
    },
}
