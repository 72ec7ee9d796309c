"""Random kills while messages go into the archive: what was acknowledged is there, each once; what is replayed, once.

    make pipeline-torture ARGS="--rounds 30"                    # a broker of its own
    make pipeline-torture ARGS="--rounds 100 --folder /var/tmp/t"   # again with the same folder: goes on
    make pipeline-torture ARGS="--cluster --messages 6700"          # etcd, three owners, two edges

A round sends messages while the archive runs and runs, does somebody harm at a random moment (sites.py), lets everybody
come back, archives the rest, and compares.

Rule: the sender notes what the broker has acknowledged before it sends more (acked.txt); what it was told nothing about
may be there or not, once.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "pipeline"), str(ROOT / "operator")]

from broker_pipeline.store.manifests import Archive  # noqa: E402

from broker.client import Client as Connection  # noqa: E402
from broker.client import ClientError, connect  # noqa: E402
from tests.harness import Client, until  # noqa: E402
from tests.pipeline.host import Host, Hosts, SparkError  # noqa: E402
from tests.pipeline.sites import LIMIT_S, Alone, InCluster, Site  # noqa: E402

AT_ONCE = 50
"""Messages whose receipts a sender waits for."""


def children(pid: int) -> list[int]:
    """All processes below this one."""
    found = [pid]
    for each in found:
        for task in Path(f"/proc/{each}/task").glob("*/children"):
            try:
                found += [int(child) for child in task.read_text().split() if int(child) not in found]
            except OSError:
                continue
    return found[1:]


def workers(pid: int) -> list[int]:
    """Spark's Python processes below its driver."""
    found = []
    for each in children(pid):
        try:
            command = Path(f"/proc/{each}/cmdline").read_bytes()
        except OSError:
            continue
        if b"pyspark" in command and b"java" not in command.split(b"\0")[0]:
            found.append(each)
    return found


class Sender:
    """Sends numbered messages until it has been told of all of them; connects again however often it must."""

    def __init__(self, site: Site, acked: Path, names: list[str]) -> None:
        self._site = site
        self._acked = acked
        self.names = names
        self._thread = threading.Thread(target=lambda: asyncio.run(self._all()), daemon=True)
        self._thread.start()

    async def _all(self) -> None:
        left = self.names
        while left:
            try:
                async with connect(f"stomp://127.0.0.1:{self._site.port()}", receipt_timeout=20) as client:
                    while left:
                        now = left[:AT_ONCE]
                        told = await asyncio.gather(*(self._send(client, each) for each in now), return_exceptions=True)
                        acked = [each for each, answer in zip(now, told, strict=True) if answer is None]
                        with self._acked.open("a") as file:
                            file.writelines(f"{each}\n" for each in acked)
                        left = [each for each in now if each not in acked] + left[AT_ONCE:]
                        if lost := next(filter(None, told), None):
                            raise lost
            except (ClientError, OSError, TimeoutError):
                await asyncio.sleep(0.2)

    async def _send(self, client: Connection, name: str) -> None:
        """Returns when the broker has acknowledged it."""
        # By its own number: what is sent once more goes where it went, or nobody knows it again.
        where = "ab"[int(name.partition("-")[2]) % 2]
        headers = {"persistent": "true", "_AMQ_DUPL_ID": name}
        await client.send(f"/queue/torture.{where}", name.encode(), headers, receipt=True)

    def join(self, seconds: float) -> None:
        self._thread.join(seconds)
        assert not self._thread.is_alive(), "the sender has not been told of all its messages"


def archived(folder: Path) -> Counter[str]:
    import pyarrow.parquet as pq

    found: Counter[str] = Counter()
    for path in Archive(str(folder)).live("messages"):
        found.update(
            body.decode() for body in pq.read_table(path, columns=["body"], partitioning=None)["body"].to_pylist()
        )
    return found


