"""The OpenAPI document (3.1) of the API, made of its routes; schemas of what is answered stand here.

Rule: a test holds it against the handlers: every route, every parameter, every field of an answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from broker import __version__

from .calls import ApiOp

PREFIX = "/api/v1"

TEXT: dict[str, Any] = {"type": "string"}
MAYBE: dict[str, Any] = {"type": ["string", "null"]}
NUMBER: dict[str, Any] = {"type": "integer"}
FLAG: dict[str, Any] = {"type": "boolean"}
ANY: dict[str, Any] = {}
TEXTS: dict[str, Any] = {"type": "array", "items": TEXT}


def _object(**fields: Any) -> dict[str, Any]:
    return {"type": "object", "required": list(fields), "properties": fields, "additionalProperties": False}


def _many(name: str) -> dict[str, Any]:
    return {"type": "array", "items": {"$ref": f"#/components/schemas/{name}"}}


_QUEUE = {
    "name": TEXT, "address": TEXT, "host": TEXT, "slot": NUMBER, "routing": TEXT, "kind": TEXT, "durable": FLAG,
    "declared": FLAG, "auto_created": FLAG, "paused": FLAG, "messages": NUMBER, "waiting": NUMBER, "delivering": NUMBER,
    "scheduled": NUMBER, "paged": NUMBER, "bytes": NUMBER, "consumers": NUMBER,
}  # fmt: skip
_CONNECTION = {
    "id": NUMBER, "peer": TEXT, "user": TEXT, "host": TEXT, "client_id": TEXT, "version": TEXT, "acceptor": TEXT,
    "state": TEXT, "subscriptions": NUMBER, "bytes_in": NUMBER, "bytes_out": NUMBER, "tls_subject": MAYBE,
    "edge": TEXT, "blocked_bytes": NUMBER, "blocked_by": TEXTS,
}  # fmt: skip
_CONSUMER = {
    "consumer": NUMBER, "session": NUMBER, "edge": TEXT, "queue": TEXT, "address": TEXT, "slot": NUMBER, "ack": TEXT,
    "selector": MAYBE, "priority": NUMBER, "unacknowledged": NUMBER, "window": {"type": ["integer", "null"]},
    "ready": FLAG, "waits_for": TEXT,
}  # fmt: skip
SCHEMAS: dict[str, dict[str, Any]] = {
    "Problem": {
        "type": "object",
        "required": ["type", "title", "status", "detail", "instance"],
        "properties": {"type": TEXT, "title": TEXT, "status": NUMBER, "detail": TEXT, "instance": TEXT, "fix": TEXT},
    },
    "Document": {"type": "object"},
    "Missing": _object(owner=TEXT, why=TEXT),
    "Overview": _object(
        id=TEXT, role=TEXT, version=TEXT, started=NUMBER, ready=FLAG, state=ANY, users=FLAG, memory=ANY,
        messaging=ANY, clients=ANY, missing=_many("Missing"),
    ),
    "Queue": _object(**_QUEUE),
    "QueuePart": _object(
        **_QUEUE, selector=MAYBE, maker=TEXT, browsers=NUMBER, last_message=NUMBER, exclusive=FLAG,
        non_destructive=FLAG,
        ring_size=NUMBER, last_value=FLAG, max_consumers=NUMBER, max_delivery_attempts=NUMBER,
        dead_letter_address=TEXT, expiry_address=TEXT, expiry_queue=MAYBE, why=TEXTS,
    ),
    "QueueDetail": _object(name=TEXT, address=TEXT, parts=_many("QueuePart"), missing=_many("Missing")),
    "Consumer": _object(**_CONSUMER),
    "Address": _object(
        name=TEXT, slot=NUMBER, routing=TEXTS, queues=NUMBER, declared=FLAG, limited=FLAG, messages=NUMBER,
        consumers=NUMBER,
    ),
    "Acceptor": _object(
        name=TEXT, label=TEXT, transport=TEXT, host=TEXT, port=NUMBER, tls=FLAG, path=TEXT, dialect=TEXT,
        virtual_host=TEXT, connections=NUMBER,
    ),
    "Connection": _object(**_CONNECTION),
    "ConnectionDetail": _object(**_CONNECTION, heart_beat=ANY, transacted=NUMBER, consumers=_many("Consumer")),
    "Message": {
        "type": "object",
        "required": ["id", "size", "headers", "body", "encoding"],
        "properties": {
            "id": TEXT, "size": NUMBER, "headers": {"type": "array"}, "durable": FLAG, "priority": NUMBER,
            "redelivered": FLAG, "attempts": NUMBER, "timestamp": NUMBER, "expires": NUMBER, "large": FLAG,
            "body": TEXT, "encoding": TEXT, "length": NUMBER, "complete": FLAG, "raw": MAYBE, "flags": NUMBER,
        },
        "additionalProperties": False,
    },
    "DeadLetters": _object(groups=_many("DeadLetterGroup"), counted=NUMBER, complete=FLAG, missing=_many("Missing")),
    "AllDeadLetters": _object(queues=_many("DeadLetterQueue"), complete=FLAG, missing=_many("Missing")),
    "DeadLetterQueue": _object(
        name=TEXT, address=TEXT, messages=NUMBER, groups=_many("DeadLetterGroup"), counted=NUMBER, complete=FLAG,
    ),
    "DeadLetterGroup": _object(address=TEXT, queue=TEXT, reason=TEXT, count=NUMBER),
    "Done": _object(name=TEXT, address=TEXT, done=FLAG),
    "Carried": {
        "type": "object",
        "required": ["done", "more", "left"],
        "properties": {
            "done": NUMBER, "more": FLAG, "left": _many("Left"),
            "preview": _object(count=NUMBER, complete=FLAG, first=_many("Message")),
        },
        "additionalProperties": False,
    },
    "Disconnected": _object(done=NUMBER, more=FLAG, missing=_many("Missing")),
    "Left": _object(why=TEXT, count=NUMBER),
    "Sent": _object(address=TEXT, sent=NUMBER),
    "Setting": _object(
        name=TEXT, value=ANY, unit=TEXT, default=ANY, help=TEXT, why=TEXT, source=TEXT, restart=ANY,
    ),
    "ConfigEntry": _object(
        table=TEXT, name=TEXT, values={"type": "object"}, source=TEXT, overridden={"type": "object"},
        live={"type": "object"}, by=TEXT, since=NUMBER, why=TEXT,
    ),
    "Configured": _object(table=TEXT, name=TEXT, values={"type": "object"}, exists=FLAG, missing=TEXTS),
    "Removed": _object(name=TEXT, address=TEXT, done=FLAG, missing=TEXTS),
    "Reloaded": _object(
        changed={"type": "array", "items": _object(table=TEXT, name=TEXT)},
        total=NUMBER,
        restart={"type": "array", "items": _object(name=TEXT, in_use=ANY, wanted=ANY)},
        aside={"type": "array", "items": _object(table=TEXT, name=TEXT, why=TEXT)},
    ),
    "UserEntry": _object(name=TEXT, groups=TEXTS),
    "UserSet": _object(name=TEXT, groups=TEXTS, missing=TEXTS),
    "Node": _object(
        name=TEXT, kind=TEXT, state=TEXT, zone=TEXT, address=TEXT, admin=TEXT, leads=NUMBER, replicas=NUMBER,
        in_sync=NUMBER, unreached=TEXTS,
    ),
    "Slot": _object(slot=NUMBER, epoch=NUMBER, leader=TEXT, replicas=TEXTS, in_sync=TEXTS, target=TEXT, shelved=TEXT),
    "Token": _object(name=TEXT, groups=TEXTS, by=TEXT, created=NUMBER),
    "NewToken": _object(name=TEXT, groups=TEXTS, token=TEXT, missing=TEXTS),
    "Rights": _object(user=MAYBE, groups=TEXTS, address=TEXT, open=FLAG, rights=_many("Right")),
    "Right": _object(operation=TEXT, allowed=FLAG, entry=MAYBE, groups=TEXTS),
    "AuditLine": _object(
        **{"at": NUMBER, "who": TEXT, "from": TEXT, "action": TEXT, "target": TEXT, "outcome": TEXT},
        edge=TEXT, more={"type": "object"},
    ),
    "Moved": _object(slot=NUMBER, state=TEXT),
    "Transaction": _object(
        tx=TEXT, slot=NUMBER, coordinator=NUMBER, since=NUMBER, state=TEXT, sends=NUMBER, settles=NUMBER,
        addresses=TEXTS,
    ),
}  # fmt: skip


BODY = "/queues/{queue}/messages/{id}/body"
_PROBLEM: dict[str, Any] = {
    "description": "a problem (RFC 9457)",
    "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
}
_STREAMS: dict[str, Any] = {
    f"{PREFIX}{BODY}": {
        "get": {
            "operationId": "message-body",
            "summary": "The whole body of a message, as it was sent, however large.",
            "parameters": [{"name": name, "in": "path", "required": True, "schema": TEXT} for name in ("queue", "id")],
            "responses": {
                "200": {"description": "its bytes", "content": {"application/octet-stream": {"schema": TEXT}}},
                "default": _PROBLEM,
            },
        }
    },
    f"{PREFIX}/events": {
        "get": {
            "operationId": "events",
            "summary": "What GETs answer, told as it changes: server-sent events 0, 1, … in the order of `watch`.",
            "parameters": [
                {
                    "name": "watch", "in": "query", "required": True, "schema": TEXTS,
                    "description": "a GET of this API, `/queues?sort=-messages`; several times: several of them",
                }
            ],
            "responses": {
                "200": {"description": "a stream", "content": {"text/event-stream": {"schema": TEXT}}},
                "default": _PROBLEM,
            },
        }
    },
}  # fmt: skip


def document(routes: Iterable[ApiOp]) -> dict[str, Any]:
    """The whole document."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(PREFIX + route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Stampede", "version": __version__, "description": "See, explain, act."},
        "paths": {**paths, **_STREAMS},
        "security": [{"basic": []}, {"token": []}],
        "components": {
            "schemas": {**SCHEMAS},
            "securitySchemes": {
                "basic": {"type": "http", "scheme": "basic"},
                "token": {"type": "http", "scheme": "bearer"},
            },
        },
    }


def _operation(route: ApiOp) -> dict[str, Any]:
    places = [
        {"name": part[1:-1], "in": "path", "required": True, "schema": TEXT}
        for part in route.path.split("/")
        if part.startswith("{")
    ]
    asked = [
        {"name": param.name, "in": "query", "description": param.help, "schema": param.schema()}
        for param in route.query
    ]
    told: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.help,
        "parameters": places + asked,
        "responses": {
            str(route.status): {"description": "done", "content": {"application/json": {"schema": _answer(route)}}},
            "default": _PROBLEM,
        },
    }
    if route.body:
        fields: Mapping[str, Any] = {param.name: {**param.schema(), "description": param.help} for param in route.body}
        needed = [param.name for param in route.body if param.required]
        schema = {"type": "object", "properties": fields, "required": needed, "additionalProperties": False}
        told["requestBody"] = {"required": bool(needed), "content": {"application/json": {"schema": schema}}}
    return told


def _answer(route: ApiOp) -> dict[str, Any]:
    if not route.listed:
        return {"$ref": f"#/components/schemas/{route.answer}"}
    return _object(items=_many(route.answer), total=NUMBER, next=MAYBE, missing=_many("Missing"))
