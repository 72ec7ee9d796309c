"""The schema of bridges: every setting of one, and no file."""

from __future__ import annotations

from broker_operator.crds.crd_bridges import RULES, fields
from broker_operator.spec.bridges import FILES
from broker_operator.spec.schema import camel

from broker.config.catalogue import entry_leaves

from .strict import refusals

ITEM = fields()["bridges"]["items"]
BRIDGE = {"name": "west", "url": "stomp://west:61613", "source": "/queue/orders", "user": "bridge"}


def refused(**bridge: object) -> list[str]:
    spec = {
        "etcd": {"endpoints": ["etcd:2379"]},
        "bridges": [{**BRIDGE, **bridge}],
        "bridgesSecretName": "stomp-bridges",
    }
    found: list[str] = refusals({"kind": "StompBroker", "spec": spec})
    return found


def test_every_setting_of_a_bridge_is_there_and_files_are_keys_of_the_secret():
    settings = {camel(leaf.name) for leaf in entry_leaves("bridges").values()}
    files = {camel(setting) for setting in FILES.values()}
    assert files <= settings
    assert ITEM["properties"].keys() == {"name", *FILES} | (settings - files)


def test_no_passcode_and_no_path_can_be_written():
    for name in ("passcode", "passcodeFile", "caFile", "certFile", "keyFile"):
        assert name in str(refused(**{name: "/etc/passwd"}))
    for key in ("../token", "a/b", ""):
        assert refused(passcodeKey=key), "a key of the Secret is no path"
    assert refused() == [] == refused(passcodeKey="west.passcode", login="ada", window=5, enabled=False)


def test_no_secret_that_was_not_made_for_bridges_can_be_sent_away():
    """The url of a bridge is told its passcode: with any Secret, whoever may write a StompBroker could read all of the
    namespace's."""
    for name in ("admin-stomp", "etcd-root", "bridges", "stomp-bridges2"):
        spec = {"etcd": {"endpoints": ["etcd:2379"]}, "bridges": [BRIDGE], "bridgesSecretName": name}
        assert refusals({"kind": "StompBroker", "spec": spec}), name


def test_who_it_is_here_must_be_said():
    """Edges on Kubernetes let nobody in without a user."""
    for name in ("name", "url", "source", "user"):
        assert name in ITEM["required"]
    for url in ("west:61613", "http://west", "stomp://"):
        assert refused(url=url)


def test_every_rule_says_what_to_do():
    for rule in [*ITEM["x-kubernetes-validations"], *(rule.as_json() for rule in RULES)]:
        assert rule["message"].endswith(".") and len(rule["message"]) > 40
