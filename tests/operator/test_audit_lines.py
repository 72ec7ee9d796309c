"""The operator's audit log: which resource changed what, and no value: it may be the hash of a passcode."""

from __future__ import annotations

import json
import logging

from broker_operator.spec.model import Resource
from broker_operator.spec.names import BROKER
from broker_operator.workloads.workloads import _keep_entries
from broker_operator.world.cluster import Cluster

from broker.config.settings import EtcdSettings
from broker.metadata.port import Put
from tests.harness.metadata import MemoryMetadata, MemoryStore
from tests.harness.waiting import eventually

from .builders import raw


async def test_which_resource_changed_what_is_told_and_no_value(caplog):
    cluster = Cluster(
        EtcdSettings(endpoints="127.0.0.1:1", prefix="/x"), lambda *_: None, MemoryMetadata(MemoryStore())
    )
    cluster.start()
    try:
        await eventually(lambda: cluster.known)
        with caplog.at_level(logging.INFO, logger="stampede.audit"):
            uid = "one"
            for quotas in ([{"who": "user:ada", "maxConnections": 3}], []):
                found = raw(BROKER, quotas=quotas)
                found["metadata"]["uid"] = uid
                await _keep_entries(Resource(found), cluster)
            put = Put(cluster.keys.user("ada"), b'{"hash": "a-secret-hash"}')
            assert await cluster.commit([], [put], "StompUser shop/ada")
    finally:
        await cluster.stop()
    lines = [json.loads(record.message) for record in caplog.records if record.name == "stampede.audit"]
    assert [(line["action"], line["target"]) for line in lines] == [
        ("set", "config/quotas/user:ada"), ("delete", "config/quotas/user:ada"), ("set", "config/users/ada")
    ]  # fmt: skip
    assert lines[2] == {
        "who": "StompUser shop/ada", "from": "operator", "action": "set", "target": "config/users/ada",
        "outcome": "done",
    }  # fmt: skip
    assert "StompBroker" in lines[0]["who"] and "a-secret-hash" not in caplog.text
