"""The console in a real browser: it follows what happens without asking again, says why, and retries dead letters."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from broker.client import connect
from tests.harness.api import running
from tests.harness.axe import axe, violations
from tests.harness.browser import Page, browser

SLOTS = [
    {
        "slot": slot, "epoch": 1, "leader": f"owner-{slot % 3}", "replicas": ["owner-0", "owner-1", "owner-2"],
        "in_sync": ["owner-0", "owner-1", "owner-2"][: 2 + (slot % 9 != 0)], "target": "", "shelved": "",
    }
    for slot in range(256)
]  # fmt: skip
TEXT = "document.getElementById('page').innerText"
PAGES = ("overview", "queues", "queue/orders", "addresses", "subscriptions", "connections", "cluster", "users",
         "settings", "dead", "audit", "try")  # fmt: skip
SHOTS = os.environ.get("STAMPEDE_SHOTS")
"""A folder for pictures of all pages, to be looked at."""


class OfThree:
    """A cluster that is only shown."""

    drained: set[str]
    dead: set[str]

    def __init__(self) -> None:
        self.drained, self.dead = set(), set()

    async def nodes(self) -> list[dict[str, Any]]:
        return [
            {
                "name": f"owner-{n}", "kind": "owner",
                "state": self.state(f"owner-{n}"),
                "zone": f"zone-{n}",
                "address": f"10.0.0.{n}:61690", "admin": "", "leads": 85, "replicas": 256,
                "in_sync": 256, "unreached": [],
            }
            for n in range(3)
        ]  # fmt: skip

    def state(self, owner: str) -> str:
        return "dead" if owner in self.dead else "up, draining" if owner in self.drained else "up"

    def slots(self) -> list[dict[str, Any]]:
        return [
            {
                **slot, "in_sync": [name for name in slot["in_sync"] if name not in self.dead],
                "leader": "owner-0" if slot["leader"] in self.dead else slot["leader"],
            }
            for slot in SLOTS
        ]  # fmt: skip

    async def drain(self, owner: str, on: bool) -> bool:
        (self.drained.add if on else self.drained.discard)(owner)
        return True

    async def move(self, slot: int, owner: str) -> str:
        return "done"


async def test_the_console_follows_what_happens(tmp_path):
    async with running(tmp_path / "broker", engine={"addresses": {"#": {"max_delivery_attempts": 1}}}) as api:
        api.broker.admin._api.cluster_map.topology = OfThree()
        url = f"http://127.0.0.1:{api.broker.admin.port}/console"
        async with connect(api.url) as client, browser(tmp_path, f"{url}#queues") as page:
            await page.until(f"{TEXT}.includes('No queues.')")
            await page.until("document.getElementById('light').innerText === 'live'")
            await page.value(
                "window.asked = 0; const real = fetch; fetch = (...all) => { window.asked++; return real(...all); }; 0"
            )
            await api.call("POST", "/queues", 201, address="orders")
            await page.until(f"{TEXT}.includes('orders')")
            assert await page.value("window.asked") == 0, "it was told"
            async with client.subscribe("orders", ack="client-individual") as subscription:
                for n in range(3):
                    await client.send("orders", f"poison {n}", receipt=True)
                for _ in range(3):
                    await (await anext(aiter(subscription))).nack()
            await page.until(f"{TEXT}.includes('DLQ')")
            await page.value("location.hash = '#queue/DLQ'")
            await page.until(f"{TEXT}.includes('poison 2') && {TEXT}.includes('Nobody')")
            await page.value("document.querySelector('[aria-label^=\"Retry\"]').click()")
            await page.until("document.getElementById('problem').innerText.includes('3 messages are back')")
            await page.until(f"{TEXT}.includes('there is no queue')")
            await page.value("location.hash = '#audit'")
            await page.until(f"{TEXT}.includes('retry') && {TEXT}.includes('/queues/DLQ/retry')")
            await page.value("location.hash = '#dead'")
            await page.until(f"{TEXT}.includes('No dead letters.')")
            await page.value("location.hash = '#users'")
            await page.until("document.getElementById('may-ask')")
            for field, text in (("user", "nobody"), ("address", "orders")):
                await page.value(f"{{ const i = document.getElementById('may-{field}'); i.value = '{text}'; "
                                 "i.dispatchEvent(new Event('change')) }")  # fmt: skip
            await page.value("document.getElementById('may-ask').click()")
            await page.until("document.getElementById('problem').innerText.includes(\"there is no user 'nobody'\")")
            await page.value("location.hash = '#overview'")
            await page.until("document.querySelectorAll('figure').length === 2")
            await api.call("POST", "/addresses/orders/messages", 201, body="one more")
            await page.until("document.querySelectorAll('figure polyline').length === 3")
            await page.until("document.querySelector('.trend polyline')")
            await page.value("location.hash = '#queue/orders'")
            await page.until(f"{TEXT}.includes('poison 2')")
            await choose(page, "show-as", "hex")
            await page.until(f"{TEXT}.includes('70 6f 69 73 6f 6e 20 32') && !{TEXT}.includes('Move to')")
            await choose(page, "selector", "1 = 2")
            await page.until(f"{TEXT}.includes('Nothing waits.')")
            await choose(page, "selector", "")
            await page.until(f"{TEXT}.includes('70 6f 69 73')")
            move = "[...document.querySelectorAll('button')].find((b) => b.innerText === 'Move')"
            await page.value(f"document.getElementById('carry-to').value = 'archive'; {move}.click()")
            await page.value("{ const i = document.getElementById('dialog-input'); i.value = 'orders'; i.oninput(); }"
                             "document.getElementById('dialog-yes').click()")  # fmt: skip
            await page.until("document.getElementById('problem').innerText.includes('4 messages moved')")
            assert (await api.get("/queues/archive"))["parts"][0]["messages"] == 4
            await page.value("location.hash = '#cluster'")
            await page.until("document.querySelectorAll('.strip i.leads').length === 256")
            await page.look_like(360, 740, "dark")
            assert await page.value("document.documentElement.scrollWidth <= 360"), "a phone shows it without scrolling"
            await page.value("document.querySelector('[aria-label=\"Drain owner-1\"]').click()")
            await page.value("const i = document.getElementById('dialog-input'); i.value = 'owner-1'; i.oninput();"
                             "document.getElementById('dialog-yes').click()")  # fmt: skip
            await page.until(f"{TEXT}.includes('up, draining')")
            assert page.errors == []
            if SHOTS:
                await shots(page, Path(SHOTS))


async def choose(page: Page, id: str, text: str) -> None:
    await page.value(
        f"{{ const i = document.getElementById('{id}'); i.value = '{text}'; i.dispatchEvent(new Event('change')) }}"
    )


async def test_an_owner_that_is_dead_is_one_trouble_and_nothing_of_it_is_being_filled(tmp_path):
    three = OfThree()
    three.dead = {"owner-2"}
    async with running(tmp_path / "broker") as api:
        api.broker.admin._api.cluster_map.topology = three
        await api.call("POST", "/queues", 201, address="orders")
        await api.call("POST", "/addresses/orders/messages", 201, body="one")
        url = f"http://127.0.0.1:{api.broker.admin.port}/console"
        async with browser(tmp_path, f"{url}#cluster") as page:
            await page.until("document.querySelectorAll('.strip i.away').length === 256")
            assert await page.value("document.querySelectorAll('.strip i.filling').length") == 0
            assert "owner-2 is not in sync\t256\t0–255" in await page.value(TEXT)
            await page.value("location.hash = '#queue/orders'")
            await page.until(f"{TEXT}.includes('Nobody consumes it: subscribe to orders.')")
            assert await page.value("document.querySelector('[aria-current]').innerText") == "Queues"


async def test_a_client_in_the_page_sends_and_is_told_how_fast_it_went(tmp_path):
    async with running(tmp_path / "broker", edge={"ws_port": 0}) as api:
        url = f"http://127.0.0.1:{api.broker.admin.port}/console"
        async with browser(tmp_path, f"{url}#try") as page:
            await page.until("document.getElementById('try-connect')")
            await page.value("document.getElementById('try-connect').click()")
            await page.until(f"{TEXT}.includes('Subscribed to /queue/try')")
            await page.value("{ const i = document.getElementById('try-count'); i.value = '1500'; "
                             "i.dispatchEvent(new Event('change')) }")  # fmt: skip
            await page.value("document.getElementById('try-send').click()")
            await page.until(f"{TEXT}.includes('all 1,500 are with the broker') && {TEXT}.includes('1,500 came back')")
            assert await page.value("document.querySelectorAll('#try-messages tbody tr').length") == 30
            (queue,) = (await api.get("/queues"))["items"]
            assert (queue["name"], queue["messages"], queue["consumers"]) == ("try", 0, 1)
            await page.value("document.getElementById('try-connect').click()")
            await page.until(f"{TEXT}.includes('Not connected')")
            await page.value("{ const i = document.getElementById('try-destination'); i.value = '/queue/a,/queue/b'; "
                             "i.dispatchEvent(new Event('change')) }")  # fmt: skip
            await page.value("document.getElementById('try-connect').click()")
            await page.until("document.getElementById('problem').innerText.includes('/queue/a,/queue/b')")
            assert page.errors == []


async def shots(page: Page, folder: Path) -> None:
    for name in (
        "overview",
        "queues",
        "queue/orders",
        "addresses",
        "connections",
        "cluster",
        "users",
        "settings",
        "dead",
        "audit",
        "try",
    ):
        for theme, width in (("light", 1280), ("dark", 1280), ("dark", 360)):
            await page.look_like(width, 800, theme)
            await page.value(f"location.hash = '#{name}'")
            await page.until("document.getElementById('light').innerText === 'live'")
            (folder / f"{name.replace('/', '-')}-{theme}-{width}.png").write_bytes(await page.screenshot())


async def test_nothing_on_any_page_keeps_people_from_using_it(tmp_path):
    source = axe()
    async with running(tmp_path / "broker", engine={"addresses": {"#": {"max_delivery_attempts": 1}}}) as api:
        api.broker.admin._api.cluster_map.topology = OfThree()
        await api.call("POST", "/queues", 201, address="orders")
        await api.call("POST", "/addresses/orders/messages", 201, body="one")
        url = f"http://127.0.0.1:{api.broker.admin.port}/console"
        async with connect(api.url) as client, browser(tmp_path, f"{url}#overview") as page:
            async with client.subscribe("orders", ack="client-individual") as subscription:
                await (await anext(aiter(subscription))).nack()
            await page.value(source + "; 0")
            for theme, width in (("light", 1280), ("dark", 360)):
                await page.look_like(width, 800, theme)
                for name in PAGES:
                    await page.value(f"location.hash = '#{name}'")
                    await page.until("document.getElementById('light').innerText === 'live'")
                    assert await violations(page) == [], f"{name}, {theme}"
