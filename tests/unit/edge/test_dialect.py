"""Destinations and header values; the prefixes of acceptors."""

import pytest

from broker.core.address import Routing
from broker.core.errors import Code, RefusedError
from broker.edge.destinations.dialect import Destination, Dialect, Homes, durable_name, whole_number, yes

resolve = Dialect.of("/queue/", "/topic/").resolve


@pytest.mark.parametrize(
    ("destination", "target"),
    [
        ("/queue/a", Destination("a", Routing.ANYCAST, None)),
        ("/topic/a.b", Destination("a.b", Routing.MULTICAST, None)),
        ("plain", Destination("plain", Routing.UNSET, None)),
        ("/queue/a/b", Destination("a/b", Routing.ANYCAST, None)),
        ("/queue/a::q", Destination("a", Routing.ANYCAST, "q")),
        ("a::q", Destination("a", Routing.UNSET, "q")),
    ],
)
def test_what_a_destination_names(destination, target):
    assert resolve(destination, None, "destination-type") == target


def test_the_type_header_wins_over_the_prefix():
    assert resolve("/queue/a", "MULTICAST", "destination-type").routing is Routing.MULTICAST


@pytest.mark.parametrize(
    "destination",
    ["", "/queue/", "/topic/", "/queues/a", "/x", "a::", "::", "a::b::c", "/topic/t::t::7", "::a::b", "x" * 2000],
)
def test_a_destination_that_names_nothing_is_refused(destination):
    with pytest.raises(RefusedError) as refused:
        resolve(destination, None, "destination-type")
    assert refused.value.code is Code.BAD_DESTINATION


def test_the_longest_prefix_wins_and_is_cut_off():
    dialect = Dialect.of("q/, jms.queue.", "q/news/,jms.topic.")
    assert dialect.resolve("q/a", None, "t") == Destination("a", Routing.ANYCAST, None)
    assert dialect.resolve("q/news/a", None, "t") == Destination("a", Routing.MULTICAST, None)
    assert dialect.resolve("jms.topic.a.b", None, "t") == Destination("a.b", Routing.MULTICAST, None)
    assert dialect.resolve("q/a::one", None, "t") == Destination("a", Routing.ANYCAST, "one")
    assert dialect.resolve("/queue/a", None, "t") == Destination("/queue/a", Routing.UNSET, None)


def test_a_mistaken_prefix_is_told_the_right_ones():
    with pytest.raises(RefusedError, match="begins with neither /jobs/;"):
        Dialect.of("/jobs/,q.", "").resolve("/job/a", None, "t")


def test_without_prefixes_every_name_is_plain():
    assert Dialect.of("", " , ").resolve("/topic/a", None, "t") == Destination("/topic/a", Routing.UNSET, None)


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


def test_a_queue_without_its_address_is_found_by_the_settings_or_at_the_address_of_its_name():
    homes = Homes()
    dialect = Dialect.of("/queue/", "/topic/", ".", homes)
    homes.learn({"one": {"address": "both"}, "two": {}})
    assert dialect.resolve("::one", None, "t") == Destination("both", Routing.UNSET, "one")
    assert dialect.resolve("/queue/::two", None, "t") == Destination("two", Routing.ANYCAST, "two")
    assert dialect.resolve("::q", None, "t") == Destination("q", Routing.UNSET, "q")
    assert homes.elsewhere("one", "other") == "both"
    assert homes.elsewhere("one", "both") is homes.elsewhere("q", "other") is None
