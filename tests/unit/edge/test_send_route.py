"""Routes: what the headers of a SEND decide."""

import pytest

from broker.core.address import Routing
from broker.core.errors import RefusedError
from broker.core.message import DURABLE
from broker.edge.destinations.dialect import Dialect
from broker.edge.destinations.foreign_headers import ARGUMENTS, IN_SEND, NUMBERS
from broker.edge.destinations.send_route import READ, RouteCache
from broker.edge.destinations.zone_affinity import ZoneAffinity
from broker.wire.events import Head
from broker.wire.heads import SIGNIFICANT

DIALECT = Dialect.of("/queue/", "/topic/")


def head(**headers):
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Head(b"", named, 0, True)


def test_the_wire_never_hides_a_header_that_decides_the_route():
    assert {*READ, "transaction", *IN_SEND, *NUMBERS, *ARGUMENTS} <= SIGNIFICANT


def test_what_the_headers_say():
    route = RouteCache(lambda address: 1, DIALECT).of(
        head(destination="/topic/a", persistent="true", priority="9", ttl="1000")
    )
    assert (route.address, route.routing, route.queue) == ("a", Routing.MULTICAST, None)
    assert (route.flags, route.priority, route.ttl, route.expires) == (DURABLE, 9, 1000, 0)


def test_equal_headers_give_the_same_route_and_others_do_not():
    routes = RouteCache(lambda address: 1, DIALECT)
    first = routes.of(head(destination="a"))
    assert routes.of(head(destination="a")) is first
    assert routes.of(head(destination="a", priority="5")) is not first
    parked = head(destination="a")
    assert routes.of(parked) is parked.route


@pytest.mark.parametrize("bad", [{"priority": "10"}, {"expires": "soon"}, {"persistent": "yes"}, {"ttl": "0"}])
def test_a_value_that_makes_no_sense_is_refused_by_name(bad):
    (name,) = bad
    with pytest.raises(RefusedError, match=f"{name}:{bad[name]}"):
        RouteCache(lambda address: 1, DIALECT).of(head(destination="a", **bad))


def test_when_it_is_due_and_what_does_not_count():
    routes = RouteCache(lambda address: 1, DIALECT)

    def times(**headers):
        route = routes.of(Head(b"", {"destination": "a", **headers}, 0, True))
        return route.due, route.delay

    assert times(AMQ_SCHEDULED_DELAY="2000") == (0, 2000)
    assert times(AMQ_SCHEDULED_TIME="77", AMQ_SCHEDULED_DELAY="5") == (77, 5)
    assert times(AMQ_SCHEDULED_TIME="-1", AMQ_SCHEDULED_DELAY="0") == (0, 0)
    for name in ("AMQ_SCHEDULED_DELAY", "AMQ_SCHEDULED_TIME"):
        with pytest.raises(RefusedError, match=f"{name}:foo"):
            times(**{name: "foo"})


def test_messages_of_a_split_address_stay_in_the_zone_where_its_owners_lead_some():
    near = ZoneAffinity()
    routes = RouteCache(lambda address: 4, DIALECT, near=near)
    split = routes.of(head(destination="a")).split
    assert {split.next() for _ in range(8)} == set(split.slots), "nothing is near"
    for slot in split.slots[1:3]:
        near.led(slot, True)
    assert [split.next() for _ in range(6)].count(split.slots[1]) == 3
    assert {split.next() for _ in range(8)} == set(split.slots[1:3])
    near.led(split.slots[1], False)
    assert {split.next() for _ in range(8)} == {split.slots[2]}, "its owner has gone"
    near.led(split.slots[2], False)
    assert {split.next() for _ in range(8)} == set(split.slots)


def test_a_group_keeps_its_slot_wherever_that_is_led():
    near = ZoneAffinity()
    split = RouteCache(lambda address: 4, DIALECT, near=near).of(head(destination="a")).split
    before = split.of(b"g")
    near.led(next(slot for slot in split.slots if slot != before), True)
    assert split.of(b"g") == before
