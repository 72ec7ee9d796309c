"""Users and roles of a real etcd: made, made again, narrowed; and who came before it asked for a password logs in."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from broker.config.settings import EtcdSettings
from broker.metadata.etcd import EtcdMetadata
from broker.metadata.etcd_auth import EtcdAuth, KeyRight, Right
from broker.metadata.etcd_calls import prefix_end
from broker.metadata.port import MetadataRefused
from tests.harness.servers import LocalServer, local_etcd


@pytest.fixture
async def etcd(tmp_path: Path) -> AsyncIterator[LocalServer]:
    (server,) = local_etcd(tmp_path)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def settings(server: LocalServer, folder: Path, user: str) -> EtcdSettings:
    file = folder / f"password-{user}"
    file.write_text(f"of {user}\n")
    return EtcdSettings(endpoints=server.address, user=user, password_file=str(file), timeout_s=20.0)


async def test_a_user_has_the_rights_of_its_role_and_loses_what_the_role_loses(etcd, tmp_path):
    root = EtcdAuth(settings(etcd, tmp_path, "root"))
    early = EtcdMetadata(settings(etcd, tmp_path, "ada"))
    ada = EtcdMetadata(settings(etcd, tmp_path, "ada"))
    try:
        await early.put("/x/own/1", b"1")
        for _ in range(2):
            await root.role("/x/some", [KeyRight("/x/own/", Right.READWRITE), KeyRight("/x/seen/", Right.READ)])
            await root.user("ada", "of ada", "/x/some")
            await root.enable("of root")
        assert (await early.get("/x/own/1")).value == b"1", "it came when etcd asked nobody for a password"
        await ada.put("/x/own/2", b"2")
        assert await ada.range("/x/seen/")
        for key in ("/x/seen/1", "/x/other", "/x/own"):
            with pytest.raises(MetadataRefused, match="permission denied"):
                await ada.put(key, b"x")
        await root.role("/x/some", [KeyRight("/x/own/", Right.READ)])
        with pytest.raises(MetadataRefused, match="permission denied"):
            await ada.put("/x/own/2", b"3")
        with pytest.raises(MetadataRefused, match="permission denied"):
            await ada.range("/x/seen/")
        await root.role("/x/none", [])
        await root.user("ada", "another", "/x/none")
        late = EtcdMetadata(settings(etcd, tmp_path, "ada"))
        with pytest.raises(MetadataRefused, match=r"check etcd\.user"):
            await late.get("/x/own/1")
        await late.close()
        with pytest.raises(MetadataRefused, match=r"permission denied|authentication failed"):
            await ada.get("/x/own/1")
    finally:
        for one in (root, early, ada):
            await one.close()


@pytest.mark.parametrize(("prefix", "end"), [(b"/x/", b"/x0"), (b"a\xff", b"b"), (b"\xff", b"\0")])
def test_the_end_of_a_prefix_is_the_first_key_behind_it(prefix, end):
    assert prefix_end(prefix) == end
