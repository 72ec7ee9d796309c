"""Fixtures: a place whose ports speak RabbitMQ's dialect, and its clients."""

from __future__ import annotations

from ..dialects import fixtures

SETTINGS: dict[str, object] = {
    "edge.exchanges.logs.type": "topic",
    "edge.exchanges.my.own.type": "direct",
    "edge.exchanges.everybody.type": "fanout",
    "engine.diverts.bound.address": "$exchange/my%2Eown/to.queue",
    "engine.diverts.bound.forward": "bound.queue",
    "engine.diverts.bound.routing": "ANYCAST",
    "engine.addresses.with.ttl.expiry_delay_ms": 60_000,
    "engine.addresses.with.length.ring_size": 3,
    "engine.addresses.with.reject.max_size_messages": 3,
    "engine.addresses.with.reject.full_policy": "FAIL",
    "engine.addresses.with.goes.auto_delete_message_count": -1,
    "engine.addresses.with.dlx.dead_letter_address": "dead.queue",
}
pytest_collection_modifyitems, place, join, name = fixtures("rabbitmq", SETTINGS)
