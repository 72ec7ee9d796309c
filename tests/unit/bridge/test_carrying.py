"""What becomes of a message on its way."""

from __future__ import annotations

import pytest

from broker.bridge.carrying import headers_for, hops_of, unique_id
from broker.bridge.kinds import ACTIVEMQ, ARTEMIS, HOPS, OTHER, RABBITMQ, STAMPEDE, UNIQUE, Kind


def now() -> int:
    return 1_000_000


def test_what_was_the_deliverys_own_stays_behind():
    taken = {
        "message-id": "b-1-7", "subscription": "s", "destination": "/queue/a", "ack": "b-1-7", "redelivered": "true",
        "delivery-count": "2", "message-slot": "3", "AMQ_SCHEDULED_DELAY": "5", UNIQUE: "mine", "persistent": "true",
        "colour": "blue", "user-id": "ada",
    }  # fmt: skip
    kept = {"persistent": "true", "colour": "blue", "user-id": "ada"}
    assert headers_for(taken, STAMPEDE, STAMPEDE, "id", now) == {**kept, HOPS: "1", UNIQUE: "id"}
    assert headers_for({**taken, HOPS: "1"}, STAMPEDE, RABBITMQ, "", now) == {
        "persistent": "true", "colour": "blue", HOPS: "2",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("source", "target", "said", "wanted"),
    [
        (RABBITMQ, STAMPEDE, {"expiration": "60000"}, {"ttl": "60000"}),
        (RABBITMQ, STAMPEDE, {"expiration": "0"}, {"ttl": "1"}),
        (RABBITMQ, ARTEMIS, {"expiration": "60000"}, {"expires": "1060000"}),
        (RABBITMQ, ACTIVEMQ, {"expiration": "60000", "expires": "1000007"}, {"expires": "1000007"}),
        (RABBITMQ, OTHER, {"expiration": "60000"}, {"expires": "1060000"}),
        (RABBITMQ, RABBITMQ, {"expiration": "60000"}, {"expiration": "60000"}),
        (STAMPEDE, STAMPEDE, {"expiration": "60000"}, {"ttl": "60000"}),  # by dialect rabbitmq; ours would refuse it
        (STAMPEDE, STAMPEDE, {"expiration": "0"}, {}),  # it was delivered, so it is not over
        (STAMPEDE, RABBITMQ, {"expiration": "0"}, {}),
        (STAMPEDE, ARTEMIS, {"expiration": "0"}, {}),
        (STAMPEDE, ARTEMIS, {"expiration": "0", "expires": "1000007"}, {"expires": "1000007"}),
        (STAMPEDE, STAMPEDE, {"ttl": "5", "expires": "1000007"}, {"ttl": "5", "expires": "1000007"}),
        (STAMPEDE, RABBITMQ, {"ttl": "60000"}, {"expiration": "60000"}),
        (STAMPEDE, RABBITMQ, {"expiration": "60000"}, {"expiration": "60000"}),
        (STAMPEDE, RABBITMQ, {"expires": "1000007"}, {"expires": "1000007", "expiration": "7"}),
        (ARTEMIS, RABBITMQ, {"expires": "999"}, {"expires": "999", "expiration": "0"}),
        (ARTEMIS, RABBITMQ, {"expires": "0"}, {"expires": "0"}),
        (ARTEMIS, STAMPEDE, {"expires": "1000007"}, {"expires": "1000007"}),
        (RABBITMQ, STAMPEDE, {"expiration": "soon"}, {"expiration": "soon"}),
        (ACTIVEMQ, RABBITMQ, {"ttl": "60000"}, {"ttl": "60000"}),  # Classic's clients mean nothing by it
        (RABBITMQ, RABBITMQ, {}, {}),
    ],
)
def test_how_long_it_may_live_is_said_in_the_words_of_the_target(
    source: Kind, target: Kind, said: dict[str, str], wanted: dict[str, str]
):
    assert headers_for(said, source, target, "", now) == {**wanted, HOPS: "1"}


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


@pytest.mark.parametrize("target", [STAMPEDE, RABBITMQ, ARTEMIS])
def test_a_letter_is_there_for_good_wherever_it_goes(target):
    """Its time was over when it became one: RabbitMQ would drop it at once, with a receipt."""
    letter = {"_AMQ_ORIG_ADDRESS": "shop", "dead-letter-reason": "expired", "expires": "999", "ttl": "5"}
    found = headers_for(letter, STAMPEDE, target, "", lambda: 1000)
    assert not {"expires", "ttl", "expiration"} & found.keys() and found["dead-letter-reason"] == "expired"


@pytest.mark.parametrize("value", ["60000", " 60000", "-5"])
def test_a_number_that_stampede_refuses_stays_behind_where_it_meant_nothing(value):
    assert "expiration" not in headers_for({"expiration": value}, ARTEMIS, STAMPEDE, "", lambda: 1000)
    assert headers_for({"expiration": "soon"}, ARTEMIS, STAMPEDE, "", lambda: 1000)["expiration"] == "soon"
