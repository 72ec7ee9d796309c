"""Collections of rings: none is long however much lives, and a small process still finds its rings.

In processes of their own: what is frozen here would stay so for the tests behind."""

from __future__ import annotations

import subprocess
import sys

GROWING = """
import gc, time
from broker.app.garbage import collect_rarely
began, longest, walked = 0.0, 0.0, 0
def watch(phase, info):
    global began, longest
    if phase == "start":
        began = time.thread_time()
    else:
        longest = max(longest, time.thread_time() - began)
collect_rarely()
gc.callbacks.insert(0, watch)
queues = {number: ({}, [], {number: []}) for number in range(400_000)}
assert len(gc.get_objects()) < 200_000, "most of it is out of the collector's sight"
print(longest)
"""
RINGS = """
import weakref
from broker.app.garbage import collect_rarely
class Ring:
    pass
collect_rarely()
rings = []
for _ in range(20):
    for _ in range(10_000):
        ring = Ring()
        ring.itself = ring
        rings.append(weakref.ref(ring))
    rings = [found for found in rings if found() is not None]
    assert len(rings) < 60_000
print("ok")
"""


def run(script: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120
    ).stdout


def test_no_collection_is_long_while_a_process_grows() -> None:
    # About 5 ms; 90–230 where survivors are not frozen. CPU time, so that a busy machine changes little.
    assert float(run(GROWING)) < 0.025


def test_a_small_process_frees_its_rings() -> None:
    assert run(RINGS) == "ok\n"
