"""Cases 42 to 46: durable subscriptions. Where three header names compete, durable-subscriber-name wins, then
durable-subscription-name, then activemq.subscriptionName, for UNSUBSCRIBE as for SUBSCRIBE."""

from __future__ import annotations

import threading

import pytest

from .checks import bodies, error, load, numbers

NAMES = ["durable-subscriber-name", "durable-subscription-name", "activemq.subscriptionName"]


def test_case_42_messages_wait_for_a_client_that_is_away(site, join, name, topic):
    client, writer = join(headers={"client-id": f"c-{name}"}), join()
    client.subscribe(topic, durable_subscription_name="news")
    client.ask("DISCONNECT")
    load(writer, topic, 3, persistent="true")
    assert site.queues(name) == {f"c-{name}.news": 3}
    back = join(headers={"client-id": f"c-{name}"})
    back.subscribe(topic, durable_subscription_name="news")
    assert bodies(back.messages(3)) == numbers(3)


@pytest.mark.parametrize("header", NAMES)
def test_case_43_every_header_name_works(site, join, name, topic, header):
    client = join(headers={"client-id": f"c-{name}"})
    client.ask("SUBSCRIBE", {"id": "1", "destination": topic, header: "news"})
    assert site.queues(name) == {f"c-{name}.news": 0}
    client.ask("UNSUBSCRIBE", {"id": "1", header: "news"})
    site.wait_queues(name, {})


def test_case_43_the_names_have_an_order(site, join, name, topic):
    client = join(headers={"client-id": f"c-{name}"})
    for known in (NAMES, NAMES[1:], NAMES[2:]):
        headers = {header: header for header in reversed(known)}
        client.ask("SUBSCRIBE", {"id": "1", "destination": topic, **headers})
        assert site.queues(name) == {f"c-{name}.{known[0]}": 0}
        client.ask("UNSUBSCRIBE", {"id": "1", **headers})
        site.wait_queues(name, {})


def test_case_44_unsubscribe_without_the_name_keeps_the_queue_with_it_deletes_it(site, join, name, topic):
    client, writer = join(headers={"client-id": f"c-{name}"}), join()
    client.subscribe(topic, durable_subscription_name="news")
    client.ask("UNSUBSCRIBE", {"id": "1"})
    writer.publish(topic, b"kept", persistent="true")
    client.subscribe(topic, durable_subscription_name="news")
    assert client.read().body == b"kept"
    client.ask("UNSUBSCRIBE", {"id": "1", "durable-subscription-name": "news"})
    site.wait_queues(name, {})


@pytest.mark.parametrize("headers", [{}, {"id": "1"}, {"id": "another"}], ids=["name", "with id", "with another id"])
def test_case_44_after_reconnecting_client_id_and_name_are_enough_to_delete_it(site, join, name, topic, headers):
    client = join(headers={"client-id": f"c-{name}"})
    client.subscribe(topic, durable_subscription_name="news")
    client.publish(topic, b"kept", persistent="true")
    client.ask("DISCONNECT")
    back = join(headers={"client-id": f"c-{name}"})
    back.ask("UNSUBSCRIBE", {**headers, "durable-subscription-name": "news"})
    site.wait_queues(name, {})
    back.subscribe(topic, durable_subscription_name="news")
    back.nothing()


def test_case_45_a_durable_subscription_needs_a_client_id(join, topic):
    client = join()
    client.send("SUBSCRIBE", {"id": "1", "destination": topic, "durable-subscription-name": "news", "receipt": "r"})
    error(client, "client-id", receipt="r")


def test_case_46_twenty_five_subscribers_of_one_durable_name_at_once(site, join, name, topic):
    """They share its queue: each message goes to one of them."""
    clients = [join(headers={"client-id": f"c-{name}"}) for _ in range(25)]
    failed: list[BaseException] = []

    def subscribe(client):
        try:
            client.subscribe(topic, durable_subscription_name="news")
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=subscribe, args=(client,)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    writer = join()
    load(writer, topic, 50)
    got = [message.body for client in clients for message in client.messages(2)]
    assert sorted(got) == sorted(numbers(50))
