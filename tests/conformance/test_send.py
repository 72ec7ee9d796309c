"""C35 … C37, C57, C59 … C61, C65: SEND, what a MESSAGE carries, receipts."""

from __future__ import annotations

import pytest

from broker.core.errors import Code
from tests.harness import build

from .checks import error, every_version, since_11


@every_version
@pytest.mark.parametrize("receipt", [None, "r"])
def test_C35_send_needs_a_destination(join, version, receipt):
    client = join(version)
    client.send("SEND", {"foo": "bar"} | ({"receipt": receipt} if receipt else {}), b"x")
    assert b"destination" in error(client, Code.MISSING_HEADER, receipt).body


@every_version
def test_C36_user_headers_reach_the_subscriber(join, queue, version):
    client = join(version)
    client.subscribe(queue)
    client.publish(queue, b"x", foo="bar", reply_to="/queue/answers", correlation_id="17", X_Mixed="Case")
    message = client.read()
    wanted = {"foo": "bar", "reply-to": "/queue/answers", "correlation-id": "17", "X-Mixed": "Case"}
    assert message.headers.items() >= wanted.items()


@every_version
@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"destination": "/nonsense/a"}, Code.BAD_DESTINATION),
        ({"destination": ""}, Code.BAD_DESTINATION),
        ({"destination": "/queue/"}, Code.BAD_DESTINATION),
        ({"destination": "/queue/a", "priority": "high"}, Code.BAD_HEADER),
        ({"destination": "/queue/a", "priority": "10"}, Code.BAD_HEADER),
        ({"destination": "/queue/a", "expires": "soon"}, Code.BAD_HEADER),
        ({"destination": "/queue/a", "expiration": "60000"}, Code.BAD_HEADER),
        ({"destination": "/queue/a", "persistent": "maybe"}, Code.BAD_HEADER),
        ({"destination": "/queue/a", "destination-type": "BROADCAST"}, Code.BAD_HEADER),
        ({"destination": "/queue/a", "transaction": "never-begun"}, Code.NO_SUCH_TRANSACTION),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else value.name,
)
def test_C37_a_send_that_cannot_be_processed_gets_error_and_close(join, version, headers, code):
    client = join(version)
    client.send("SEND", headers | {"receipt": "r-37"}, b"x")
    error(client, code, "r-37")


@every_version
def test_C37_frames_before_the_bad_one_are_answered_first(join, queue, version):
    client = join(version)
    good = build("SEND", {"destination": queue, "receipt": "good"}, b"x")
    bad = build("SEND", {"destination": "/nonsense", "receipt": "bad"}, b"x")
    after = build("SEND", {"destination": queue, "receipt": "after"}, b"never")
    client.raw(good + bad + after)
    client.expect("RECEIPT", {"receipt-id": "good"})
    error(client, Code.BAD_DESTINATION, "bad")
    reader = join(version)
    reader.subscribe(queue)
    assert reader.read().body == b"x"
    reader.nothing()


@every_version
@pytest.mark.parametrize("persistent", ["true", "false"])
def test_C57_message_has_destination_unique_id_and_subscription(join, queue, version, persistent):
    client = join(version)
    client.subscribe(queue, id="s-1")
    for _ in range(3):
        client.publish(queue, b"x", persistent=persistent)
    got = client.messages(3)
    assert {m["destination"] for m in got} == {queue}
    assert {m["subscription"] for m in got} == {"s-1"}
    assert len({m["message-id"] for m in got}) == 3


@every_version
@pytest.mark.parametrize("form", ["{}", "/queue/{}", "{}::{}", "/queue/{}::{}"])
def test_C59_the_destination_comes_back_as_it_was_sent(join, name, version, form):
    destination = form.format(name, name)
    reader, writer = join(version), join(version)
    reader.subscribe("/queue/" + name)
    writer.publish(destination, b"x")
    shown = reader.read()["destination"]
    assert shown.replace("\\c", ":") == destination


@since_11
def test_C59_an_odd_destination_comes_back_identical(join, queue, version):
    client = join(version)
    odd = queue + r"/%2F é\c\\ "
    client.subscribe(odd)
    client.publish(odd, b"x")
    assert client.read()["destination"] == odd


@every_version
def test_C60_receipt_has_the_id_and_no_body(join, queue, version):
    client = join(version)
    client.send("SEND", {"destination": queue, "receipt": "m-1 2"}, b"x")
    frame = client.expect("RECEIPT", {"receipt-id": "m-1 2"})
    assert frame.body == b""


