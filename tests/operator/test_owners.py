"""Owners of a broker: how many there are, and when one may go."""

from __future__ import annotations

from typing import Any

import pytest
from broker_operator.spec import names
from broker_operator.spec.model import BrokerSpec
from broker_operator.spec.names import BROKER
from broker_operator.workloads import owners
from broker_operator.workloads.owners import Scaling, Versions, quantity, scaling

from broker.config.load import load
from broker.core.errors import ConfigError

from .builders import resource


def pods(*ordinals: int) -> tuple[str, ...]:
    return tuple(f"b-owner-{n}" for n in ordinals)


def test_more_owners_come_at_once():
    assert scaling("b", 5, 3, 3, {}, frozenset(), True) == Scaling(5)


def test_owners_go_in_steps():
    full = dict.fromkeys(pods(0, 1, 2, 3, 4), 10)
    assert scaling("b", 3, 5, 5, full, frozenset(), True) == Scaling(5, pods(3, 4), (), 20, "Cordoned")
    cordoned = frozenset(pods(3, 4))
    assert scaling("b", 3, 5, 5, full, cordoned, True) == Scaling(5, (), (), 20, "Moving")
    # The StatefulSet takes the highest first, so one that keeps something holds back those below it.
    assert scaling("b", 3, 5, 5, {**full, "b-owner-3": 0}, cordoned, True).replicas == 5
    assert scaling("b", 3, 5, 5, {**full, "b-owner-4": 0}, cordoned, True) == Scaling(4, (), (), 10, "Moving")
    empty = {**full, "b-owner-3": 0, "b-owner-4": 0}
    assert scaling("b", 3, 5, 5, empty, cordoned, True) == Scaling(3, (), (), 0, "Removing")
    assert scaling("b", 3, 3, 3, empty, cordoned, True) == Scaling(3, uncordon=pods(3, 4))


def test_a_change_of_mind_lifts_no_cordon_of_an_administrator():
    # Between 3 and 5 the cordons of 3 and 4 are nobody's to lift but the administrator's, who may have drained by hand.
    assert scaling("b", 5, 5, 5, {}, frozenset(pods(1)), True) == Scaling(5)


def test_an_owner_that_is_still_ending_keeps_its_cordon():
    cordoned = frozenset(pods(1, 3, 4))
    assert scaling("b", 3, 3, 5, {}, cordoned, True) == Scaling(3)
    assert scaling("b", 3, 3, 4, {}, cordoned, True) == Scaling(3, uncordon=pods(4))
    assert scaling("b", 3, 3, 5, {}, cordoned, False) == Scaling(3), "nor does it come back"


def test_sizes_are_compared_as_numbers():
    assert quantity("1Gi") == quantity("1024Mi") == quantity("1073741824") == 1 << 30
    assert quantity("1G") == quantity("1000M") == quantity("1e9") < quantity("1Gi")
    assert quantity("1.5Ti") == 3 << 39 and quantity("2k") == 2000
    for text in ("", "Gi", "ten", "1Xi"):
        with pytest.raises(ConfigError, match="is not a size"):
            quantity(text)


def test_nobody_goes_while_nothing_is_known():
    assert scaling("b", 3, 5, 5, {}, frozenset(), False) == Scaling(5, reason="Unreachable")
    assert scaling("b", 5, 3, 3, {}, frozenset(), False) == Scaling(5)


def made(kind: str, objects: list[dict[str, Any]]) -> dict[str, Any]:
    (found,) = (one for one in objects if one["kind"] == kind)
    return found


def broker_objects(live: dict | None = None, replicas: int = 3, **spec: Any) -> list[dict[str, Any]]:
    broker = resource(BROKER, **spec)
    return owners.objects(broker, broker.spec(BrokerSpec), "stampede:1", replicas, live, Versions())


def settings_of(objects: list[dict[str, Any]], tmp_path: Any, env: dict[str, str] | None = None) -> Any:
    path = tmp_path / "stampede.yaml"
    path.write_text(made("ConfigMap", objects)["data"][names.CONFIG_FILE])
    return load(str(path), env or {}, {})


def test_owners_get_settings_that_the_broker_takes(tmp_path):
    objects = broker_objects(
        etcd={"endpoints": ["a:1", "b:2"], "tlsSecretName": "etcd-tls", "userSecretName": "etcd-user"},
        redis={"url": "redis://r:6379", "passwordSecretName": "r"},
        replication={"factor": 3, "minInSync": 2},
        settings={"journal": {"segmentBytes": "128MiB"}, "cluster": {"leaseS": 8}, "log": {"level": "DEBUG"}},
    )
    settings = settings_of(objects, tmp_path)
    assert settings.etcd.endpoints == "a:1,b:2" and settings.etcd.prefix == "/stampede/shop/stomp"
    assert settings.etcd.ca_file and settings.etcd.password_file and settings.redis.password_file
    assert settings.journal.segment_bytes == 128 << 20 and settings.cluster.lease_s == 8
    assert settings.cluster.ca_file and settings.cluster.host == "0.0.0.0" and settings.log.level == "DEBUG"
    container = made("StatefulSet", objects)["spec"]["template"]["spec"]["containers"][0]
    places = {mount["mountPath"] for mount in container["volumeMounts"]}
    for file in (settings.etcd.ca_file, settings.etcd.password_file, settings.cluster.ca_file, settings.data + "/x"):
        assert file.rpartition("/")[0] in places
    assert {one["name"] for one in container["env"]} >= {"STAMPEDE_ETCD__USER", "STAMPEDE_CLUSTER__ADVERTISE"}


def test_another_setting_rolls_the_pods_and_nothing_else_does():
    def template(**spec: Any) -> dict[str, Any]:
        return made("StatefulSet", broker_objects(**spec))["spec"]["template"]

    assert template() == template() == template(owners={"replicas": 5})
    assert template(settings={"journal": {"sync": False}}) != template()


def test_immutable_fields_of_a_live_stateful_set_stay():
    live = made("StatefulSet", broker_objects())
    live["spec"]["volumeClaimTemplates"][0]["status"] = {"phase": "Pending"}
    live["spec"]["podManagementPolicy"] = "OrderedReady"
    wanted = made("StatefulSet", broker_objects(live, owners={"storage": {"size": "20Gi"}}))
    assert wanted["spec"]["podManagementPolicy"] == "OrderedReady"
    claim = wanted["spec"]["volumeClaimTemplates"][0]
    assert claim["spec"]["resources"]["requests"]["storage"] == "10Gi" and "status" not in claim


def test_a_new_template_comes_with_a_partition_above_all_pods():
    """Where it may go is said when it is there (rolling.py): Kubernetes would begin at once."""

    def partition(live: dict | None, rolled: int | None, **spec: Any) -> int:
        broker = resource(BROKER, **spec)
        made_of = owners.objects(broker, broker.spec(BrokerSpec), "stampede:1", 3, live, Versions(), rolled)
        return made("StatefulSet", made_of)["spec"]["updateStrategy"]["rollingUpdate"]["partition"]

    live = made("StatefulSet", broker_objects())
    assert partition(None, None) == partition(live, None) == 3
    assert partition(live, 1) == 1
    assert partition(live, 1, settings={"journal": {"sync": False}}) == 3, "another one in the middle of a roll"
    del live["metadata"]["annotations"]
    assert partition(live, 1) == 3, "of an operator before this"
