"""An address remembers so many duplicate ids, the eldest go first, and only those of durable messages are logged."""

from __future__ import annotations

from base64 import b64decode

from broker.engine.messages.id_cache import Ids


def digest(n: int) -> bytes:
    return n.to_bytes(16, "big")


def test_the_eldest_are_forgotten_and_one_that_is_known_keeps_its_place():
    ids = Ids()
    ids.add([digest(n) for n in (1, 2, 3)], size=3)
    ids.add([digest(1)], size=3)  # it is no younger for having come again
    ids.add([digest(4)], size=3)
    assert [n for n in range(1, 5) if digest(n) in ids] == [2, 3, 4]
    ids.add([], size=1)  # the setting has become smaller
    assert [n for n in range(1, 5) if digest(n) in ids] == [4]


def test_the_log_is_told_of_those_whose_messages_it_has():
    ids = Ids()
    ids.add([digest(1)], 10)
    ids.add([digest(2)], 10, durable=False)
    ids.add([digest(3)], 10)
    assert digest(2) in ids
    assert b64decode(ids.packed()) == digest(1) + digest(3)
    assert Ids().packed() == ""
