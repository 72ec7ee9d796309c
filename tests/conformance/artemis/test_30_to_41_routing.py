"""Cases 30 to 41: SUBSCRIBE, what is made and deleted on demand, routing types, prefixes, queues by name, no-local."""

from __future__ import annotations

import pytest

from .checks import bodies, error, load, numbers


def test_case_30_the_receipt_comes_before_the_first_message(join, queue):
    client = join()
    load(client, queue, 5)
    client.send("SUBSCRIBE", {"id": "1", "destination": queue, "receipt": "r"})
    client.expect("RECEIPT", {"receipt-id": "r"})
    assert bodies(client.messages(5)) == numbers(5)


def test_case_31_two_subscriptions_with_one_id(join, queue):
    client = join()
    client.subscribe(queue, id="same")
    client.send("SUBSCRIBE", {"id": "same", "destination": queue + ".b", "receipt": "r"})
    error(client, "There already is a subscription", receipt="r")


def test_case_32_what_was_made_on_demand_goes_again(site, join, name, queue):
    client, other = join(), join()
    client.publish(queue, b"first")
    assert site.queues(name) == {name: 1}
    client.subscribe(queue)
    assert client.read().body == b"first"
    client.ask("UNSUBSCRIBE", {"id": "1"})
    site.wait_queues(name, {})
    other.publish(queue, b"second")
    client.nothing()


def test_case_33_a_destination_that_may_not_be_made(join, name):
    client = join()
    client.send("SEND", {"destination": f"/queue/off.{name}", "receipt": "r"}, b"x")
    error(client, "Destination does not exist", receipt="r")


def test_case_33_nor_be_subscribed_to(join, name):
    client = join()
    client.send("SUBSCRIBE", {"id": "1", "destination": f"/queue/off.{name}", "receipt": "r"})
    error(client, "Destination does not exist", receipt="r")


def test_case_34_who_gets_what_on_an_address_with_three_queues(join):
    """Two anycast queues and a multicast one that exist from the start."""
    client = join()
    for queue in ("one", "two", "news"):
        client.subscribe(f"both::both.{queue}", id=queue)

    def receivers(**headers: object) -> list[str]:
        client.publish("both", b"x", **headers)
        return sorted(message["subscription"] for message in client.sync())

    for _ in range(2):
        assert receivers(destination_type="ANYCAST") in (["one"], ["two"])
    assert receivers(destination_type="MULTICAST") == ["news"]
    assert receivers() in (["news", "one"], ["news", "two"])


def test_case_34_anycast_queues_take_turns(join):
    client = join()
    client.subscribe("both::both.one", id="one")
    client.subscribe("both::both.two", id="two")
    load(client, "both", 10, destination_type="ANYCAST")
    assert sorted(message["subscription"] for message in client.messages(10)) == ["one"] * 5 + ["two"] * 5


def test_case_34b_a_last_value_queue_keeps_the_newest_of_what_nobody_has_yet(join, name):
    client, writer = join(), join()
    destination = f"/queue/newest.{name}"
    client.subscribe(destination, ack="client", consumer_window_size=0)
    for number in range(1, 101):
        writer.ask("SEND", {"destination": destination, "_AMQ_LVQ_NAME": "key"}, b"%d" % number)
    got = [client.read()]
    client.nothing()
    client.ack(got[-1])
    got.append(client.read())
    client.ack(got[-1])
    assert bodies(got) == [b"1", b"100"]
    client.nothing()


def test_case_34b_messages_without_a_key_are_all_kept(join, name):
    client = join()
    destination = f"/queue/newest.{name}"
    load(client, destination, 3)
    client.subscribe(destination)
    assert bodies(client.messages(3)) == numbers(3)


@pytest.mark.parametrize("command", ["SEND", "SUBSCRIBE"])
def test_case_35_a_routing_type_the_address_does_not_have(join, command):
    client = join()
    header = "destination-type" if command == "SEND" else "subscription-type"
    client.send(command, {"id": "1", "destination": "off.only.anycast", header: "MULTICAST", "receipt": "r"})
    error(client, "Not allowed to specify MULTICAST semantics", "off.only.anycast", receipt="r")


