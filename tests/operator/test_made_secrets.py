"""What a release needs is made once, kept, renewed in time, and made again when it is gone."""

from __future__ import annotations

import time
from base64 import b64decode, b64encode
from typing import Any

import pytest
from broker_operator.kube.kube import KubeError
from broker_operator.kube.made_secrets import (
    AGAIN_S,
    RELEASE,
    Certificate,
    MadeSecrets,
    Password,
    Wanted,
    wanted,
)

from broker.core.certificates import first_certificate, not_after
from broker.core.errors import BrokerError, ConfigError

DAY = 86400
WANTED = Wanted(
    "shop", "shop-ca", "Stampede shop", 3650,
    [Certificate("shop-owner", ["owner.svc"]), Certificate("shop-tls", ["shop.svc", "stomp.example"])],
    [Password("shop-etcd-root", "root"), Password("shop-redis")],
)  # fmt: skip

WANTED_OF_HELM = Wanted("shop", "shop-ca", "Stampede shop", 3650, WANTED.certificates, [], True)


class Server:
    """Holds Secrets. rivals: what somebody else creates just before us."""

    def __init__(self) -> None:
        self.secrets: dict[str, dict[str, Any]] = {}
        self.rivals: dict[str, dict[str, Any]] = {}
        self.writes: list[str] = []
        self.revision = 0
        self.now = time.time()

    def wall_ms(self) -> int:
        return int(self.now * 1000)

    async def get(self, _: str, kind: str, namespace: str, name: str) -> dict[str, Any] | None:
        assert (kind, namespace) == ("Secret", "mq")
        return self.secrets.get(name)

    def _put(self, name: str, body: dict[str, Any]) -> None:
        self.revision += 1
        self.secrets[name] = {**body, "metadata": {**body["metadata"], "resourceVersion": str(self.revision)}}

    async def create(self, body: dict[str, Any]) -> dict[str, Any]:
        name = body["metadata"]["name"]
        if name in self.rivals:
            self._put(name, self.rivals.pop(name))
        if name in self.secrets:
            raise KubeError(409, "there")
        self.writes.append(name)
        self._put(name, body)
        return self.secrets[name]

    async def merge(self, _: str, kind: str, namespace: str, name: str, patch: dict[str, Any]) -> None:
        found = self.secrets[name]
        assert patch["metadata"].pop("resourceVersion") == found["metadata"]["resourceVersion"]
        self.writes.append(name)
        notes = {**(found["metadata"].get("annotations") or {}), **patch["metadata"]["annotations"]}
        self._put(name, {**found, "metadata": {**found["metadata"], "annotations": notes}, "data": patch["data"]})

    def text(self, name: str, key: str) -> str:
        return b64decode(self.secrets[name]["data"][key]).decode()


@pytest.fixture
def server() -> Server:
    return Server()


def made(server: Server, what: Wanted = WANTED) -> MadeSecrets:
    return MadeSecrets(server, server, "mq", what)  # type: ignore[arg-type]


async def test_all_is_made_once_and_nothing_is_written_again(server):
    assert await made(server).ensure() == AGAIN_S
    assert sorted(server.writes) == ["shop-ca", "shop-etcd-root", "shop-owner", "shop-redis", "shop-tls"]
    assert made(server).names == set(server.writes)
    assert server.text("shop-owner", "ca.crt") == server.text("shop-ca", "tls.crt")
    assert server.text("shop-etcd-root", "username") == "root" and len(server.text("shop-redis", "password")) == 32
    assert "username" not in server.secrets["shop-redis"]["data"]
    for secret in server.secrets.values():
        labels = secret["metadata"]["labels"]
        assert labels[RELEASE] == "shop" and "app.kubernetes.io/instance" not in labels, "Argo CD would prune it"
        assert "ownerReferences" not in secret["metadata"], "the keys outlive the operator"
    await made(server).ensure()  # another operator
    assert len(server.writes) == 5


async def test_what_helm_made_before_is_kept(server):
    await made(server).ensure()
    for secret in server.secrets.values():
        secret["metadata"].pop("labels")
        secret["metadata"].pop("annotations", None)
    await made(server).ensure()
    assert len(server.writes) == 5


async def test_whoever_was_first_is_right(server):
    other = Server()
    await made(other).ensure()
    server.rivals = {"shop-ca": other.secrets["shop-ca"], "shop-redis": other.secrets["shop-redis"]}
    await made(server).ensure()
    assert server.text("shop-owner", "ca.crt") == other.text("shop-ca", "tls.crt")
    assert server.text("shop-redis", "password") == other.text("shop-redis", "password")


