"""C51, C53 … C55: transactions are atomic over addresses, and hold SEND, ACK and NACK."""

from __future__ import annotations

import pytest

from broker.core.errors import Code

from .checks import error, every_version, since_11


def drain(client, destination, id="drain"):
    """Takes what is in the queue now."""
    client.send("SUBSCRIBE", {"id": id, "destination": destination})
    got = [m.body for m in client.sync() if m.command == "MESSAGE"]
    client.ask("UNSUBSCRIBE", {"id": id})
    return got


@every_version
@pytest.mark.parametrize("persistent", ["false", "true"])
def test_C54_nothing_is_visible_before_commit_and_all_after(join, queue, version, persistent):
    reader, writer = join(version), join(version)
    reader.subscribe(queue + ".a", id="a")
    reader.subscribe(queue + ".b", id="b")
    writer.ask("BEGIN", {"transaction": "t"})
    for number in range(6):
        writer.publish(queue + (".b" if number % 2 else ".a"), b"%d" % number, transaction="t", persistent=persistent)
    reader.nothing()
    writer.ask("COMMIT", {"transaction": "t"})
    got = reader.messages(6)
    assert [m.body for m in got if m["subscription"] == "a"] == [b"0", b"2", b"4"]
    assert [m.body for m in got if m["subscription"] == "b"] == [b"1", b"3", b"5"]


@every_version
def test_C54_abort_leaves_nothing(join, queue, version):
    client = join(version)
    client.ask("BEGIN", {"transaction": "t"})
    client.publish(queue, b"x", transaction="t")
    client.ask("ABORT", {"transaction": "t"})
    assert drain(client, queue) == []


@every_version
@pytest.mark.parametrize("persistent", ["false", "true"])
def test_C51_C54_send_ack_and_nack_over_two_addresses_happen_together(join, queue, version, persistent):
    client, other = join(version), join(version)
    client.subscribe(queue + ".in", id="in", ack="client-individual")
    client.publish(queue + ".in", b"take", persistent=persistent)
    client.publish(queue + ".in", b"refuse", persistent=persistent)
    take, refuse = client.messages(2)
    client.ask("BEGIN", {"transaction": "t"})
    client.publish(queue + ".out", b"result", transaction="t", persistent=persistent)
    client.ack(take, transaction="t")
    if version != "1.0":
        client.nack(refuse, transaction="t")
    client.nothing()
    assert drain(other, queue + ".out") == []
    client.send("COMMIT", {"transaction": "t", "receipt": "done"})
    frames = [client.read() for _ in range(1 if version == "1.0" else 2)]
    assert {frame.get("receipt-id") for frame in frames} >= {"done"}
    if version != "1.0":
        again = next(frame for frame in frames if frame.command == "MESSAGE")
        assert (again.body, again["redelivered"]) == (b"refuse", "true")
    assert drain(other, queue + ".out") == [b"result"]
    client.ask("DISCONNECT")
    assert drain(other, queue + ".in") == [b"refuse"]


@every_version
def test_C54_a_commit_with_a_part_that_cannot_be_done_does_nothing(join, queue, version):
    """An ACK refused inside: neither the SEND before it nor the one after it happens."""
    client, other = join(version), join(version)
    client.subscribe(queue + ".in", ack="client-individual")
    client.publish(queue + ".in", b"x")
    message = client.read()
    client.ack(message)
    client.ask("BEGIN", {"transaction": "t"})
    client.publish(queue + ".out", b"before", transaction="t", persistent="true")
    client.ack(message, transaction="t", receipt="r")
    frame = client.expect("ERROR")
    assert frame["error-code"] == str(Code.NO_SUCH_DELIVERY.number)
    client.ended()
    assert drain(other, queue + ".out") == []


@every_version
def test_C54_commit_to_a_destination_that_takes_no_such_routing_does_nothing_at_all(join, queue, name, version):
    client, other = join(version), join(version)
    client.ask("BEGIN", {"transaction": "t"})
    client.publish(queue + ".good", b"good", transaction="t")
    client.send("SEND", {"destination": "/nonsense/x", "transaction": "t", "receipt": "bad"}, b"bad")
    error(client, Code.BAD_DESTINATION, "bad")
    assert drain(other, queue + ".good") == []


@every_version
def test_C51_an_ack_in_an_aborted_transaction_never_happened(join, queue, version):
    client = join(version)
    client.subscribe(queue, ack="client-individual")
    client.publish(queue, b"x")
    client.ask("BEGIN", {"transaction": "t"})
    client.ack(client.read(), transaction="t")
    client.nothing()
    client.send("ABORT", {"transaction": "t", "receipt": "r"})
    frames = {frame.command: frame for frame in (client.read(), client.read())}
    assert frames["RECEIPT"]["receipt-id"] == "r"
    assert (frames["MESSAGE"].body, frames["MESSAGE"]["redelivered"]) == (b"x", "true")


