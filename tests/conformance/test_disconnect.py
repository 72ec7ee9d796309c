"""C55, C56, C61, C62, C63: the end of a connection."""

from __future__ import annotations

from itertools import islice

import pytest

from tests.harness import build

from .checks import every_version


@every_version
def test_C56_disconnect_with_receipt_is_answered_before_the_end(join, version):
    client = join(version)
    client.send("DISCONNECT", {"receipt": "bye"})
    client.expect("RECEIPT", {"receipt-id": "bye"})
    client.ended()


@every_version
def test_disconnect_without_receipt_ends_quietly(join, version):
    client = join(version)
    client.send("DISCONNECT")
    client.ended()


@every_version
def test_C56_C61_the_receipt_of_disconnect_covers_everything_before(join, queue, version):
    client = join(version)
    sends = [build("SEND", {"destination": queue, "persistent": "true"}, b"%d" % n) for n in range(50)]
    client.raw(b"".join(sends) + build("DISCONNECT", {"receipt": "bye"}))
    client.expect("RECEIPT", {"receipt-id": "bye"})
    client.ended()
    reader = join(version)
    reader.subscribe(queue)
    assert [m.body for m in reader.messages(50)] == [b"%d" % n for n in range(50)]


@every_version
def test_C56_receipts_asked_before_disconnect_come_before_its_own(join, queue, version):
    client = join(version)
    frames = [build("SEND", {"destination": queue, "persistent": "true", "receipt": n}, b"x") for n in range(10)]
    client.raw(b"".join(frames) + build("DISCONNECT", {"receipt": "bye"}))
    assert [client.expect("RECEIPT")["receipt-id"] for _ in range(11)] == [*map(str, range(10)), "bye"]
    client.ended()


@every_version
@pytest.mark.parametrize("how", ["close", "half-close"])
def test_C62_what_was_received_is_processed_after_the_end(join, queue, version, how):
    client, reader = join(version), join(version)
    frames = [build("SEND", {"destination": queue, "persistent": "true"}, b"%d" % n) for n in range(20)]
    client.raw(b"".join(frames))
    if how == "close":
        client.close()
    else:
        client.socket.shutdown(1)
        client.ended()
    reader.subscribe(queue)
    assert [m.body for m in reader.messages(20)] == [b"%d" % n for n in range(20)]


@every_version
def test_frames_after_disconnect_are_not_carried_out(join, queue, version):
    client = join(version)
    client.raw(build("DISCONNECT", {"receipt": "bye"}) + build("SEND", {"destination": queue}, b"late"))
    client.expect("RECEIPT", {"receipt-id": "bye"})
    reader = join(version)
    reader.subscribe(queue)
    reader.nothing()


@every_version
def test_a_broken_frame_after_disconnect_does_no_harm(join, version):
    client = join(version)
    client.raw(build("DISCONNECT", {"receipt": "bye"}) + b"\0\0garbage\n\n")
    client.expect("RECEIPT", {"receipt-id": "bye"})


@every_version
def test_C63_nothing_after_an_error_is_carried_out(join, queue, version):
    client = join(version)
    client.raw(build("NONSENSE", {}) + build("SEND", {"destination": queue, "persistent": "true"}, b"late"))
    client.expect("ERROR")
    client.ended()
    reader = join(version)
    reader.subscribe(queue)
    reader.nothing()


@every_version
def test_a_disconnect_in_mid_frame_sends_nothing(join, queue, version):
    client = join(version)
    client.raw(build("SEND", {"destination": queue, "content-length": 10}, b"half")[:-1])
    client.close()
    reader = join(version)
    reader.subscribe(queue)
    reader.nothing()


@every_version
def test_a_request_refused_by_the_owner_is_told_although_disconnect_followed(join, queue, version):
    """The refusal comes back after DISCONNECT has been read: ERROR in its turn, and no RECEIPT behind it."""
    client = join(version)
    client.subscribe(queue, ack="client")
    client.publish(queue, b"x")
    message = client.read()
    handle, _, number = message["message-id"].rpartition("-")
    id = {"id" if version == "1.2" else "message-id": f"{handle}-{int(number) + 100}", "subscription": "1"}
    client.raw(
        build("SEND", {"destination": queue, "persistent": "true", "receipt": "good"})
        + build("ACK", id | {"receipt": "refused"})
        + build("DISCONNECT", {"receipt": "bye"})
    )
    # What was sent may come to its own sender meanwhile: the frames are read one by one where they come byte by byte.
    answers = iter(client.read, None)
    told = [(frame.command, frame["receipt-id"]) for frame in islice((f for f in answers if f.command != "MESSAGE"), 2)]
    assert told == [("RECEIPT", "good"), ("ERROR", "refused")]
    client.ended()


@every_version
def test_a_half_closed_client_still_gets_its_receipts(join, queue, version):
    """As `printf … | nc -N` does."""
    client = join(version)
    frames = [build("SEND", {"destination": queue, "persistent": "true", "receipt": n}, b"x") for n in range(5)]
    client.raw(b"".join(frames))
    client.socket.shutdown(1)
    assert [client.expect("RECEIPT")["receipt-id"] for _ in range(5)] == list("01234")
    client.ended()


def settle(command, message, version, **headers):
    """ACK or NACK as bytes."""
    if version == "1.2":
        return build(command, {"id": message["ack"], **headers})
    return build(command, {"message-id": message["message-id"], "subscription": "1", **headers})


@every_version
def test_what_stands_before_a_disconnect_in_the_same_read_is_acknowledged(join, queue, version):
    """As PECL stomp, Net::Stomp and Ruby's gem do: ACKs, and DISCONNECT without a receipt behind them."""
    client = join(version)
    client.subscribe(queue, ack="client-individual")
    for n in range(10):
        client.publish(queue, b"%d" % n)
    acks = [settle("ACK", message, version) for message in client.messages(10)[:9]]
    client.raw(b"".join(acks) + build("DISCONNECT"))
    client.ended()
    reader = join(version)
    reader.subscribe(queue)
    assert [m.body for m in reader.messages(1)] == [b"9"]
    reader.nothing()


@every_version
def test_a_commit_before_a_disconnect_in_the_same_read_is_carried_out(join, queue, version):
    client = join(version)
    client.subscribe(queue, ack="client-individual")
    client.publish(queue, b"settled")
    (message,) = client.messages(1)
    client.raw(
        build("BEGIN", {"transaction": "t"})
        + build("SEND", {"destination": f"{queue}.out", "transaction": "t"}, b"committed")
        + settle("ACK", message, version, transaction="t")
        + build("COMMIT", {"transaction": "t"})
        + build("DISCONNECT")
    )
    client.ended()
    reader = join(version)
    reader.subscribe(f"{queue}.out", id="out")
    assert [m.body for m in reader.messages(1)] == [b"committed"]
    reader.subscribe(queue)
    reader.nothing()


@every_version
def test_a_subscription_before_a_disconnect_in_the_same_read_leaves_no_consumer(join, queue, version):
    for n in range(3):
        client = join(version)
        client.raw(build("SUBSCRIBE", {"id": n, "destination": queue, "ack": "client"}) + build("DISCONNECT"))
        client.ended()
    reader = join(version)
    reader.subscribe(queue)
    for n in range(10):
        reader.publish(queue, b"%d" % n)
    assert [m.body for m in reader.messages(10)] == [b"%d" % n for n in range(10)]
