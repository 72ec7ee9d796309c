"""What RabbitMQ's exported definitions become."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from broker.config.artemis.importing import Imported
from broker.config.foreign.foreign_files import read
from broker.config.foreign.patterns import TooMuchError, Trial
from broker.core.errors import ConfigError

FOUND = read((Path(__file__).parent / "foreign_files" / "definitions.json").read_bytes())
TOLD = [note.what for note in FOUND.notes]


def test_queues_with_arguments_and_the_policy_that_fits():
    addresses = FOUND.tables["engine.addresses"]
    assert addresses["orders"] == {
        "expiry_delay_ms": 60000, "max_size_messages": 1000, "full_policy": "FAIL",
        "dead_letter_address": "$exchange/dlx/dead",
    }  # fmt: skip
    assert addresses["dead"] == {"max_delivery_attempts": 6}
    assert addresses["$host/shop.orders"] == {"exclusive": True}
    assert list(FOUND.tables["engine.queues"]) == ["orders", "dead", "$host/shop.orders", "log"]


def one_queue(name: str, **arguments: object) -> Imported:
    queue = {"name": name, "vhost": "/", "durable": True, "auto_delete": False, "arguments": arguments}
    bound = {
        "source": "amq.topic",
        "vhost": "/",
        "destination": name,
        "destination_type": "queue",
        "routing_key": "a.#",
    }
    return read(json.dumps({"queues": [queue], "bindings": [bound]}).encode())


def test_a_stream_is_a_queue_whose_messages_stay():
    told = {"x-queue-type": "stream", "x-max-age": "7D", "x-max-length-bytes": 5000, "x-stream-filter-size-bytes": 16}
    found = one_queue("log", **told)
    assert found.tables["engine.addresses"]["log"] == {
        "non_destructive": True, "expiry_delay_ms": 7 * 86_400_000, "ring_bytes": 5000,
    }  # fmt: skip
    assert list(found.tables["engine.queues"]) == ["log"]
    assert not [note for note in found.notes if note.what.startswith(("queue", "x-"))]
    assert any("bound" in note.why for note in one_queue("log", **{"x-queue-type": "stream"}).notes)


def test_what_no_stream_has_is_told_and_not_set():
    """At RabbitMQ a policy with a message-ttl leaves a stream alone, with all it says (rabbit_queue_type:
    is_policy_applicable): set here, messages would go that stay there."""
    queue = {"name": "log", "vhost": "/", "durable": True, "arguments": {"x-queue-type": "stream", "x-max-age": "7D"}}
    lost = {"message-ttl": 60_000, "max-length": 5, "overflow": "reject-publish", "expires": 9, "delivery-limit": 3,
            "dead-letter-exchange": "", "dead-letter-routing-key": "dead", "single-active-consumer": True}  # fmt: skip
    policy = {"name": "all", "vhost": "/", "pattern": ".*", "definition": {**lost, "max-age": "1D"}}
    found = read(json.dumps({"queues": [queue], "policies": [policy]}).encode())
    assert found.tables["engine.addresses"]["log"] == {"non_destructive": True, "expiry_delay_ms": 604_800_000}
    assert "log" in found.tables["engine.queues"]
    told = " ".join(note.why for note in found.notes)
    assert [name for name in lost if name not in told] == []
    del policy["definition"]["message-ttl"], lost["message-ttl"]  # type: ignore[attr-defined]
    for name in lost:
        del policy["definition"][name]  # type: ignore[attr-defined]
    found = read(json.dumps({"queues": [queue], "policies": [policy]}).encode())
    # Of both ages the policy's counts, as there.
    assert found.tables["engine.addresses"]["log"] == {"non_destructive": True, "expiry_delay_ms": 86_400_000}


def test_of_two_policies_the_one_that_a_stream_can_have_counts():
    queue = {"name": "log", "vhost": "/", "durable": True, "arguments": {"x-queue-type": "stream"}}
    policies = [
        {"name": "a", "vhost": "/", "pattern": ".*", "priority": 9, "definition": {"message-ttl": 1000}},
        {"name": "b", "vhost": "/", "pattern": ".*", "priority": 0, "definition": {"max-age": "7D"}},
    ]
    found = read(json.dumps({"queues": [queue], "policies": policies}).encode())
    assert found.tables["engine.addresses"]["log"] == {"non_destructive": True, "expiry_delay_ms": 604_800_000}


def test_a_policy_is_about_queues_of_its_kind():
    kinds = ("classic", "quorum", "stream")
    queues = [{"name": kind, "vhost": "/", "durable": True, "arguments": {"x-queue-type": kind}} for kind in kinds]
    queues[0].pop("arguments")
    policies = [
        {
            "name": to,
            "vhost": "/",
            "pattern": "",
            "apply-to": to,
            "priority": 9 - n,
            "definition": {"max-length-bytes": n},
        }
        for n, to in enumerate(("streams", "quorum_queues", "classic_queues"), 1)
    ]
    found = read(json.dumps({"queues": queues, "policies": policies}).encode()).tables["engine.addresses"]
    assert [found[kind]["ring_bytes"] for kind in kinds] == [3, 2, 1]


@pytest.mark.parametrize(
    ("kind", "version", "with_it", "applies"),
    [
        ("quorum", "3.10.8", "ha-mode", False),  # mirrors of all classic queues, and a message-ttl that counts there
        ("quorum", "3.10.8", "queue-mode", False), ("quorum", "4.0.2", "max-priority", False),
        ("classic", "3.10.8", "ha-mode", True), ("classic", "3.10.8", "delivery-limit", False),
        ("classic", "3.10.8", "dead-letter-strategy", False), ("classic", "4.0.2", "target-group-size", False),
        ("classic", "3.10.8", "queue-leader-locator", False), ("classic", "4.0.2", "queue-leader-locator", True),
        ("quorum", "4.0.2", "queue-leader-locator", True), ("quorum", "3.10.8", "delivery-limit", True),
        ("stream", "3.10.8", "max-in-memory-length", False), ("stream", "3.10.8", "ha-mode", False),
    ],
)  # fmt: skip
def test_a_policy_that_says_what_the_queue_has_not_is_not_about_it(
    kind: str, version: str, with_it: str, applies: bool
):
    """As rabbit_queue_type:is_policy_applicable has it: set here, messages would go that stay there."""
    queue = {"name": "orders", "vhost": "/", "durable": True, "arguments": {"x-queue-type": kind}}
    bound = "max-length-bytes"  # all three have it
    policies = [
        {"name": "a", "vhost": "/", "pattern": "^or", "priority": 1, "definition": {with_it: 5, bound: 100}},
        {"name": "b", "vhost": "/", "pattern": "^or", "priority": 0, "definition": {bound: 9000}},
    ]
    found = read(json.dumps({"rabbit_version": version, "queues": [queue], "policies": policies}).encode())
    assert found.tables["engine.addresses"]["orders"]["ring_bytes"] == (100 if applies else 9000)
    told = [note.why for note in found.notes if "'a'" in note.what]
    left_out = f"not of {kind} queues: as at RabbitMQ it is left out whole there, for {with_it}"
    assert told[:1] == ([] if applies else [left_out])


@pytest.mark.parametrize("unbounded", [{"x-message-ttl": 60_000}, {"x-max-length": 5}])
def test_what_no_stream_has_is_no_bound_of_one(unbounded: dict[str, int]):
    found = one_queue("log", **{"x-queue-type": "stream", **unbounded})
    assert found.tables["engine.addresses"]["log"] == {"non_destructive": True}
    assert any("grows for ever" in note.why for note in found.notes)


def test_an_age_of_a_queue_that_is_no_stream_is_told_and_not_set():
    found = one_queue("orders", **{"x-max-age": "7D", "x-message-ttl": 5000})
    assert found.tables["engine.addresses"]["orders"] == {"expiry_delay_ms": 5000}
    assert any(note.what == "max-age of 'orders'" and "no classic queue" in note.why for note in found.notes)


def test_what_the_plug_in_made_for_a_durable_subscription_is_made_again_by_its_client():
    """As `rabbitmqctl export_definitions` of 3.10 has it after SUBSCRIBE with durable:true: a queue here would gather
    nothing, and nobody would ever take from it."""
    found = one_queue("stomp-subscription-x5N55Bn7fpB_IAc6tnc9Vg")
    assert "engine.queues" not in found.tables
    (note,) = found.notes
    assert "stomp-subscription-x5N" in note.what and "SUBSCRIBE makes it again" in note.why


def test_exchanges_and_bindings():
    assert FOUND.tables["edge.exchanges"] == {"dlx": {"type": "direct"}, "logs.all": {"type": "topic"}}
    bound = [(each["address"], each["forward"]) for each in FOUND.tables["engine.diverts"].values()]
    assert bound == [("$exchange/dlx/dead", "dead"), ("$exchange/logs%2Eall.a.b", "orders"), ("news", "orders")]


def test_virtual_hosts_and_who_may_do_everything():
    assert FOUND.tables["edge.virtual_hosts"] == {"shop": {"max_connections": 20}, "a-b": {"names": "a b"}}
    assert FOUND.values["edge.unknown_hosts"] == "refuse"
    assert FOUND.tables["edge.permissions"]["#"]["send"] == "guest"
    assert FOUND.tables["edge.permissions"]["$host/shop.#"] == {"consume": "ada", "browse": "ada"}


def test_users_permissions_and_shovels_come_first_and_the_rest_is_named():
    assert TOLD[:3] == ["users", "write of 'ada' in 'shop'", "shovel 's'"]
    for what in ("exchange 'x'", "queue 'tmp'", "queue 'log'", "policy 'none' ('^zzz')"):
        assert what in TOLD


@pytest.mark.parametrize("user", ["*", "a,b", "a, "])
def test_a_user_whose_name_is_no_group_gives_nobody_his_permissions(user: str):
    rights = {"user": user, "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"}
    found = read(json.dumps({"queues": [], "permissions": [rights]}).encode())
    assert "edge.permissions" not in found.tables or not any(found.tables["edge.permissions"].values())
    assert any("no group can be called that" in note.why for note in found.notes)


@pytest.mark.parametrize(
    ("tree", "why"),
    [
        ({"users": 5}, "users"),
        ({"queues": {"a": 1}}, "queues"),
        ({"queues": [{"name": 5}]}, "queues"),
        ({"queues": [{"name": "q", "arguments": "x"}]}, "queues"),
        ({"policies": [{"priority": "x"}]}, "policies"),
        ({"exchanges": [None]}, "exchanges"),
    ],
)
def test_what_rabbitmq_never_exports_is_named(tree: dict[str, object], why: str):
    with pytest.raises(ConfigError, match=f"The file's {why} are not as RabbitMQ exports them"):
        read(json.dumps({"queues": [], **tree}).encode())


def test_a_file_that_is_nested_too_deep_is_refused_and_a_policy_may_have_no_priority():
    with pytest.raises(ConfigError, match="too deep"):
        read(b'{"queues":' + b"[" * 100_000 + b"]" * 100_000 + b"}")
    policies = [{"name": "p", "vhost": "/", "pattern": ".*", "priority": each} for each in (None, 3)]
    read(json.dumps({"queues": [], "policies": policies}).encode())


def of_policies(*patterns: str, queues: int = 1, name: str = "a" * 40) -> list[str]:
    """What is said of policies with these patterns."""
    tree = {
        "queues": [{"name": f"{name}{n}"} for n in range(queues)],
        "policies": [{"name": f"p{n}", "pattern": each, "definition": {}} for n, each in enumerate(patterns)],
    }
    return [note.why for note in read(json.dumps(tree).encode()).notes if note.what.startswith("policy")]


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "pattern",
    [
        "(a+)+$", "(a|a)*$", "(a|aa)+$", "(a*)*b", "(?:a?){40}b", "a?" * 40 + "a" * 60, "a*" * 60 + "b", "(a|a)" * 39,
        "(.*a){20}", r"(a*)\1\1\1*b", "(?P<n>a*)(?P=n)b", "((a+)b?)*c", "(?=(a+)+$)b", "a" * 300, "(", "(?i)a*",
    ],
)  # fmt: skip
def test_a_pattern_that_would_take_for_ever_is_named_and_not_tried(pattern: str):
    (why,) = of_policies(pattern, name="a" * 200)
    assert "its pattern was not tried" in why


def test_all_patterns_of_a_file_share_one_budget():
    trial, names = Trial(10_000_000), ["a" * 40]
    for n in range(10):
        assert trial.pattern(f"a.*a.*b{n}", names) == frozenset()
    with pytest.raises(TooMuchError, match="could take minutes"):
        for n in range(10):
            trial.pattern(f"a.*a.*c{n}", names)


@pytest.mark.parametrize(
    "pattern",
    [
        ".*", "^a", r"^a+\d$", "^(?!amq\\.).*", "[a-z]+[0-9]?$", "(a{3}){2}", "", "^(orders|a+)0", "a{2,3}",
        r"^[\w\-.]*$", "(?:aaa)*0",
    ],
)  # fmt: skip
def test_patterns_that_people_write_are_tried(pattern: str):
    assert of_policies(pattern) == []


def test_a_queue_that_expires_is_made_by_its_clients_and_goes():
    """One that the settings named would stay for ever, whatever its address says."""
    queue = {"name": "short", "vhost": "/", "durable": True, "arguments": {"x-expires": 60000}}
    policy = {"name": "p", "vhost": "/", "pattern": "^by", "definition": {"expires": 5000}, "priority": 1}
    found = read(json.dumps({"queues": [queue, {"name": "by", "vhost": "/"}], "policies": [policy]}).encode())
    gone = {"auto_delete": True, "auto_delete_message_count": -1}
    assert found.tables["engine.addresses"] == {
        "short": {**gone, "auto_delete_delay_ms": 60000}, "by": {**gone, "auto_delete_delay_ms": 5000},
    }  # fmt: skip
    assert "engine.queues" not in found.tables
    assert [note.what for note in found.notes] == ["expires of 'short'", "expires of 'by'"]
