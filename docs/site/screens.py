"""Pictures of the console for docs/: a real cluster of three owners, one of which is killed. Needs etcd and Chromium.

    .venv/bin/python docs/site/screens.py docs/screens

Rule: nothing is drawn or faked: a queue that nobody consumes, dead letters made by NACKs, and the third owner is gone.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from broker.client import connect  # noqa: E402
from tests.harness.browser import browser  # noqa: E402
from tests.harness.cluster import Cluster, Process  # noqa: E402
from tests.harness.servers import running  # noqa: E402

SHOTS = (
    ("stuck-queue-light", (1180, 700), "queue/orders", "Nobody consumes it"),
    ("cluster-light", (1180, 940), "cluster", "owner-2"),
    ("dead-letters-dark", (1180, 560), "dead", "delivery-limit"),
    ("dead-letters-phone-light", (380, 560), "dead", "delivery-limit"),
)
"""(file and theme, size, page of the console, what must be there before it is taken); of dead letters a retry is begun,
so that its preview is seen."""
RETRY = "document.querySelector('[aria-label^=\"Retry\"]')"
GIVEN_UP_AFTER = 2


async def traffic(edge: Process) -> None:
    """Orders that wait, and some that a consumer could not do."""
    async with connect(f"stomp://127.0.0.1:{edge.port}") as client:
        async with client.subscribe("payments", ack="client-individual") as failing:
            for number in range(5):
                await client.send("payments", f"invoice {number}", headers={"persistent": "true"}, receipt=True)
            for _ in range(5 * GIVEN_UP_AFTER):
                await (await anext(aiter(failing))).nack()
        for number in range(40):
            await client.send("orders", f"{number} books", headers={"persistent": "true"}, receipt=True)


async def shoot(folder: Path, profile: Path, edge: Process) -> None:
    async with browser(profile, f"http://127.0.0.1:{edge.admin_port}/console") as page:
        for name, size, where, wanted in SHOTS:
            await page.value(f"location.hash = '#{where}'")
            await page.until(f"document.getElementById('page').innerText.includes('{wanted}')")
            await page.look_like(*size, name.rpartition("-")[2])
            if where == "dead":
                await page.until(RETRY)
                await page.value(f"{RETRY}.click()")
                await page.until("document.getElementById('form').open")
            await asyncio.sleep(0.5)  # it is drawn anew for the theme
            (folder / f"{name}.png").write_bytes(await page.screenshot(whole=False))
            await page.value("document.getElementById('form').close()")


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    settings = {"engine.addresses.payments.max_delivery_attempts": GIVEN_UP_AFTER}
    with (
        tempfile.TemporaryDirectory() as own,
        running("etcd", Path(own) / "etcd", ours=True) as etcd,
        Cluster(Path(own), etcd.port, owners=3, edges=2, settings=settings) as cluster,
    ):
        asyncio.run(traffic(cluster.edges[0]))
        cluster.owners[2].kill()
        cluster.wait(lambda: cluster.owners[2].id not in cluster.leaders(), 60, lambda: "its slots were not led")
        asyncio.run(shoot(folder, Path(own), cluster.edges[0]))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
