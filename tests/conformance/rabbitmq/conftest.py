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
    "edge.exchanges.marked.type": "headers",
    # x-match:all of colour and shape, x-match:any of colour and size
    "engine.diverts.all_of_them.address": "$exchange/marked",
    "engine.diverts.all_of_them.forward": "bound.all",
    "engine.diverts.all_of_them.routing": "ANYCAST",
    "engine.diverts.all_of_them.selector": "colour = 'red' AND shape = 'round'",
    "engine.diverts.any_of_them.address": "$exchange/marked",
    "engine.diverts.any_of_them.forward": "bound.any",
    "engine.diverts.any_of_them.routing": "ANYCAST",
    "engine.diverts.any_of_them.selector": "colour = 'red' OR size = '3'",
    "engine.addresses.with.ttl.expiry_delay_ms": 60_000,
    "engine.addresses.with.length.ring_size": 3,
    "engine.addresses.with.reject.max_size_messages": 3,
    "engine.addresses.with.reject.full_policy": "FAIL",
    "engine.addresses.with.bytes.ring_bytes": 1000,
    "engine.addresses.with.letters.ring_size": 1,
    "engine.addresses.with.letters.ring_dead_letters": True,
    "engine.addresses.with.letters.dead_letter_address": "over",
    "engine.addresses.over.head.ring_size": 1,
    "engine.addresses.over.head.ring_dead_letters": True,
    "engine.addresses.over.head.dead_letter_address": "over.head.letters",
    "engine.addresses.over.reject.max_size_messages": 1,
    "engine.addresses.over.reject.full_policy": "DEAD_LETTER",
    "engine.addresses.over.reject.dead_letter_address": "over.reject.letters",
    "engine.addresses.with.goes.auto_delete_message_count": -1,
    "engine.addresses.with.dlx.dead_letter_address": "dead.queue",
    "engine.addresses.stream.#.non_destructive": True,
    "engine.addresses.stream.#.expiry_delay_ms": 3_600_000,
}
pytest_collection_modifyitems, place, join, name = fixtures("rabbitmq", SETTINGS)
