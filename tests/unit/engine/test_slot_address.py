"""An address knows which of its queues do not take every message, and whether one has a maker, without asking all."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from broker.core.address import Routing
from broker.engine.state.slot_address import Address


def queue(name: str, routing: Routing, selective: bool = False, maker: str = "") -> Any:
    found = SimpleNamespace(name=name, routing=routing, asks=selective)
    found.selective = lambda: found.asks
    found.counted = lambda: bool(maker)
    return found


def test_queues_are_listed_by_type_and_counted():
    address = Address("q")
    his, plain = queue("his", Routing.ANYCAST, maker="ada"), queue("plain", Routing.MULTICAST)
    address.came(his)
    address.came(plain)
    assert (address.anycast, address.multicast, address.counted, address.selective) == ([his], [plain], True, False)
    address.went(his)
    assert address.queues == {"plain": plain} and not address.anycast and not address.counted


def test_what_is_noted_is_told_once_and_goes_with_its_queue():
    address, choosy = Address("q"), queue("choosy", Routing.MULTICAST, selective=True)
    address.came(choosy)
    assert address.selective and not address.note(choosy)
    choosy.asks = False
    assert address.note(choosy) and not address.selective and not address.note(choosy)
    choosy.asks = True
    assert address.note(choosy)
    choosy.asks = False  # settings that change right before it goes leave nothing behind
    address.went(choosy)
    assert not address.selective
