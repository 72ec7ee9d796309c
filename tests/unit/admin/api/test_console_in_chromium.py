"""The console in a real browser: it follows what happens without asking again, says why, and retries dead letters."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from broker.client import connect
from broker.core.address import Routing
from broker.core.commands import Act, Manage
from broker.core.ids import slot_of
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
        self.moved: list[tuple[int, str]] = []

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
        self.moved.append((slot, owner))
        return "done" if len(self.moved) > 1 else "seeding"


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
            await page.until("document.getElementById('form').open")
            told = await page.value("document.getElementById('form-text').innerText")
            assert "3 messages go back to orders;" in told and "poison 0" in told, "looked at before it is done"
            await page.value("document.getElementById('form-yes').click()")
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
            await page.until("document.querySelectorAll('figure').length === 3")
            await api.call("POST", "/addresses/orders/messages", 201, body="one more")
            await page.until("document.querySelectorAll('figure polyline').length >= 3")
            await api.call("POST", "/queues", 201, address="timed")
            async with client.subscribe("timed", ack="auto") as timed:
                drawn = ("[...document.querySelectorAll('figcaption')].some((f) => f.innerText.startsWith("
                         "'Milliseconds until delivered: p50 '))")  # fmt: skip
                while not await page.value(
                    drawn
                ):  # a line has two points, of looks between which something was delivered
                    seen = await page.value("past.length")
                    await client.send("timed", "x", receipt=True)
                    await anext(aiter(timed))
                    await page.until(f"past.length > {seen}")
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
            await page.until("document.getElementById('dialog').open")
            told = await page.value("document.getElementById('dialog-text').innerText")
            assert "All messages that wait go to archive: 4." in told
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


async def confirm(page: Page, text: str) -> None:
    await page.until("document.getElementById('dialog').open")
    await page.value(f"{{ const i = document.getElementById('dialog-input'); i.value = '{text}'; i.oninput(); }}"
                     "document.getElementById('dialog-yes').click()")  # fmt: skip


async def fill(page: Page, button: str, **fields: str) -> None:
    """Opens the form by its button, called so, and saves these fields of it."""
    found = f"[...document.querySelectorAll('button')].find((b) => [b.innerText, b.ariaLabel].includes('{button}'))"
    await page.until(found)
    await page.value(f"{found}.click()")
    await page.until("document.getElementById('form').open")
    for name, text in fields.items():
        await page.value(f"{{ const f = document.getElementById('field-{name}'); f.value = '{text}'; f.focus(); }}")
    for kind in ("keyDown", "keyUp"):  # which says Save, and not what stands before it
        await page.call("Input.dispatchKeyEvent", type=kind, key="Enter", windowsVirtualKeyCode=13, text="\r")


async def said(page: Page, text: str) -> None:
    await page.until(f"document.getElementById('problem').innerText.includes('{text}')")


async def test_users_permissions_settings_and_slots_are_changed_in_the_page(tmp_path):
    three = OfThree()
    async with running(tmp_path / "broker") as api:
        api.broker.admin._api.cluster_map.topology = three
        url = f"http://127.0.0.1:{api.broker.admin.port}/console"
        async with browser(tmp_path, f"{url}#settings") as page:
            await page.value("location.hash = '#settings'")
            await fill(page, "New entry", entry="orders", setting="max_delivery_attempts", value="7")
            await said(page, "orders is in use as it is now")
            change = "Change addresses orders"
            await fill(page, change, **{"old-max_delivery_attempts": "no number"})
            await said(page, "no number")
            await fill(page, change, **{"old-max_delivery_attempts": "8", "setting": "partitions", "value": "2"})
            await said(page, "orders is in use as it is now")
            (entry,) = (await api.get("/config", table="addresses"))["items"]
            assert entry["values"] == {"max_delivery_attempts": 8, "partitions": 2} and entry["by"] == "anonymous"
            await page.value("location.hash = '#users'")
            await fill(page, "New permission", match="orders.#", send="eu, ops", manage="ops")
            await said(page, "orders.# is in use as it is now")
            await page.until(f"{TEXT}.includes('send: eu, ops')")
            await page.value("document.querySelector('[aria-label=\"Take back permissions orders.#\"]').click()")
            await confirm(page, "orders.#")
            await said(page, "everybody everything")  # the last entry stays: the broker says why
            await page.value("location.hash = '#cluster'")
            await page.until("document.getElementById('move-slot')")
            await page.value("document.querySelector('[data-slot=\"7\"]').click()")
            await page.value("document.getElementById('move-to').value = 'owner-2'")
            await page.value("document.getElementById('move-to').dispatchEvent(new Event('change'))")
            await page.value("window.before = document.getElementById('move-to'); void show()")
            await page.until("window.before !== document.getElementById('move-to')")  # what was chosen outlives that
            await page.value("document.getElementById('move-slot').closest('.bar').querySelector('button').click()")
            await confirm(page, "7")
            await said(page, "slot 7 to owner-2: done")
            assert three.moved == [(7, "owner-2")] * 2, "step by step"
            await page.value("location.hash = '#users'")
            await fill(page, "New user", name="ada", passcode="a long passcode", groups="admin, eu")
            await said(page, "ada is in admin, eu")  # from here on the page would have to log in
            assert page.errors == []


async def test_a_long_list_has_no_holes_wherever_it_is_scrolled(tmp_path):
    """Rows come and go meanwhile; those on the screen are all that there are, once each, in their order."""
    names = [f"q.{n:04}" for n in range(730)]
    async with running(tmp_path / "broker") as api:
        desk = api.broker.admin._api.desk
        with desk.errand() as errand:

            def create(name: str) -> Callable[[int, int], Manage]:
                return lambda session, seq: Manage(
                    slot_of(name), session, seq, Act.CREATE, name, name, Routing.ANYCAST, None, False
                )

            await asyncio.gather(*[errand.ask(create(name)) for name in names])
        url = f"http://127.0.0.1:{api.broker.admin.port}/console"
        async with browser(tmp_path, f"{url}#addresses") as page:
            await page.until(f"{TEXT}.includes('730 in all')")
            first = "[...document.querySelectorAll('.tall tbody tr:not(.space)')].map((r) => r.cells[0].innerText)"
            box = "document.querySelector('.tall')"
            seen: list[str] = []
            for _ in range(200):
                rows = await page.value(first)
                at = names.index(rows[0])
                assert rows == names[at : at + len(rows)] and len(rows) < 80, "no hole, and few rows in the page"
                seen += [name for name in rows if name not in seen]
                if seen == names:
                    break
                await page.value(f"{box}.scrollTop += {box}.clientHeight")
                await page.until(
                    f"lists.addresses.drawn === Math.floor({box}.scrollTop / 36) && !lists.addresses.asking"
                )
            assert seen == names
            assert await page.value(f"{box}.querySelector('table').getAttribute('aria-rowcount')") == "731"
            await page.until("document.getElementById('light').innerText === 'live'")
            await page.until("live.paths.length >= 1 && live.paths.every((path) => path.includes('page='))")
            for name in (names[700], names[720]):
                await api.call("DELETE", f"/queues/{name}")
            left = [name for name in names if name not in (names[700], names[720])]
            await page.until(f"{first}.at(-1) === '{names[-1]}' && !{first}.includes('{names[720]}')")
            rows = await page.value(first)
            assert rows == left[-len(rows) :]
            await page.value(f"{box}.focus(); {box}.scrollTop = 0")
            await page.until(f"{first}[0] === '{names[0]}'")
            assert await page.value(f"document.activeElement === {box}"), "the keyboard stays where it was"
            await page.value(
                "[...document.querySelectorAll('th button')].find((b) => b.innerText === 'Address').click()"
            )
            await page.until(f"{first}[0] === '{names[-1]}'")
            await choose(page, "search", "q.000")
            await page.until(f"{TEXT}.includes('10 in all')")
            assert await page.value(first) == names[9::-1]
            # An answer to what was searched for before comes behind that to what is searched for now.
            late_answer = (
                "(async () => { const list = lists.addresses, now = look; let late;"
                " state.addresses.q = ''; list.begin();"
                " look = (path) => new Promise((take) => { late = () => now(path).then(take); });"
                " list.look(); look = now; state.addresses.q = 'q.000'; list.begin(); await list.look();"
                " look = () => new Promise(() => {}); await late(); await new Promise((then) => setTimeout(then, 200));"
                " look = now; list.render(); return list.total; })()"
            )
            assert await page.value(late_answer) == 10
            await page.until(f"{TEXT}.includes('10 in all')")
            assert await page.value(first) == names[9::-1]
            assert page.errors == []


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
                await page.value("state.settings.q = 'max_d'")  # some rows of a table are like all: axe looks at each
                for name in PAGES:
                    await page.value(f"location.hash = '#{name}'")
                    await page.until("document.getElementById('light').innerText === 'live'")
                    assert await violations(page) == [], f"{name}, {theme}"
