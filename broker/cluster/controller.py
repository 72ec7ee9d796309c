"""The controller: carries the planner's steps out, while this owner holds the office.

A round is: look, plan, swap. What cannot wait (fail-over) goes out at once, in transactions of a hundred slots;
what can goes out a few slots at a time, and the next round comes when something has changed.

Rule: it remembers nothing that matters: any other owner can go on at any point. Every write compares the records it
was planned from and the office. Must not know how replicas are seeded or leaders hand over.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Callable, Iterable

from broker.config.settings import ClusterSettings
from broker.core.metrics import Metric
from broker.metadata.port import Metadata, MetadataRefused, MetadataUnavailable
from broker.seams.clock import Clock
from broker.seams.loop_watchdog import StepKindStats

from .controller_election import ControllerElection
from .identity import BATCH
from .keys import Keys, last_part
from .membership import Membership
from .planning.arrange import arrange
from .planning.placement import urgent
from .planning.view import Policy, Rebalance, Step, StepKind, View, health
from .slots import SlotTable
from .tasks import Tasks
from .watched import REFUSED_RETRY_S, RETRY_S, Watched

log = logging.getLogger("stampede.cluster")

PAUSE_S = 0.05
"""Between two plans, unless owners came or went: changes of slots come in crowds, from every process, one plan answers
them all, and it takes some milliseconds of a loop that others wait for."""
MASS_S = 2.0
"""How long to wait when more than half of the owners have gone, before slots are failed over. They did not all die at
once: the store was unreachable, their leases ran out, and they are about to register again."""
FIRST_S = 3.0
"""How long fewer owners than `cluster.replicas` are waited for before the first records are written."""


class Controller:
    """`held`: this owner is the controller."""

    def __init__(
        self,
        metadata: Metadata,
        keys: Keys,
        settings: ClusterSettings,
        membership: Membership,
        slots: SlotTable,
        clock: Clock,
        plans: StepKindStats | None = None,
    ) -> None:
        """plans: counts how long each takes to be made."""
        self._plans = plans
        self._metadata = metadata
        self._policy = Policy.of(settings)
        self._replace_after_s = settings.replace_after_s
        self._membership = membership
        self._slots = slots
        self._clock = clock
        self._dirty = asyncio.Event()
        """Something has changed."""
        self._pressing = asyncio.Event()
        """Who is there, or who plans: that may leave slots without a leader."""
        self._election = ControllerElection(metadata, keys, membership, self._policy, self._press)
        self._cordons = Watched(metadata, keys.cordons, lambda _: self._press())
        self._keys = keys
        self._rebalance = Watched(metadata, keys.rebalance, lambda _: self._press())
        self._gone: dict[str, float] = {}  # owner → when we first saw that it is not there
        self._mass, self._mass_since = False, -math.inf  # more than half are gone; since when, or were at last
        self._zones: dict[str, str] = {}
        self._done: Counter[StepKind] = Counter()
        self._tasks = Tasks()
        membership.listen(self._press)
        slots.listen(lambda slot, record: self._dirty.set())

    @property
    def held(self) -> bool:
        return self._election.held

    async def start(self) -> None:
        """After membership and slots have started. Raises MetadataRefused."""
        await self._cordons.start()
        await self._rebalance.start()
        await self._election.start()
        self._press()
        self._tasks.spawn(self._run(), "controller")

    async def stop(self) -> None:
        """Ends planning; the office falls free with the registration."""
        await self._tasks.close()
        await self._election.stop()
        await self._cordons.stop()
        await self._rebalance.stop()

    def view(self) -> View:
        """The cluster as this process sees it now."""
        now = self._clock.monotonic()
        wanted = self._rebalance.items.get(self._keys.rebalance)
        return View(
            self._membership.owners,
            self._slots.records,
            self._policy,
            frozenset(map(last_part, self._cordons.items)),
            frozenset(one for one, since in self._gone.items() if now - since >= self._replace_after_s),
            self._zones,
            self._membership.edges,
            Rebalance.decode(wanted.value if wanted is not None else None),
        )

    def metrics(self) -> Iterable[Metric]:
        """Of the slot table as seen here; every owner has them, so that they survive the controller."""
        view = self.view()
        now = health(view)
        yield Metric("stomp_slots_offline", "gauge", "Slots without a live leader.", [({}, now.offline)])
        yield Metric("stomp_slots_shelved", "gauge", "Slots out of service, because their leaders stopped one after "
                     "the other.", [({}, now.shelved)])  # fmt: skip
        yield Metric("stomp_slots_stalled", "gauge", "Slots with fewer in-sync replicas than needed to confirm a "
                     "durable message.", [({}, now.stalled)])  # fmt: skip
        yield Metric("stomp_slots_under_replicated", "gauge", "Slots with fewer live in-sync replicas than wanted.",
                     [({}, now.under_replicated)])  # fmt: skip
        yield Metric("stomp_slots_moving", "gauge", "Replicas being seeded and leaders handing over.",
                     [({}, now.seeding + now.transfers)])  # fmt: skip
        yield Metric("stomp_owners_unreached", "gauge", "Edges that cannot reach an owner which is up, by owner.",
                     [({"owner": owner}, len(edges)) for owner, edges in view.unreached().items()])  # fmt: skip
        yield Metric("stomp_controller", "gauge", "1 on the owner that is the controller.", [({}, int(self.held))])
        yield Metric("stomp_controller_steps_total", "counter", "Changes of slot records made by this owner as the "
                     "controller.", [({"kind": kind.value}, self._done[kind]) for kind in StepKind])  # fmt: skip

    # -- rounds ------------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        wait: float | None = None
        while True:
            await self._changed(wait)
            self._look()
            if self._metadata.rewound:
                wait = None  # nothing is planned from a table that may be of yesterday, or empty
                continue
            try:
                if not self.held and not await self._acquire():
                    wait = None
                    continue
                wait = await self._round()
            except MetadataUnavailable as error:
                log.debug("the controller waits for the metadata store: %s", error)
                wait = RETRY_S
            except MetadataRefused as error:
                log.error("the controller may not change the slot table: %s", error)
                wait = REFUSED_RETRY_S

    async def _changed(self, wait: float | None) -> None:
        """Returns after a change, or after `wait` seconds (None: only after a change)."""
        now = self._clock.monotonic()
        await _happens(self._dirty, wait)
        await _happens(self._pressing, now + PAUSE_S - self._clock.monotonic())
        self._pressing.clear()
        self._dirty.clear()

    def _press(self) -> None:
        self._pressing.set()
        self._dirty.set()

    async def _acquire(self) -> bool:
        if not await self._election.acquire():
            return False
        # Decide upon what is, not upon what a slow watch has told so far.
        await self._membership.refresh()
        await self._slots.refresh()
        self._look()
        return True

    def _look(self) -> None:
        """Who has gone, since when; the zones of everybody seen."""
        now, alive = self._clock.monotonic(), self._membership.owners
        named = {one for record in self._slots.records.values() for one in record.replicas}
        self._gone = {one: self._gone.get(one, now) for one in sorted(named) if one not in alive}
        mass = 2 * len(self._gone) > len(set(alive) | set(self._gone))
        if mass and not self._mass:
            self._mass_since = now
        self._mass = mass
        self._zones.update({one: member.zone for one, member in alive.items()})

    async def _round(self) -> float | None:
        """One plan. Returns after how many seconds to look again though nothing has changed."""
        view = self.view()
        pause = self._pause_s(view)
        if pause > 0:
            return pause
        steps = self._planned(urgent, view)
        if steps:
            await self._carry_out(steps)
            return 0.0
        steps = self._planned(arrange, view)
        await self._carry_out(steps)
        return 0.0 if steps else self._next_loss()

    def _planned(self, plan: Callable[[View], list[Step]], view: View) -> list[Step]:
        if self._plans is None:
            return plan(view)
        began = self._plans.begin()
        steps = plan(view)
        if self._plans.took(began):
            self._plans.tell(f"of {len(view.records)} slots")
        return steps

    def _pause_s(self, view: View) -> float:
        """Seconds for which nothing should be done yet."""
        now = self._clock.monotonic()
        if not view.records:
            short = len(view.eligible()) < self._policy.replicas
            return FIRST_S - (now - self._membership.up_since) if short else 0.0
        # Also for those that are still missing when most have come back.
        return self._mass_since + MASS_S - now if self._gone else 0.0

    def _next_loss(self) -> float | None:
        """Seconds until the next owner has been away for too long."""
        now = self._clock.monotonic()
        ahead = [since + self._replace_after_s - now for since in self._gone.values()]
        return min((wait for wait in ahead if wait > 0), default=None)

    async def _carry_out(self, steps: list[Step]) -> None:
        """As many transactions as it takes; where one of them comes too late, slot by slot.

        Raises MetadataUnavailable, with some of them done."""
        done: list[Step] = []
        late = False
        for start in range(0, len(steps), BATCH):
            batch = steps[start : start + BATCH]
            if await self._swap(batch):
                done += batch
            else:
                late = True
                results = await asyncio.gather(*(self._swap([step]) for step in batch), return_exceptions=True)
                done += [step for step, result in zip(batch, results, strict=True) if result is True]
                self._raise_first(results)
        self._told(done)
        if late:
            await self._slots.refresh()

    async def _swap(self, steps: list[Step]) -> bool:
        return self.held and await self._slots.swap([(step.old, step.new) for step in steps], [self._election.guard])

    @staticmethod
    def _raise_first(results: Iterable[bool | BaseException]) -> None:
        for result in results:
            if isinstance(result, BaseException):
                raise result

    def _told(self, done: list[Step]) -> None:
        self._done.update(step.kind for step in done)
        for kind, count in Counter(step.kind for step in done).items():
            some = [step for step in done if step.kind is kind]
            if count <= 3:
                log.info("%s", "; ".join(step.text() for step in some))
            else:
                log.info("%s, and %d more slots (%s)", some[0].text(), count - 1, kind.value)


async def _happens(event: asyncio.Event, seconds: float | None) -> None:
    """Waits for it, for so long at most (None: for ever)."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass
