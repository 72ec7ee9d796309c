"""Maps in the form their reader asks for; what cannot be read comes as it was sent, and says so."""

from __future__ import annotations

import encodings

import pytest

from broker.core.effects import Deliver
from broker.core.message import Run
from broker.edge.subscriptions import map_forms
from broker.edge.subscriptions.map_forms import JSON, XML, from_json, from_xml, in_form, to_json, to_xml

from .bench import Bench

ENTRIES = [("name", "string", "a < b"), ("size", "int", "3"), ("far", "long", "-9"), ("pi", "double", "3.5"),
           ("on", "boolean", "true"), ("c", "char", "x")]  # fmt: skip
TEXT = (
    b"<map><entry><string>name</string><string>a &lt; b</string></entry>"
    b"<entry><string>size</string><int>3</int></entry>"
    b"<entry><string>far</string><long>-9</long></entry><entry><string>pi</string><double>3.5</double></entry>"
    b"<entry><string>on</string><boolean>true</boolean></entry><entry><string>c</string><char>x</char></entry></map>"
)
OBJECT = (
    b'{"map":{"entry":[{"string":["name","a < b"]},{"string":"size","int":3},{"string":"far","long":-9},'
    b'{"string":"pi","double":3.5},{"string":"on","boolean":true},{"string":"c","char":"x"}]}}'
)


@pytest.mark.parametrize("text", ["1_0", "٣", "nan", "inf", " 1", "1e999"])
def test_what_python_alone_takes_for_a_number_is_none(text: str) -> None:
    with pytest.raises(ValueError, match="no double"):
        to_json([("a", "double", text)])


def test_both_forms_are_the_same_map() -> None:
    assert from_xml(TEXT) == ENTRIES == from_json(OBJECT)
    assert (to_xml(ENTRIES), to_json(ENTRIES)) == (TEXT, OBJECT)
    assert from_xml(b"<map>\n  <entry>\n <string>a</string>\n <string>b</string>\n</entry>\n</map>") == [
        ("a", "string", "b")
    ]
    assert from_json(b'{"map":{"entry":{"string":["a","b"]}}}') == [("a", "string", "b")], "one alone is no list there"
    assert from_json(b'{"map":""}') == [] == from_xml(b"<map/>")


@pytest.mark.parametrize("number", [1_764_243_000_123_456_789, (1 << 63) - 1, -(1 << 63)])
def test_a_long_may_have_all_the_digits_of_java(number: int) -> None:
    """Times in nanoseconds have 19: such a map came as it was sent, with an error."""
    entries = [("at", "long", str(number))]
    assert to_json(entries) == b'{"map":{"entry":[{"string":"at","long":%d}]}}' % number
    assert from_json(to_json(entries)) == entries == from_xml(to_xml(entries))


@pytest.mark.parametrize("number", [1 << 63, -(1 << 63) - 1])
def test_what_is_no_long_is_refused(number: int) -> None:
    with pytest.raises(ValueError, match="is no long"):
        to_json([("at", "long", str(number))])


def test_the_header_and_the_length_are_those_of_the_form() -> None:
    told = in_form(b"destination:/queue/a\ntransformation:jms-map-xml\ncontent-length:9\nx:1\n\n" + TEXT + b"\0", JSON)
    head, _, body = told.partition(b"\n\n")
    assert body == OBJECT + b"\0"
    assert head.split(b"\n") == [
        b"destination:/queue/a", b"x:1", b"transformation:jms-map-json", b"content-length:%d" % len(OBJECT),
    ]  # fmt: skip


@pytest.mark.parametrize("head", [b"transformation:jms-map-json", b"x:transformation", b"transformation:jms-byte"])
def test_what_has_that_form_or_none_is_not_touched(head: bytes) -> None:
    message = head + b"\n\n" + OBJECT + b"\0"
    assert in_form(message, JSON) == message


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"no map", b"syntax error"),
        (b"<list/>", b"list has no place in a map"),
        (b"<map><entry><string>a</string></entry></map>", b"an entry is a name and a value"),
        (b"<map><entry><string>a</string><object>b</object></entry></map>", b"object has no place in a map"),
        (b"<map><entry><string>a</string><int>b</int></entry></map>", b"b is no int"),
        (b"<map><entry><string>a</string><double>inf</double></entry></map>", b"inf is no double"),
        (
            b"<!DOCTYPE m [<!ENTITY a 'aa'>]><map><entry><string>a</string><string>&a;</string></entry></map>",
            b"DOCTYPE",
        ),
        (b"<?xml version='1.0' encoding='x-none-1'?><map/>", b"encoding x none 1"),
        (b"<?xml version='1.0' encoding='hex'?><map/>", b"encoding hex"),
        (b"<map>" + b" " * map_forms.MOST + b"</map>", b"more than"),
    ],
)
def test_what_cannot_be_read_comes_as_it_was_sent_and_says_so(body: bytes, why: bytes) -> None:
    told = in_form(b"transformation:jms-map-xml\n\n" + body + b"\0", JSON)
    head, _, kept = told.partition(b"\n\n")
    assert kept == body + b"\0" and head.startswith(b"transformation:jms-map-xml\ntransformation-error:")
    assert why in head and head.count(b"\n") == 1


@pytest.mark.parametrize(
    "body",
    [
        b"[]", b"{}", b"{", b'{"map":{"entry":[{"string":["a"]}]}}', b'{"map":{"entry":[{"int":1}]}}',
        b'{"map":{"entry":[{"string":"a","list":[]}]}}', b"[" * 60_000,
    ],
)  # fmt: skip
def test_json_that_is_no_map(body: bytes) -> None:
    told = in_form(b"transformation:jms-map-json\n\n" + body + b"\0", XML)
    assert b"\ntransformation-error:" in told and told.endswith(body + b"\0")


def test_no_name_of_an_encoding_is_kept() -> None:
    """Python remembers each that it has looked for in vain: a sender's names would stay for ever."""
    body = b"<?xml version='1.0' encoding='x-none-2'?><map/>"
    in_form(b"transformation:jms-map-xml\n\n" + body + b"\0", JSON)
    assert not [name for name in encodings._cache if "none" in name]  # type: ignore[attr-defined]


@pytest.mark.parametrize("destination", ["/queue/a", "/queue/a,/queue/b", "/topic/a.>"])
async def test_who_asks_gets_it_and_nobody_else(destination: str) -> None:
    bench = Bench(dialect="activemq")
    session, wire = bench.session()
    for id, form in ((1, "jms-map-xml"), (2, ""), (3, "jms-json")):
        asked = f"transformation:{form}\n" if form else ""
        session.receive(f"SUBSCRIBE\nid:{id}\ndestination:{destination}\nack:client\n{asked}\n\0".encode())
    consumers = {sub.id: number for number, sub in bench.edge.consumers.items()}
    for id in "123":
        run = Run([1], b"transformation:jms-map-json\n", [b"content-length:%d\n\n%b\0" % (len(OBJECT), OBJECT)], 9)
        bench.edge.on_effects([Deliver(consumers[id], run, 9)])
    told = wire.take()
    assert told.count(TEXT) == 1 and told.count(OBJECT) == 2
