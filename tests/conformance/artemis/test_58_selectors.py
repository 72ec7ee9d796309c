"""Case 58: selectors. Each picks exactly one of two messages, on queues and on topics."""

from __future__ import annotations

import pytest

from .checks import bodies, error

PICKS = [
    ("foo = 'zzz'", {"foo": "abc"}, {"foo": "zzz"}, (b"x", b"x")),
    ("hyphenated_props:foo-bar = 'zzz'", {"foo-bar": "abc"}, {"foo-bar": "zzz"}, (b"x", b"x")),
    ("XPATH 'root/a'", {}, {}, (b"<root><b/></root>", b"<root><a/></root>")),
    ("convert_string_expressions:age > 18", {"age": "17"}, {"age": "21"}, (b"x", b"x")),
    ("JMSType = 'order'", {"type": "bill"}, {"type": "order"}, (b"x", b"x")),
    ("foo LIKE 'z%' AND foo NOT IN ('zz', 'zy')", {"foo": "zz"}, {"foo": "zx"}, (b"x", b"x")),
    ("AMQPriority > 4", {"priority": "3"}, {"priority": "7"}, (b"x", b"x")),
]


@pytest.mark.parametrize("kind", ["queue", "topic"])
@pytest.mark.parametrize(("selector", "other", "match", "sent"), PICKS, ids=[pick[0] for pick in PICKS])
def test_case_58_only_the_matching_message(join, name, kind, selector, other, match, sent):
    client, writer = join(acceptor="strict"), join()
    destination = f"/{kind}/{name}"
    client.subscribe(destination, selector=selector.replace(":", r"\c"))
    writer.ask("SEND", {"destination": destination, "number": "1", **other}, sent[0])
    writer.ask("SEND", {"destination": destination, "number": "2", **match}, sent[1])
    message = client.read()
    assert message["number"] == "2"
    client.nothing()


def test_case_58_what_does_not_match_stays_for_others(join, queue):
    client, writer = join(), join()
    for value in ("a", "b", "a"):
        writer.publish(queue, value.encode(), foo=value)
    client.subscribe(queue, selector="foo = 'b'")
    assert client.read().body == b"b"
    client.nothing()
    writer.subscribe(queue)
    assert bodies(writer.messages(2)) == [b"a", b"a"]


def test_case_58_a_number_is_a_number_only_where_the_acceptor_says_so(join, topic):
    strict, relaxed, writer = join(acceptor="strict"), join(), join()
    for client in (strict, relaxed):
        client.subscribe(topic, selector="age > 18")
    writer.publish(topic, b"x", age="21")
    assert relaxed.read().body == b"x"
    strict.nothing()


@pytest.mark.parametrize("selector", ["", ") foo = 'bar' ("])
@pytest.mark.parametrize("kind", ["queue", "topic"])
def test_case_58_an_invalid_selector(join, name, kind, selector):
    client = join()
    client.send("SUBSCRIBE", {"id": "1", "destination": f"/{kind}/{name}", "selector": selector, "receipt": "r"})
    error(client, "Invalid selector", receipt="r")
