"""What an acceptor adds: ids that never repeat, and a user name that nobody can forge."""

from __future__ import annotations

from broker.config.acceptor import AcceptorSettings
from broker.core.message import ESCAPED
from broker.edge.session.added_headers import AddedHeaders, Numbers, marks_of
from broker.wire.events import BodyStart, Head, Sends


def sends(lines: bytes, records: list[bytes], whole: bool) -> Sends:
    return Sends(Head(lines, {}, 0, whole), records, [b"r"], 0)


def texts(event: Sends) -> list[bytes]:
    assert event.nbytes == sum(map(len, event.records)) + len(event.records) * len(event.head.lines)
    return [event.head.lines + record for record in event.records]


def test_nothing_is_asked_of_those_who_want_nothing():
    assert marks_of(AcceptorSettings(), "ada", Numbers("x")) is None


def test_a_forged_user_is_taken_out_wherever_it_stands_and_never_from_a_body():
    added = AddedHeaders(None, "ada")
    for lines, records, whole in (
        (b"JMSXUserID:eve\na:b\n\n", [b"JMSXUserID:body\n\0"], True),
        (b"a:b\n", [b"JMSXUserID:eve\n\nJMSXUserID:body\n\0"], False),
        (b"", [b"a:b\nJMSXUserID:eve\n\nJMSXUserID:body\n\0"], False),
    ):
        (text,) = texts(added.sends(sends(lines, records, whole)))
        assert text == b"JMSXUserID:ada\na:b\n\nJMSXUserID:body\n\0"


def test_the_senders_head_is_shared_and_stays_as_it_is():
    event = sends(b"a:b\n\n", [b"1\0", b"2\0"], True)
    told = AddedHeaders(None, "a:b").sends(event)
    assert event.head.lines == b"a:b\n\n" and told.head is not event.head
    assert told.head.flags & ESCAPED and told.head.lines.startswith(b"JMSXUserID:a\\cb\n") and told.receipts == [b"r"]


def test_each_message_gets_a_number_and_two_starts_have_other_ones():
    numbers = Numbers("boot-1")
    added = AddedHeaders(numbers, None)
    one, two = texts(added.sends(sends(b"a:b\n\n", [b"1\0", b"2\0"], True)))
    assert one.startswith(b"amqMessageId:STOMP") and one.endswith(b"\na:b\n\n1\0")
    first = int(one.split(b"STOMP")[1].split(b"\n")[0])
    assert int(two.split(b"STOMP")[1].split(b"\n")[0]) == first + 1
    assert 0 < first < 1 << 63 and Numbers("boot-2").next() >> 32 != first >> 32


def test_a_large_one_has_the_same():
    added = marks_of(AcceptorSettings(enable_message_id=True, validated_user=True), "ada", Numbers("x"))
    assert added is not None
    event = added.body(BodyStart("SEND", Head(b"JMSXUserID:eve\na:b\n", {}, 0, False), 9, None))
    number, rest = event.head.lines.split(b"\n", 1)
    assert number.startswith(b"amqMessageId:STOMP") and rest == b"JMSXUserID:ada\na:b\n" and event.length == 9
