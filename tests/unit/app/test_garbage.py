"""Collections of rings: none looks far however much lives, and a small process still finds its rings.

In processes of their own: what is frozen here would stay so for the tests behind."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest

from broker.app.process.garbage import uncollected

GROWING = """
import gc
from broker.app.process.garbage import collect_rarely
walked = [0]
def watch(phase, info):
    if phase == "start":
        walked.append(sum(len(gc.get_objects(generation)) for generation in range(info["generation"] + 1)))
collect_rarely()
gc.callbacks.insert(0, watch)
queues = {number: ({}, [], {number: []}) for number in range(400_000)}
print(max(walked))
"""
MIDDLE = """
import gc
from broker.app.process.garbage import collect_rarely
walked = [0]
def watch(phase, info):
    if phase == "start" and info["generation"] == 1:
        walked.append(len(gc.get_objects(0)) + len(gc.get_objects(1)))
collect_rarely()
gc.callbacks.insert(0, watch)
queues = {number: ({}, [], {number: []}) for number in range(100_000)}
print(max(walked))
"""
REPLACED = """
import gc
from broker.app.process.garbage import YoungCollections, collect_rarely
from collections import deque
walked = [0]
def watch(phase, info):
    if phase == "start" and info["generation"] < 2:
        walked.append(sum(len(gc.get_objects(generation)) for generation in range(info["generation"] + 1)))
collect_rarely()
gc.callbacks.insert(0, watch)
now = [0.0]
young = YoungCollections(lambda: now[0])
messages = deque(([], {}) for _ in range(20_000))
gc.freeze()
walked.clear()
for number in range(300_000):
    messages.append(([], {number: 0}))
    messages.popleft()
    now[0] += 0.00001
    if LOOKS and not number % 50:
        young.look()
gc.collect(1)
print(max(walked))
"""
RINGS = """
import weakref
from broker.app.process.garbage import collect_rarely
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
OLD_RINGS = """
import gc, weakref
from broker.app.process.garbage import OLD, YoungCollections, collect_rarely
class Ring:
    pass
collect_rarely()
now = [0.0]
young = YoungCollections(lambda: now[0])
for looks in (1, 2, 5, OLD):
    ring = Ring()
    ring.itself = ring
    found = weakref.ref(ring)
    for _ in range(looks):
        now[0] += 1
        young.look()
    del ring
    for _ in range(OLD):
        now[0] += 1
        young.look()
    assert found() is None, looks
print("ok")
"""


BUSY_RINGS = """
import gc, weakref
from broker.app.process import garbage
from broker.app.process.garbage import OLD, YoungCollections, collect_rarely
class Ring:
    pass
collect_rarely()
garbage.SLOW_S = 1.0
now = [0.0]
young = YoungCollections(lambda: now[0])
found = []
for look in range(4 * OLD):
    ring = Ring()
    ring.itself = ring
    found.append(weakref.ref(ring))
    del ring
    garbage._watching.spent = 2.0  # as if the middle ones had taken long
    now[0] += 1
    young.look()
assert not [ring for ring in found if ring() is not None]
print("ok")
"""


def run(script: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120
    ).stdout


def test_no_collection_walks_through_all_that_lives() -> None:
    # 60,000 as a rule; the quicker the machine, the later a collection is slow. With thresholds of 50,000 and 20
    # it was a million, which took 90 to 230 ms.
    assert int(run(GROWING)) < 350_000


def test_what_is_walked_in_one_step_while_things_are_made_is_bounded() -> None:
    """It was 60,000 objects: the longest step of a broker whose client makes 20,000 queues."""
    assert 20_000 < int(run(MIDDLE)) < 40_000


def test_what_replaces_what_goes_is_looked_at_by_the_clock() -> None:
    """CPython counts what is made less what is freed: it counted nothing, and the next look walked through it all."""
    assert int(run("LOOKS = False" + REPLACED)) == 40_002
    assert int(run("LOOKS = True" + REPLACED)) < 8_000


def test_a_small_process_frees_its_rings() -> None:
    assert run(RINGS) == "ok\n"


def test_what_is_frozen_unlooked_at_has_been_looked_through_before() -> None:
    assert run(BUSY_RINGS) == "ok\n"


def test_looks_by_the_clock_free_rings_of_every_age() -> None:
    assert run(OLD_RINGS) == "ok\n"


def test_nothing_is_collected_meanwhile_and_everything_afterwards_whatever_happens():
    assert gc.isenabled()
    with uncollected():
        assert not gc.isenabled()
        with uncollected():
            pass
        assert not gc.isenabled(), "who was not first does not end it"
    with pytest.raises(RuntimeError), uncollected():
        raise RuntimeError
    assert gc.isenabled()