def test_case_36_prefixes_say_what_is_meant_and_come_back(join, name, queue, topic):
    client, writer = join(), join()
    client.subscribe(queue, id="q")
    client.subscribe(topic, id="t")
    writer.publish(queue, b"to the queue")
    writer.publish(topic, b"to the topic")
    came = {(m["subscription"], m["destination"], m.body) for m in client.messages(2)}
    assert came == {("q", queue, b"to the queue"), ("t", topic, b"to the topic")}
    client.nothing()


def test_case_36_one_address_with_and_without_prefix(join, name, queue):
    client = join()
    client.subscribe(name)
    client.publish(queue, b"x")
    assert client.read().body == b"x"


def test_case_37_one_queue_of_an_address_by_name(join, name):
    client, writer = join(), join()
    client.subscribe(f"{name}::q1", id="1")
    client.subscribe(f"{name}::q2", id="2")
    writer.publish(rf"{name}\c\cq1", b"for q1")
    message = client.read()
    assert (message["subscription"], message.body) == ("1", b"for q1")
    client.nothing()


def test_case_37_a_queue_whose_address_is_known(join):
    client, writer = join(), join()
    client.subscribe("::both.news")
    writer.publish("both", b"x", destination_type="MULTICAST")
    assert client.read().body == b"x"


@pytest.mark.parametrize("command", ["SEND", "SUBSCRIBE"])
@pytest.mark.parametrize("half", ["{}::", "::"])
def test_case_37_half_a_name(join, name, command, half):
    client = join()
    client.send(command, {"id": "1", "destination": half.format(name).replace(":", r"\c"), "receipt": "r"})
    error(client, "Invalid destination", half.format(name), receipt="r")


def test_case_38_subscribers_of_a_topic_get_different_message_ids(join, topic):
    one, two = join(), join()
    one.subscribe(topic)
    two.subscribe(topic)
    one.publish(topic, b"x")
    first, second = one.read(), two.read()
    assert first.body == second.body == b"x"
    assert first["message-id"] != second["message-id"]


def test_case_39_subscribers_get_their_queue_where_queues_are_not_made(join, name):
    client, writer = join(), join()
    client.subscribe(f"/topic/unmade.{name}")
    writer.publish(f"/topic/unmade.{name}", b"x")
    assert client.read().body == b"x"
    writer.send("SEND", {"destination": f"/queue/unmade.{name}.q"}, b"x")
    error(writer, "Destination does not exist")


def test_case_40_no_local_skips_what_its_own_connection_sent(join, topic):
    client, other = join(), join()
    client.subscribe(topic, no_local="true")
    client.publish(topic, b"own")
    other.publish(topic, b"other")
    assert client.read().body == b"other"
    client.nothing()


def test_case_40_no_local_and_a_selector_hold_both(join, topic):
    client, other = join(), join()
    client.subscribe(topic, no_local="true", selector="a = 'x' OR b = 'y'")
    for sender in (client, other):
        sender.publish(topic, b"a", a="x")
        sender.publish(topic, b"b", b="y")
        sender.publish(topic, b"c", a="z")
    assert bodies(client.messages(2)) == [b"a", b"b"]
    client.nothing()


def test_case_40_another_subscription_of_the_connection_still_gets_it(join, topic):
    client = join()
    client.ask("SUBSCRIBE", {"id": "without", "destination": topic, "activemq.noLocal": "true"})
    client.subscribe(topic, id="with")
    client.publish(topic, b"own")
    assert client.read()["subscription"] == "with"
    client.nothing()


def test_case_41_an_empty_value_and_an_empty_body(join, queue):
    client = join()
    client.subscribe(queue)
    client.send("SEND", {"destination": queue, "foo": ""})
    message = client.read()
    assert (message["foo"], message.body) == ("", b"")
