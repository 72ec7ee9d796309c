"""Who may use the API: pages of others are refused before the login, and users have what they may."""

from __future__ import annotations

from tests.harness.api import login, running


async def test_pages_of_others_are_refused_before_anything_else(api):
    for headers, status, problem in (
        ({"Host": "evil.example"}, 421, "unknown-host"),
        ({"Origin": "http://evil.example"}, 403, "foreign-page"),
        ({"Sec-Fetch-Site": "cross-site"}, 403, "foreign-page"),
    ):
        found, told = await api.raw("GET", "/queues", headers=headers)
        assert (found, told["type"]) == (status, f"urn:stampede:problem:{problem}")
    host = f"127.0.0.1:{api.broker.admin.port}"
    assert (await api.raw("GET", "/queues", headers={"Host": host, "Origin": f"http://{host}"}))[0] == 200


async def test_with_users_only_who_may(tmp_path):
    from broker.edge.access.users import add_user

    path = str(tmp_path / "users.toml")
    for name, groups in (("ada", ["admin"]), ("bob", ["shop"]), ("eve", [])):
        add_user(path, name, f"{name}-secret", groups)
    permissions = {"orders.#": {"manage": "shop"}, "orders.secret": {"manage": "others"}}
    ada, bob, eve = (login(name, f"{name}-secret") for name in ("ada", "bob", "eve"))
    async with running(tmp_path, edge={"users_file": path, "permissions": permissions}, login=ada) as api:
        for queue in ("orders", "orders.secret", "orders.eu", "mail"):
            api.broker.shard.submit([send(queue)])
        status, told = await api.raw("GET", "/queues")
        assert (status, told["type"]) == (401, "urn:stampede:problem:no-login")
        assert (await api.raw("GET", "/queues", headers=login("ada", "wrong")))[0] == 401
        assert [row["name"] for row in (await api.raw("GET", "/queues", headers=ada))[1]["items"]] == [
            "mail", "orders", "orders.eu", "orders.secret",
        ]  # fmt: skip
        seen = (await api.raw("GET", "/queues", headers=bob))[1]
        assert [row["name"] for row in seen["items"]] == ["orders", "orders.eu"] and seen["total"] == 2
        assert (await api.raw("GET", "/queues/mail", headers=bob))[0] == 404
        status, told = await api.raw("GET", "/overview", headers=bob)
        assert status == 403 and "admin.administrators" in told["fix"]
        status, told = await api.raw("GET", "/queues", headers=eve)
        assert status == 403 and "manage" in told["fix"]


def send(address):
    from broker.core.commands import Publish
    from broker.core.ids import slot_of
    from tests.unit.engine.world import ANYCAST, run_of

    return Publish(slot_of(address), 0, 0, address, ANYCAST, run_of(b"\nx\0", durable=True))
