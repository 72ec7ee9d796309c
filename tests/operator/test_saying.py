"""What statuses say, word for word where people look for it."""

from __future__ import annotations

import pytest
from broker_operator.kube.applying import Taken
from broker_operator.kube.kube import KubeError
from broker_operator.spec.model import AcceptorSpec
from broker_operator.workloads import saying
from broker_operator.workloads.owners import Scaling
from broker_operator.workloads.rolling import Roll

from broker.core.errors import ConfigError


@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [(Taken("x"), False, "NameTaken"), (ConfigError("x"), False, "Invalid"), (KubeError(422, "x"), False, "Refused"),
     (KubeError(500, "x"), None, "ServerFailed")],
)  # fmt: skip
def test_who_refused_it(error, status, reason):
    found = saying.refusal(error)
    assert (found.type, found.status, found.reason) == ("Accepted", status, reason) and "x" in found.message


def test_what_may_help_itself_is_no_refusal():
    with pytest.raises(KubeError):
        saying.refusal(KubeError(0, "no answer"))


@pytest.mark.parametrize(
    ("slots", "reason"),
    [({}, "InSync"), ({"underReplicated": 2}, "UnderReplicated"), ({"underReplicated": 2, "stalled": 1}, "Stalled"),
     ({"stalled": 1, "offline": 1}, "Offline"), ({"total": 0}, "NoSlots")],
)  # fmt: skip
def test_the_worst_of_slots_is_said(slots, reason):
    all_of_them = {"total": 256, "offline": 0, "stalled": 0, "underReplicated": 0, **slots}
    found = saying.replicated(all_of_them)
    assert found.reason == reason and found.status is (reason == "InSync")


def test_nothing_is_known_without_a_cluster():
    reachable, replicated = saying.seen(None, "not connected yet")
    assert (reachable.status, reachable.message, replicated.status) == (False, "not connected yet", None)


def test_a_roll_and_a_scale_in_say_what_they_wait_for():
    assert saying.rolling(None).status is False
    assert saying.rolling(Roll(2, "b-owner-2 is not ready")).message == "b-owner-2 is not ready"
    assert saying.rolling(Roll(2)).reason == "Replacing"
    assert saying.progress(Scaling(3)) == "" and "not known" in saying.progress(Scaling(3, reason="Unreachable"))
    assert saying.progress(Scaling(3, holding=4, reason="Moving")).startswith("4 copies")


def test_where_clients_connect():
    spec = AcceptorSpec(listeners=[{"name": "stomp", "port": 61613}, {"name": "tls", "port": 1, "servicePort": 2}])
    inside = {"metadata": {"name": "a", "namespace": "mq"}}
    assert saying.addresses({}, spec) == []
    assert saying.addresses(inside, spec) == ["a.mq.svc:61613", "a.mq.svc:2"]
    balancer = {**inside, "status": {"loadBalancer": {"ingress": [{"ip": "10.0.0.1"}]}}}
    assert saying.addresses(balancer, spec) == ["10.0.0.1:61613", "10.0.0.1:2"]
    assert saying.balanced({}, spec).reason == "NotWanted"
