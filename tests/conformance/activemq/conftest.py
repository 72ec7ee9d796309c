"""Fixtures: a place whose ports speak ActiveMQ Classic's dialect, and its clients."""

from __future__ import annotations

from ..dialects import fixtures

SETTINGS: dict[str, object] = {
    "engine.addresses.only.one.exclusive": True,
    "engine.addresses.small.max_size_messages": 1,
    "engine.addresses.small.full_policy": "FAIL",
    "engine.addresses.told.#.message_advisories": "MessageDLQd,Expired",
}
pytest_collection_modifyitems, place, join, name = fixtures("activemq", SETTINGS)