@every_version
def test_C61_receipts_come_in_frame_order(join, queue, version):
    """Slow (durable) and fast requests mixed, on several destinations."""
    client = join(version)
    frames, receipts = [], [f"r{n}" for n in range(60)]
    for number, receipt in enumerate(receipts):
        headers = {"destination": f"{queue}.{number % 3}", "receipt": receipt}
        if number % 7 == 5:
            frames.append(build("SUBSCRIBE", {"destination": f"{queue}.{number}", "id": number, "receipt": receipt}))
        elif number % 7 == 6:
            frames.append(build("BEGIN", {"transaction": number, "receipt": receipt}))
        else:
            persistent = "true" if number % 2 else "false"
            frames.append(build("SEND", headers | {"persistent": persistent}, b"x"))
    client.raw(b"".join(frames))
    assert [client.expect("RECEIPT")["receipt-id"] for _ in receipts] == receipts


@every_version
def test_C65_every_client_frame_may_ask_for_a_receipt(join, queue, version):
    client = join(version)
    client.ask("SUBSCRIBE", {"id": "1", "destination": queue, "ack": "client-individual"})
    client.publish(queue, b"one")
    client.publish(queue, b"two")
    first, second = client.messages(2)
    for command, message in (("ACK", first), ("NACK", second)):
        if version == "1.2":
            client.ask(command, {"id": message["ack"]})
        elif version == "1.1" or command == "ACK":
            client.ask(command, {"message-id": message["message-id"], "subscription": "1"})
        if command == "NACK" and version != "1.0":
            client.expect("MESSAGE")
    for command in ("BEGIN", "ABORT", "BEGIN", "COMMIT"):
        client.ask(command, {"transaction": "t"})
    client.ask("UNSUBSCRIBE", {"id": "1"})
    client.ask("DISCONNECT")
    client.ended()


RESERVED = {
    "message-id": "forged", "subscription": "forged", "ack": "forged", "redelivered": "true", "delivery-count": "99",
    "receipt-id": "forged", "error-code": "1",
}  # fmt: skip


@every_version
@pytest.mark.parametrize("mode", ["auto", "client"])
def test_a_publisher_cannot_forge_the_servers_headers(join, queue, version, mode):
    reader, writer = join(version), join(version)
    reader.subscribe(queue, id="mine", ack=mode)
    writer.ask("SEND", RESERVED | {"destination": queue, "foo": "kept"}, b"x")
    message = reader.read()
    assert message["foo"] == "kept"
    assert message["subscription"] == "mine"
    assert "forged" not in {value for _, value in message.pairs}
    assert not {"redelivered", "delivery-count", "receipt-id", "error-code"} & message.headers.keys()
    names = [name for name, _ in message.pairs]
    assert len(names) == len(set(names))
    assert ("ack" in names) == (mode == "client" and version == "1.2")


@every_version
def test_receipt_and_transaction_of_the_sender_are_not_relayed(join, queue, version):
    client = join(version)
    client.subscribe(queue)
    client.ask("BEGIN", {"transaction": "t"})
    client.ask("SEND", {"destination": queue, "transaction": "t"}, b"x")
    client.send("COMMIT", {"transaction": "t"})
    message = client.expect("MESSAGE")
    assert not {"receipt", "transaction"} & message.headers.keys()


@every_version
def test_a_varying_header_does_not_leak_between_messages(join, queue, version):
    """Memoised header blocks must not show one message's headers on another."""
    client = join(version)
    client.subscribe(queue)
    frames = [
        build(
            "SEND", {"destination": queue, "n": n, "receipt": f"r{n}", "content-length": len(f"b{n}")}, f"b{n}".encode()
        )
        for n in range(40)
    ]
    client.raw(b"".join(frames))
    got: list[tuple[str, bytes]] = []
    receipts: list[str] = []
    for frame in (client.read() for _ in range(80)):
        if frame.command == "MESSAGE":
            got.append((frame["n"], frame.body))
        else:
            receipts.append(frame["receipt-id"])
    assert got == [(str(n), b"b%d" % n) for n in range(40)]
    assert receipts == [f"r{n}" for n in range(40)]


@every_version
def test_order_is_kept_whatever_the_frames_look_like(join, queue, version):
    """Same block, other block, durable or not, with and without receipt and content-length, in one write."""
    client = join(version)
    client.subscribe(queue)
    variants: list[dict[str, object]] = [{}, {"persistent": "true"}, {"foo": "bar"}, {"content-length": 3}, {}]
    frames = [build("SEND", {"destination": queue} | variants[n * n % 5], b"%03d" % n) for n in range(100)]
    client.raw(b"".join(frames))
    got = [m for m in client.messages(100) if m.get("persistent") != "true"]
    numbers = [int(m.body) for m in got]
    assert numbers == sorted(numbers)