async def test_one_that_is_deleted_is_made_again_and_the_others_stay(server):
    await made(server).ensure()
    before = server.text("shop-tls", "tls.key")
    del server.secrets["shop-owner"]
    await made(server).ensure()
    assert server.writes[5:] == ["shop-owner"] and server.text("shop-tls", "tls.key") == before


async def test_another_authority_signs_all_anew(server):
    await made(server).ensure()
    del server.secrets["shop-ca"]
    await made(server).ensure()
    assert server.writes[5:] == ["shop-ca", "shop-owner", "shop-tls"]
    assert server.text("shop-owner", "ca.crt") == server.text("shop-ca", "tls.crt")


async def test_another_name_makes_another_certificate(server):
    await made(server).ensure()
    more = [WANTED.certificates[0], Certificate("shop-tls", ["shop.svc", "new.example"])]
    await made(server, Wanted("shop", "shop-ca", "x", 3650, more)).ensure()
    assert server.writes[5:] == ["shop-tls"]
    await made(server, Wanted("shop", "shop-ca", "x", 3650, more)).ensure()
    assert len(server.writes) == 6


async def test_it_is_renewed_in_time_and_not_before(server):
    short = Wanted("shop", "shop-ca", "x", 3650, [WANTED.certificates[0]])
    brief = Wanted("shop", "shop-ca", "x", 300, [WANTED.certificates[0]])
    await made(server, short).ensure()
    server.secrets.pop("shop-owner")
    await made(server, brief).ensure()
    first = not_after(first_certificate(server.text("shop-owner", "tls.crt")))
    server.now += 260 * DAY
    await made(server, brief).ensure()
    assert not_after(first_certificate(server.text("shop-owner", "tls.crt"))) == first
    server.now += 11 * DAY
    await made(server, brief).ensure()
    assert not_after(first_certificate(server.text("shop-owner", "tls.crt"))) > first + 200 * DAY


async def test_with_an_authority_that_ends_nothing_is_made_for_ever(server, caplog):
    await made(server).ensure()
    server.now += 3640 * DAY
    await made(server).ensure()
    assert server.writes[5:] == ["shop-owner", "shop-tls"], "the authority lasts longer than what it signs"
    server.now += 3655 * DAY
    for _ in range(3):
        await made(server).ensure()
    assert len(server.writes) == 9 and "ends soon" in caplog.text, "as long as the authority lasts, and no more"


async def test_what_helm_made_is_renewed_and_nothing_else(server):
    """Helm cannot see when a certificate ends, and left all of a cluster to end on one day."""
    kept = WANTED_OF_HELM
    await made(server, kept).ensure()
    assert server.writes == [], "Helm makes them"
    await made(server, WANTED).ensure()
    server.writes.clear()
    other = server.secrets["shop-tls"]["data"]
    other["ca.crt"] = b64encode(b"of somebody else").decode()
    server.now += 3600 * DAY
    await made(server, kept).ensure()
    assert server.writes == []
    server.now += 25 * DAY
    before = server.text("shop-owner", "tls.crt")
    await made(server, kept).ensure()
    assert server.writes == ["shop-owner"] and server.text("shop-owner", "ca.crt") == server.text("shop-ca", "tls.crt")
    ends = [not_after(first_certificate(one)) for one in (before, server.text("shop-owner", "tls.crt"))]
    assert ends[1] > ends[0] + 3600 * DAY
    await made(server, kept).ensure()
    assert server.writes == ["shop-owner"]


async def test_half_a_secret_is_made_whole_and_an_authority_that_is_none_is_named(server):
    await made(server).ensure()
    del server.secrets["shop-owner"]["data"]["tls.key"]
    await made(server).ensure()
    assert server.writes[5:] == ["shop-owner"]
    server.secrets["shop-ca"]["data"]["tls.crt"] = b64encode(b"nonsense").decode()
    with pytest.raises(BrokerError, match="mq/shop-ca is no certificate"):
        await made(server).ensure()


async def test_passwords_alone_need_no_authority(server):
    await made(server, Wanted("shop", passwords=[Password("shop-redis")])).ensure()
    assert server.writes == ["shop-redis"]


def test_what_the_chart_writes_is_read_and_nothing_else():
    assert wanted("") is None
    found = wanted('{"release":"shop","authority":"a","certificates":[{"secret":"s","names":["n"]}],"passwords":[]}')
    assert found is not None and found.certificates == [Certificate("s", ["n"])]
    with pytest.raises(ConfigError, match="STAMPEDE_OPERATOR_SECRETS"):
        wanted('{"certificates":3}')
