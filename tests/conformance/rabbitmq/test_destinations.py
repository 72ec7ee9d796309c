"""Destinations of RabbitMQ: what they mean, and that what means nothing is refused by name."""

from __future__ import annotations

import pytest

from .checks import error


def bodies(client, count):
    return sorted(message.body.decode() for message in client.messages(count))


@pytest.mark.parametrize(
    ("sent", "subscribed"),
    [
        ("/queue/{}", "/queue/{}"), ("{}", "/queue/{}"), ("/queue/{}", "{}"), ("/queue/{}%2Fx", "/queue/{}%2Fx"),
        ("/queue/{}é", "/queue/{}%C3%A9"), ("/queue/{}%25", "/queue/{}%"), ("/queue/{}", "/amq/queue/{}"),
    ],
)  # fmt: skip
def test_a_queue_by_all_its_names(join, name, sent, subscribed):
    client = join()
    client.publish(sent.format(name), b"x")
    client.subscribe(subscribed.format(name))
    assert client.expect("MESSAGE", {"destination": sent.format(name)}).body == b"x"


def test_a_queue_gives_each_message_to_one(join, name):
    one, other = join(), join()
    for client in (one, other):
        client.subscribe(f"/queue/{name}", ack="client-individual", prefetch_count=1)
    one.publish(f"/queue/{name}", b"1")
    one.publish(f"/queue/{name}", b"2")
    assert {one.read().body, other.read().body} == {b"1", b"2"}


@pytest.mark.parametrize(
    ("pattern", "matching"),
    [
        ("#", ["", ".a", ".a.b", ".a.b.c"]), ("*", [".a"]), ("*.b", [".a.b"]), ("#.b", [".a.b"]), ("a.#.c", [".a.b.c"]),
        ("a.#", [".a", ".a.b", ".a.b.c"]), ("#.a.#", [".a", ".a.b", ".a.b.c"]), ("a.#.#", [".a", ".a.b", ".a.b.c"]),
        ("a.#.*", [".a.b", ".a.b.c"]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("root", ["/topic/{}", "/exchange/amq.topic/{}", "/exchange/logs/{}"])
def test_wildcards_at_any_place(join, name, root, pattern, matching):
    client, other = join(), join()
    key = root.format(name)
    client.subscribe(f"{key}.{pattern}")
    for end in ("", ".a", ".a.b", ".a.b.c"):
        other.publish(key + end, end.encode())
    assert bodies(client, len(matching)) == matching
    client.nothing()


def test_topics_are_the_exchange_amq_topic_and_no_other_one(join, name):
    client = join()
    client.subscribe(f"/topic/{name}", id="t")
    client.subscribe(f"/exchange/amq.topic/{name}", id="e")
    client.subscribe("/topic/#", id="all")
    client.publish(f"/exchange/amq.topic/{name}", b"x")
    assert sorted(message["subscription"] for message in client.messages(3)) == ["all", "e", "t"]
    for other in ("logs", "my.own", "amq.direct", "amq.fanout", "amq.headers", "everybody"):
        client.publish(f"/exchange/{other}/{name}", b"no")
    client.nothing()


@pytest.mark.parametrize("exchange", ["amq.direct", "my.own", "my%2Eown"])
def test_a_direct_exchange_matches_its_key(join, name, exchange):
    client = join()
    if exchange == "my%2Eown":  # an escape that RabbitMQ neither reads nor writes
        client.send("SUBSCRIBE", {"destination": f"/exchange/{exchange}/{name}", "id": "1"})
        error(client, "not_found", "my%2Eown")
        return
    client.subscribe(f"/exchange/{exchange}/{name}", id="1")
    client.subscribe(f"/exchange/{exchange}/{name}", id="2")
    client.publish(f"/exchange/{exchange}/{name}.other", b"no")
    client.publish(f"/exchange/{exchange}/{name}", b"x")
    assert [message.body for message in client.messages(2)] == [b"x", b"x"]
    client.nothing()


@pytest.mark.parametrize("exchange", ["amq.fanout", "everybody", "amq.headers"])
def test_a_fanout_exchange_has_no_keys(join, name, exchange):
    one, other = join(), join()
    one.subscribe(f"/exchange/{exchange}")
    other.subscribe(f"/exchange/{exchange}/whatever")
    one.publish(f"/exchange/{exchange}/{name}", b"x")
    assert one.read().body == other.read().body == b"x"


def test_a_queue_that_is_bound_from_the_start(join):
    client = join()
    client.publish("/exchange/my.own/to.queue", b"x")
    client.subscribe("/queue/bound.queue")  # the copy is on its way: the queue may not be there yet
    assert client.read().body == b"x"


def test_queues_that_are_bound_to_a_headers_exchange_with_arguments(join):
    client = join()
    sent = {
        "both": {"colour": "red", "shape": "round"}, "one": {"colour": "red", "shape": "flat"},
        "size": {"size": "3"}, "other": {"colour": "blue", "size": "4"}, "none": {},
    }  # fmt: skip
    for body, headers in sent.items():
        client.publish("/exchange/marked", body.encode(), **headers)
    for queue, bodies in (("bound.all", ["both"]), ("bound.any", ["both", "one", "size"])):
        client.subscribe(f"/queue/{queue}", id=queue)
        assert [message.body.decode() for message in client.messages(len(bodies))] == bodies
    client.nothing()


def test_a_message_nobody_is_bound_for_is_dropped_and_receipted(join, name):
    client = join()
    client.publish(f"/topic/{name}", b"x")
    client.subscribe(f"/topic/{name}")
    client.nothing()


@pytest.mark.parametrize("command", ["SEND", "SUBSCRIBE"])
@pytest.mark.parametrize(
    ("destination", "message", "text"),
    [
        ("/bogus/x", "Unknown destination", "/exchange, /queue"),
        ("a/b", "Unknown destination", "'a/b'"),
        ("/queue/", "Invalid destination", "'/queue/'"),
        ("/queue/a/b", "Invalid destination", "%2F"),
        ("/topic/a/b", "Invalid destination", "'/topic/a/b'"),
        ("/exchange//k", "Invalid destination", "'/exchange//k'"),
        ("/exchange/a/b/c", "Invalid destination", "'/exchange/a/b/c'"),
        ("/exchange/none/k", "not_found", "no exchange 'none' in vhost '/'"),
        ("/temp-queue/x", "Invalid destination", "'/temp-queue/x' is not a valid destination for "),
        ("/amq/queue/never.made", "not_found", "never.made"),
        ("/queue/%C3", "Invalid destination", "%C3"),
        ("/exchange/my.own/a.*", "Invalid destination", "direct exchange"),
        ("/queue/a%3A%3Ab::c", "Invalid destination", "::"),
        ("/topic/$exchange%2Flogs.x", "Invalid destination", "$"),
    ],
)
def test_what_means_nothing(join, command, destination, message, text):
    client = join()
    client.send(
        command, {"destination": destination, "receipt": "r", **({"id": "1"} if command == "SUBSCRIBE" else {})}
    )
    error(client, message, text, receipt="r")


def test_what_is_made_once_is_there(join, name):
    client = join()
    client.publish(f"/queue/{name}", b"1")
    client.publish(f"/amq/queue/{name}", b"2")
    client.subscribe(f"/amq/queue/{name}")
    assert bodies(client, 2) == ["1", "2"]
