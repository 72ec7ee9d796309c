"""Artemis' management messages: `activemq.management`, answered to reply-to; standalone and in a cluster."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from broker.core.errors import Code
from tests.harness import Broker, Client, scratch
from tests.harness.waiting import until

from .checks import error

WHERE = "activemq.management"
REPLY = "/temp-queue/answers"


def manage(client, resource, *arguments, body=None, **what):
    """The result, or the reason why not. what: attribute=… or operation=…"""
    headers = {"_AMQ_ResourceName": resource, "reply-to": REPLY, "correlation-id": "c"}
    if "attribute" in what:
        headers["_AMQ_Attribute"] = what["attribute"]
    if "operation" in what:
        headers["_AMQ_OperationName"] = what["operation"]
    body = json.dumps(arguments).encode() if body is None else body
    client.send("SEND", {"destination": WHERE, **headers}, body)
    answer = client.expect("MESSAGE", {"subscription": REPLY, "correlation-id": "c"})
    (result,) = json.loads(answer.body)
    return result if answer["_AMQ_OperationSucceeded"] == "true" else Exception(result)


def name_of(queue):
    return queue.removeprefix("/queue/")


def fill(client, queue, *colours):
    for colour in colours:
        client.publish(queue, colour.encode(), colour=colour)
    client.sync()


def test_what_a_queue_holds(join, queue):
    client, resource = join(), f"queue.{name_of(queue)}"
    fill(client, queue, "red", "blue")
    assert manage(client, resource, attribute="messageCount") == 2
    assert manage(client, resource, attribute="consumerCount") == 0
    assert manage(client, resource, attribute="routingType") == "ANYCAST"
    assert manage(client, f"address.{name_of(queue)}", attribute="queueNames") == [name_of(queue)]
    shown = manage(client, resource, "colour = 'red'", operation="listMessages")
    assert [message["body"] for message in shown] == ["red"]
    assert manage(client, resource, operation="countMessages") == 2


def test_messages_are_moved_and_removed(join, queue):
    client, resource, other = join(), f"queue.{name_of(queue)}", f"{name_of(queue)}.other"
    fill(client, queue, "red", "blue", "red", "green")
    assert manage(client, resource, "colour = 'red'", other, operation="moveMessages") == 2
    assert manage(client, resource, "colour = 'blue'", operation="removeMessages") == 1
    assert manage(client, f"queue.{other}", attribute="messageCount") == 2
    (left,) = manage(client, resource, operation="listMessages")
    assert manage(client, resource, left["id"], other, operation="moveMessage") is True
    assert manage(client, f"queue.{other}", operation="removeAllMessages") == 3


def test_a_queue_is_made_paused_resumed_and_deleted(join, queue):
    client, name = join(), name_of(queue)
    assert manage(client, "broker", name, name, operation="createQueue") is None
    assert manage(client, f"queue.{name}", operation="pause") is None
    assert manage(client, f"queue.{name}", attribute="paused") is True
    assert manage(client, f"queue.{name}", operation="resume") is None
    assert manage(client, f"queue.{name}", attribute="paused") is False
    assert manage(client, "broker", name, operation="destroyQueue") is None
    assert "no queue" in str(manage(client, f"queue.{name}", attribute="messageCount"))


@pytest.mark.parametrize(
    ("resource", "what", "text"),
    [
        ("queue.none.such", {"attribute": "messageCount"}, "no queue"),
        ("broker", {"attribute": "colour"}, "addressNames"),
        ("broker", {"operation": "forceFailover"}, "createQueue"),
        ("moon", {"operation": "pause"}, "queue.NAME"),
        ("broker", {}, "_AMQ_OperationName"),
        ("broker", {"operation": "createQueue", "body": b"{"}, "JSON array"),
        ("broker", {"operation": "createQueue"}, "argument 1"),
    ],
)
def test_what_cannot_be_done_is_answered_with_why(join, resource, what, text):
    assert text in str(manage(join(), resource, **what))


def test_receipts_come_when_it_is_done_and_in_order(join, queue):
    client, name = join(), name_of(queue)
    fill(client, queue, "red")
    headers = {"destination": WHERE, "_AMQ_ResourceName": f"queue.{name}", "_AMQ_OperationName": "removeAllMessages"}
    client.send("SEND", {**headers, "receipt": "1"})
    client.send("SEND", {"destination": queue, "receipt": "2"}, b"after")
    assert [client.read()["receipt-id"] for _ in range(2)] == ["1", "2"]
    assert manage(client, f"queue.{name}", attribute="messageCount") == 1


def test_not_in_a_transaction_and_nobody_consumes_it(join):
    client = join()
    client.ask("BEGIN", {"transaction": "t"})
    client.send("SEND", {"destination": WHERE, "transaction": "t", "receipt": "r"})
    error(client, Code.BAD_HEADER, "r")
    client = join()
    client.send("SUBSCRIBE", {"destination": WHERE, "id": "1", "receipt": "r"})
    error(client, Code.BAD_DESTINATION, "r")


@pytest.fixture(scope="module")
def guarded(request):
    """With users: one who manages `mine.#`, and one who manages nothing."""
    rights = ("send", "consume", "create_address", "create_durable_queue", "create_non_durable_queue")
    settings = {f"edge.permissions.{match}.{right}": "all" for match in ("#", "mine.#") for right in rights}
    settings["edge.permissions.mine.#.manage"] = "some"
    with scratch(request, "management") as folder:
        broker = Broker(folder, settings)
        line = [sys.executable, "-m", "broker.app.cli", "user", "groups"]
        for user, groups in (("some", ["all", "some"]), ("none", ["all"])):
            broker.add_user(user, "secret")
            subprocess.run([*line, user, *groups, "--data", str(broker.data)], env=broker.environment(), check=True)
        with broker:
            yield broker


def test_only_who_may_manage(guarded):
    with Client(guarded.port) as some, Client(guarded.port) as none:
        for client, user in ((some, "some"), (none, "none")):
            client.connect({"login": user, "passcode": "secret"})
        fill(some, "/queue/mine.a", "red")
        fill(some, "/queue/yours.a", "red")
        assert manage(some, "queue.mine.a", attribute="messageCount") == 1
        assert "no queue" in str(manage(some, "queue.yours.a", attribute="messageCount"))
        assert "yours.b" in str(manage(some, "broker", "yours.b", operation="createQueue"))
        assert "administrator" in str(manage(some, "broker", attribute="totalMessageCount"))
        assert "may manage nothing" in str(manage(none, "queue.mine.a", operation="removeAllMessages"))
        assert manage(some, "queue.mine.a", operation="removeAllMessages") == 1
    # The log is written by a thread: the answer may be here before its line is.
    until(lambda: '"action": "removeAllMessages"' in guarded.log(), "the change is in the audit log")