class Torture:
    """Rounds in a folder that remembers them."""

    LONGEST_S = 6.0
    """Until a harm is done."""

    def __init__(
        self, folder: Path, site: Site, seed: int, messages: int, say: Callable[[str], object],
        hosts: Hosts | None = None,
    ) -> None:  # fmt: skip
        """hosts: of whoever has some, and ends them."""
        self.folder, self.site, self.messages, self._say = folder, site, messages, say
        self.acked, self.lake, self._state = folder / "acked.txt", folder / "lake", folder / "rounds.json"
        self._enough = folder / "enough"
        """Once it is there an archive that goes on and on ends."""
        self.done = json.loads(self._state.read_text()) if self._state.exists() else []
        self.seed = seed
        self._ours = hosts is None
        if hosts is None:
            place = folder / "spark"
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir()
            hosts = Hosts(place)
        self._hosts = hosts

    def host(self) -> Host:
        return self._hosts.host()

    def close(self) -> None:
        if self._ours:
            self._hosts.close()

    def round(self, victim: str = "") -> None:
        """One of them."""
        number = len(self.done)
        dice = random.Random(f"{self.seed}/{number}")
        chosen = dice.choice(["driver", "worker", *self.site.harms])
        victim, delay = victim or chosen, dice.uniform(0.0, self.LONGEST_S)
        begun = time.monotonic()
        host = self.host()
        if not (self.lake / "manifests").exists():
            # From the first message on: what comes before an archive there is none of.
            host.call("archive", str(self.lake), self.site.source, self.messages)
        sender = Sender(self.site, self.acked, [f"{number}-{n}" for n in range(self.messages)])
        until(
            lambda: self.acked.exists() and f"\n{number}-" in "\n" + self.acked.read_text(), "a first message", LIMIT_S
        )
        self._enough.unlink(missing_ok=True)
        host.begin("archive_on", str(self.lake), self.site.source, self.messages // 3, str(self._enough))
        time.sleep(delay)
        self._kill(victim, host)
        sender.join(LIMIT_S)
        self._rest()
        self._compare()
        self.done.append({"victim": victim, "delay": round(delay, 2), "seconds": round(time.monotonic() - begun, 1)})
        self._state.write_text(json.dumps(self.done))
        self._say(f"round {number + 1}: {victim} after {delay:.1f} s; all {len(self._known())} there, each once")

    def _kill(self, victim: str, host: Host) -> None:
        if victim == "driver":
            host.kill()
            return
        if victim == "worker":
            for pid in workers(host.process.pid):
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
        else:
            self.site.harm(victim)
        self._enough.touch()
        try:
            host.answer()
        except SparkError as error:
            self._say(f"  the archive said: {str(error).splitlines()[0][:150]}")

    def _rest(self) -> None:
        """Until a run finds nothing new. A run may fail while others come back."""
        end = time.monotonic() + LIMIT_S
        while True:
            try:
                if self.host().call("archive", str(self.lake), self.site.source, 5_000) == 0:
                    return
            except SparkError as error:
                assert time.monotonic() < end, error

    def _compare(self) -> None:
        acked = self._known()
        found = archived(self.lake)
        assert not acked - set(found), f"lost: {sorted(acked - set(found))[:5]}"
        assert set(found) == acked, f"never sent: {sorted(set(found) - acked)[:5]}"
        twice = [name for name, count in found.items() if count != 1]
        assert not twice, f"twice in the archive: {twice[:5]}"

    def _known(self) -> set[str]:
        """What the broker has acknowledged, ever."""
        return set(self.acked.read_text().split())

    def replay(self) -> None:
        """Everything, twice: it arrives once."""
        name = f"r{len(self.done)}"
        plan = {"id": name, "into": f"/queue/again.{name}", "addresses": ("torture.a", "torture.b")}
        url = f"stomp://127.0.0.1:{self.site.port()}"
        acked = sorted(self._known())
        count = len(acked)
        assert self.host().call("replay", str(self.lake), self.site.source, url, plan) == count
        (self.lake / f"replays/{name}.done").unlink()
        self.host().call("replay", str(self.lake), self.site.source, url, plan)
        with Client(self.site.port()) as client:
            client.connect()
            client.publish(f"/queue/again.{name}", b"the end", persistent="true")
            client.sync()
            client.subscribe(f"/queue/again.{name}", ack="auto")
            bodies = [message.body.decode() for message in client.messages(count + 1)]
        assert sorted(bodies[:-1]) == acked and bodies[-1] == "the end"
        self._say(f"replayed twice: {count} messages, each once")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=30, help="in all, those of earlier runs in the folder included")
    parser.add_argument("--messages", type=int, default=400, help="of a round")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="of what is kept; default: below /tmp")
    parser.add_argument("--cluster", action="store_true", help="etcd, three owners and two edges instead of one broker")
    given = parser.parse_args()
    name = "stampede-pipeline-torture" + ("-cluster" if given.cluster else "")
    given.folder = given.folder or Path(tempfile.gettempdir()) / name
    given.folder.mkdir(parents=True, exist_ok=True)
    site: Site = InCluster(given.folder / "cluster") if given.cluster else Alone(given.folder / "broker")
    torture = Torture(given.folder, site, given.seed, given.messages, lambda text: print(text, flush=True))
    try:
        while len(torture.done) < given.rounds:
            torture.round()
        torture.replay()
    finally:
        torture.close()
        site.close()
    print(dict(Counter(each["victim"] for each in torture.done)))


if __name__ == "__main__":
    main()
