"""Destinations and header values of the default dialect."""

import pytest

from broker.core.address import Routing
from broker.core.errors import Code, RefusedError
from broker.edge.dialect import Target, durable_name, resolve, whole_number, yes


@pytest.mark.parametrize(
    ("destination", "target"),
    [
        ("/queue/a", Target("a", Routing.ANYCAST, None)),
        ("/topic/a.b", Target("a.b", Routing.MULTICAST, None)),
        ("plain", Target("plain", Routing.UNSET, None)),
        ("/queue/a/b", Target("a/b", Routing.ANYCAST, None)),
        ("/queue/a::q", Target("a", Routing.ANYCAST, "q")),
        ("a::q", Target("a", Routing.UNSET, "q")),
    ],
)
def test_what_a_destination_names(destination, target):
    assert resolve(destination, None, "destination-type") == target


def test_the_type_header_wins_over_the_prefix():
    assert resolve("/queue/a", "MULTICAST", "destination-type").routing is Routing.MULTICAST


@pytest.mark.parametrize("destination", ["", "/queue/", "/topic/", "/queues/a", "/x", "a::", "::", "::q", "x" * 2000])
def test_a_destination_that_names_nothing_is_refused(destination):
    with pytest.raises(RefusedError) as refused:
        resolve(destination, None, "destination-type")
    assert refused.value.code is Code.BAD_DESTINATION


def test_a_bad_type_names_header_and_value():
    with pytest.raises(RefusedError, match="destination-type:anycast"):
        resolve("a", "anycast", "destination-type")


def test_precedence_of_the_durable_names():
    headers = {"activemq.subscriptionName": "c", "durable-subscription-name": "b"}
    assert durable_name(headers) == "b"
    assert durable_name(headers | {"durable-subscriber-name": "a"}) == "a"
    assert durable_name({}) is None


@pytest.mark.parametrize("text", ["", "-1", "10", "1.0", "1e1", "٣", "0x1", "1_0", "+1"])
def test_numbers_are_strict(text):
    with pytest.raises(RefusedError, match="priority:"):
        whole_number({"priority": text}, "priority", 0, 9)


def test_numbers_and_booleans():
    assert whole_number({"priority": "9"}, "priority", 0, 9) == 9
    assert whole_number({}, "priority", 0, 9) is None
    assert yes({"persistent": "True"}, "persistent") and not yes({}, "persistent")
    with pytest.raises(RefusedError, match="persistent:1"):
        yes({"persistent": "1"}, "persistent")
