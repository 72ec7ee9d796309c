"""Cases 55 to 57: transactions, of which acknowledgements are a part."""

from __future__ import annotations

import pytest

from .checks import bodies, error


def test_case_55_commit_delivers_once_abort_never(join, queue):
    client, reader = join(), join()
    reader.subscribe(queue)
    client.ask("BEGIN", {"transaction": "t"})
    client.publish(queue, b"committed", transaction="t")
    reader.nothing()
    client.ask("COMMIT", {"transaction": "t"})
    assert reader.read().body == b"committed"
    client.ask("BEGIN", {"transaction": "t"})
    client.publish(queue, b"aborted", transaction="t")
    client.ask("ABORT", {"transaction": "t"})
    reader.nothing()


def test_case_55_the_same_id_again(join, queue):
    client, reader = join(), join()
    reader.subscribe(queue)
    for body in (b"1", b"2"):
        client.ask("BEGIN", {"transaction": "t"})
        client.publish(queue, body, transaction="t")
        client.ask("COMMIT", {"transaction": "t"})
    assert bodies(reader.messages(2)) == [b"1", b"2"]


def test_case_55_begin_twice(join):
    client = join()
    client.ask("BEGIN", {"transaction": "t"})
    client.send("BEGIN", {"transaction": "t", "receipt": "r"})
    error(client, "Transaction already", receipt="r")


def test_case_56_an_aborted_acknowledgement_gives_the_message_back(join, queue):
    client = join()
    client.publish(queue, b"x", persistent="true")
    client.subscribe(queue, ack="client-individual")
    client.ask("BEGIN", {"transaction": "t"})
    client.ack(client.read(), transaction="t")
    client.ask("ABORT", {"transaction": "t"})
    client.ask("DISCONNECT")
    reader = join()
    reader.subscribe(queue)
    again = reader.read()
    assert (again.body, again["redelivered"]) == (b"x", "true")


def test_case_56_a_committed_one_does_not(join, queue):
    client = join()
    client.publish(queue, b"x", persistent="true")
    client.subscribe(queue, ack="client-individual")
    client.ask("BEGIN", {"transaction": "t"})
    client.ack(client.read(), transaction="t")
    client.ask("COMMIT", {"transaction": "t"})
    client.ask("DISCONNECT")
    reader = join()
    reader.subscribe(queue)
    reader.nothing()


@pytest.mark.parametrize("command", ["SEND", "COMMIT", "ABORT"])
def test_case_57_an_unknown_transaction(join, queue, command):
    client, reader = join(), join()
    client.send(command, {"destination": queue, "transaction": "none", "receipt": "r"})
    error(client, "No such transaction", "none", receipt="r")
    reader.subscribe(queue)
    reader.nothing()


def test_case_57_a_lost_connection_rolls_back(join, queue):
    client, reader = join(), join()
    reader.subscribe(queue)
    client.ask("BEGIN", {"transaction": "t"})
    client.publish(queue, b"x", transaction="t")
    client.close()
    reader.nothing()
