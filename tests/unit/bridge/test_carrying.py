"""What becomes of a message on its way."""

from __future__ import annotations

from broker.bridge.carrying import headers_for, hops_of, unique_id
from broker.bridge.kinds import HOPS, RABBITMQ, STAMPEDE, UNIQUE


def test_what_was_the_deliverys_own_stays_behind():
    taken = {
        "message-id": "b-1-7", "subscription": "s", "destination": "/queue/a", "ack": "b-1-7", "redelivered": "true",
        "delivery-count": "2", "message-slot": "3", "AMQ_SCHEDULED_DELAY": "5", UNIQUE: "mine", "persistent": "true",
        "colour": "blue", "user-id": "ada",
    }  # fmt: skip
    kept = {"persistent": "true", "colour": "blue", "user-id": "ada"}
    assert headers_for(taken, STAMPEDE, "id") == {**kept, HOPS: "1", UNIQUE: "id"}
    assert headers_for({**taken, HOPS: "1"}, RABBITMQ, "") == {"persistent": "true", "colour": "blue", HOPS: "2"}


def test_hops_that_are_no_number_are_none():
    assert [hops_of({HOPS: text}) for text in ("2", "", "x", "-1", "٣٣٣٣", "99999")] == [2, 0, 0, 0, 0, 0]


def test_the_id_is_of_the_message_and_of_nothing_else():
    one = unique_id("b", "/queue/a", "3-77", b"body")
    assert one == unique_id("b", "/queue/a", "3-77", b"body")
    others = [
        unique_id("c", "/queue/a", "3-77", b"body"), unique_id("b", "/queue/b", "3-77", b"body"),
        unique_id("b", "/queue/a", "3-78", b"body"), unique_id("b", "/queue/a", "3-77", b"bodz"),
        unique_id("b", "/queue/a", "3-77", 4), unique_id("b", "/queue/a3", "-77", b"body"),
    ]  # fmt: skip
    assert len({one, *others}) == 7