@every_version
def test_C51_a_cumulative_ack_in_a_transaction(join, queue, version):
    client, other = join(version), join(version)
    client.subscribe(queue, ack="client")
    for number in range(4):
        client.publish(queue, b"%d" % number)
    got = client.messages(4)
    client.ask("BEGIN", {"transaction": "t"})
    client.ack(got[2], transaction="t")
    client.ask("COMMIT", {"transaction": "t"})
    client.ask("DISCONNECT")
    assert drain(other, queue) == [b"3"]


@every_version
def test_an_open_transaction_does_not_stall_the_window(join, queue, version):
    """ActiveMQ's AMQ-7211: acknowledgements in a transaction free the window before COMMIT."""
    client = join(version)
    client.subscribe(queue, ack="client-individual", prefetch_count=2)
    client.ask("BEGIN", {"transaction": "t"})
    for number in range(6):
        client.send("SEND", {"destination": queue}, b"%d" % number)
    for number in range(6):
        message = client.read()
        assert message.body == b"%d" % number
        client.ack(message, transaction="t")
    client.ask("COMMIT", {"transaction": "t"})
    client.ask("DISCONNECT")


@every_version
@pytest.mark.parametrize("command", ["BEGIN", "COMMIT", "ABORT"])
def test_C53_the_transaction_header_is_needed(join, version, command):
    client = join(version)
    client.send(command, {"receipt": "r"})
    assert b"transaction" in error(client, Code.MISSING_HEADER, "r").body


@every_version
def test_C53_an_id_cannot_be_begun_twice(join, version):
    client = join(version)
    client.ask("BEGIN", {"transaction": "t"})
    client.send("BEGIN", {"transaction": "t", "receipt": "r"})
    error(client, Code.DUPLICATE_TRANSACTION, "r")


@every_version
@pytest.mark.parametrize("command", ["COMMIT", "ABORT"])
def test_C53_what_was_not_begun_cannot_be_ended(join, version, command):
    client = join(version)
    client.send(command, {"transaction": "never", "receipt": "r"})
    error(client, Code.NO_SUCH_TRANSACTION, "r")


@every_version
def test_C53_two_open_transactions_are_apart_and_ids_can_be_used_again(join, queue, version):
    client = join(version)
    for _ in range(2):
        client.ask("BEGIN", {"transaction": "one"})
        client.ask("BEGIN", {"transaction": "two"})
        client.publish(queue, b"kept", transaction="one")
        client.publish(queue, b"dropped", transaction="two")
        client.ask("ABORT", {"transaction": "two"})
        client.ask("COMMIT", {"transaction": "one"})
    assert drain(client, queue) == [b"kept", b"kept"]


@every_version
@pytest.mark.parametrize("end", ["disconnect", "lost", "error"])
def test_C55_an_open_transaction_ends_with_the_connection(join, queue, version, end):
    client, other = join(version), join(version)
    client.ask("BEGIN", {"transaction": "t"})
    client.publish(queue, b"x", transaction="t", persistent="true")
    if end == "disconnect":
        client.ask("DISCONNECT")
    elif end == "error":
        client.send("NONSENSE")
        client.expect("ERROR")
    else:
        client.close()
        other.sync()
    assert drain(other, queue) == []


@since_11
def test_C55_acks_of_an_open_transaction_are_undone_by_the_end(join, queue, version):
    client, other = join(version), join(version)
    client.subscribe(queue, ack="client-individual")
    client.publish(queue, b"x")
    client.ask("BEGIN", {"transaction": "t"})
    client.ack(client.read(), transaction="t")
    client.ask("DISCONNECT")
    assert drain(other, queue) == [b"x"]


@every_version
def test_an_empty_transaction_commits(join, version):
    client = join(version)
    client.ask("BEGIN", {"transaction": "t"})
    client.ask("COMMIT", {"transaction": "t"})


@every_version
def test_a_transaction_keeps_the_order_of_its_sends(join, queue, version):
    client = join(version)
    client.subscribe(queue)
    client.ask("BEGIN", {"transaction": "t"})
    for number in range(50):
        client.send("SEND", {"destination": queue, "transaction": "t", "n": number % 3}, b"%d" % number)
    client.send("COMMIT", {"transaction": "t"})
    assert [m.body for m in client.messages(50)] == [b"%d" % n for n in range(50)]
