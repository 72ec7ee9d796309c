"""Runbooks, tried: the fault is caused, the alert's own series says so, what the page says to look at says why, and
what it says to do ends it. Those of a cluster: tests/cluster/test_runbooks.py, test_day_with_an_owner_down.py; of the
operator: tests/operator/api/test_runbooks.py.

Rule: commands are those of the page, as they stand there; what needs a name typed gets --yes.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import shutil
import ssl
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from broker.app.cli import main
from broker.client import ConnectionLost, ServerError, connect
from tests.abuse.certificates import authority, issued
from tests.harness.api import Api, login, running

PAGES = Path(__file__).parents[2] / "docs" / "runbooks"
COMMAND = re.compile(r"^stampede ([^#\n]+)", re.MULTILINE)
ANYCAST = {"destination-type": "ANYCAST", "persistent": "true"}


async def stampede(api: Api, line: str) -> str:
    """A command of the page."""
    given = [*shlex.split(line), "--url", f"http://127.0.0.1:{api.broker.admin.port}"]
    result = await asyncio.to_thread(CliRunner().invoke, main, given)
    assert result.exit_code == 0, (line, result.output)
    return result.stdout


async def looked(api: Api, alert: str) -> str:
    """What the commands under "Look" of its page print. `top` would go on for ever."""
    page = (PAGES / f"{alert}.md").read_text()
    commands = [found.strip() for found in COMMAND.findall(page.partition("## Look")[2].partition("## Do")[0])]
    assert commands
    return "\n".join([await stampede(api, f"{line} --count 1" if line == "top" else line) for line in commands])


async def do(api: Api, alert: str, command: str, more: str = "") -> str:
    """A command under "Do"."""
    assert f"`stampede {command}`" in (PAGES / f"{alert}.md").read_text().partition("## Do")[2]
    return await stampede(api, f"{command} {more}")


async def series(api: Api, name: str, *labels: str) -> float:
    """As Prometheus would sum it up."""
    async with api.http.get("/metrics") as answer:
        lines = (await answer.text()).splitlines()
    found = [line for line in lines if re.match(rf"{name}[ {{]", line) and all(label in line for label in labels)]
    return sum([float(line.rpartition(" ")[2]) for line in found])


async def send(api: Api, queue: str, count: int) -> None:
    async with connect(api.url) as client:
        for n in range(count):
            await client.send(queue, f"order {n}", ANYCAST, receipt=n == count - 1)


@pytest.fixture
async def api(tmp_path):
    async with running(tmp_path) as api:
        yield api


async def test_dead_letters(api):
    await send(api, "orders", 3)
    async with connect(api.url) as client, client.subscribe("orders", ack="client-individual") as failing:
        for _ in range(3):
            await (await anext(aiter(failing))).nack(headers={"requeue": "false"}, receipt=True)
    assert await series(api, "stomp_messages_dead_lettered_total") == 3
    told = await looked(api, "StampedeDeadLetters")
    assert "orders" in told and "rejected" in told and "order 2" in told
    assert "3 messages" in await do(api, "StampedeDeadLetters", "queue retry DLQ")
    assert (await api.get("/queues/orders"))["parts"][0]["messages"] == 3
    async with connect(api.url) as client, client.subscribe("orders", ack="client-individual") as failing:
        await (await anext(aiter(failing))).nack(headers={"requeue": "false"}, receipt=True)
    assert "1 messages" in await do(api, "StampedeDeadLetters", "queue purge DLQ", "--yes")


async def test_a_queue_without_consumers(api):
    await send(api, "orders", 2)
    assert await series(api, "stomp_queue_messages", 'state="ready"', 'queue="orders"') == 2
    assert await series(api, "stomp_queue_messages", 'state="delivering"', 'queue="orders"') == 0
    assert "Nobody consumes it" in await looked(api, "StampedeQueueWithoutConsumers")
    await stampede(api, "queue pause orders")
    assert "paused by an operator" in await looked(api, "StampedeQueueWithoutConsumers")
    await do(api, "StampedeQueueWithoutConsumers", "queue resume orders")
    with pytest.raises((ServerError, ConnectionLost)):  # of the send, or of the end, which knows the ERROR by then
        async with connect(api.url) as client, client.subscribe("orders", ack="client-individual", prefetch=1):
            (row,) = (await api.get("/connections"))["items"]
            while await series(api, "stomp_queue_messages", 'state="delivering"', 'queue="orders"') == 0:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            await stampede(api, f"disconnect {row['id']} --yes")
            await client.send("orders", "x", receipt=True)
            raise AssertionError("it is still connected")
    assert await series(api, "stomp_queue_messages", 'state="ready"', 'queue="orders"') == 2
    await do(api, "StampedeQueueWithoutConsumers", "queue purge orders", "--yes")
    assert await series(api, "stomp_queue_messages", 'state="ready"', 'queue="orders"') == 0


@pytest.mark.parametrize("alert", ["StampedeQueueGrowing", "StampedeDeliverySlow"])
async def test_a_queue_that_grows_as_its_consumer_is_slow(api, alert):
    await send(api, "orders", 500)
    async with connect(api.url) as client, client.subscribe("orders", ack="client-individual", prefetch=5) as slow:
        await anext(aiter(slow))
        told = await looked(api, alert)
        assert "window" in told and "orders" in told
        async with connect(api.url) as more, more.subscribe("orders", ack="auto") as another:  # "Add consumers"
            for _ in range(495):
                await anext(aiter(another))
    assert await series(api, "stomp_queue_delivery_seconds_count", 'queue="orders"') >= 500
    assert await series(api, "stomp_queue_messages", 'state="ready"', 'queue="orders"') <= 5


async def test_login_failures(api):
    await api.call("PUT", "/users/ada", passcode="a long passcode", groups=["admin"])
    api.http.headers.update(login("ada", "a long passcode"))
    for _ in range(2):
        with pytest.raises((ServerError, ConnectionLost)):
            async with connect(api.url.replace("//", "//ada:wrong@")):
                pass
    assert await series(api, "stomp_login_failures_total") == 2


DAY_S = 86400


async def test_a_certificate_that_ends(tmp_path):
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed: no certificates for this test")
    ca = authority(tmp_path, "ca")
    cert, key = issued(tmp_path, "ours", ca, days=3)
    files = {"tls_port": 0, "tls_cert_file": str(cert), "tls_key_file": str(key), "tls_reload_s": 0.1}
    async with running(tmp_path / "data", edge=files) as api:

        async def left() -> float:
            return await series(api, "stomp_tls_certificate_expiry_seconds") - time.time()

        assert 2 * DAY_S < await left() < 7 * DAY_S
        page = (PAGES / "StampedeCertificateEnds.md").read_text()
        assert "stampede doctor --problems" in page.partition("## Look")[2].partition("## Do")[0]
        told = await doctor(api, cert, key)
        assert "ends in 3 days" in told and "renew it" in told
        assert "it is read without a restart" in page.partition("## Do")[2]
        renewed = issued(tmp_path, "renewed", ca, days=90)
        os.replace(renewed[1], key)
        os.replace(renewed[0], cert)
        while await left() < 80 * DAY_S:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        assert "certificate" not in await doctor(api, cert, key)
        trust = ssl.create_default_context(cafile=str(ca[0]))
        port = api.broker.listeners.ports["tls"]
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trust, server_hostname="localhost")
        assert ssl.cert_time_to_seconds(writer.get_extra_info("peercert")["notAfter"]) > time.time() + 80 * DAY_S
        writer.close()


async def doctor(api: Api, cert: Path, key: Path) -> str:
    """What it says of problems, with the settings of that edge."""
    given = {"edge.tls_cert_file": cert, "edge.tls_key_file": key, "edge.tls_port": 61612,
             "admin.port": api.broker.admin.port}  # fmt: skip
    line = ["doctor", "--problems", "--data", api.broker.settings.data]
    line += [part for name, value in given.items() for part in ("--set", f"{name}={value}")]
    return (await asyncio.to_thread(CliRunner().invoke, main, line)).stdout


async def test_a_volume_that_fills(api):
    """What is left of a volume is what the journal leaves of it; when the rule fires for that: tests/helm."""

    async def used() -> float:
        return await series(api, "stomp_journal_disk_bytes")

    async with connect(api.url) as client:
        await client.send("other", "x", ANYCAST, receipt=True)
        found = [await used()]
        for _ in range(3):
            for n in range(100):
                await client.send("orders", "x" * 20_000, ANYCAST, receipt=n == 99)
            found.append(await used())
    assert found == sorted(found) and found[-1] > found[0] + 5_000_000, found
    told = await looked(api, "StampedeVolumeFilling")
    assert re.search(r"^orders .* 300 ", told, re.MULTILINE), told
    page = (PAGES / "StampedeVolumeFilling.md").read_text().partition("## Do")[2]
    assert "(StampedeDiskNearlyFull.md)" in page
    nearly = (PAGES / "StampedeDiskNearlyFull.md").read_text().partition("## Do")[2]
    assert "have it consumed, moved or purged" in nearly
    await stampede(api, "queue purge orders --yes")
    async with asyncio.timeout(60):
        while await used() > found[1]:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
