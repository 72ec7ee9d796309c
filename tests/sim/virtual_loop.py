"""A deterministic asyncio loop for many simulated processes: time jumps, nothing waits, one seed one history.

Rule: every callback belongs to a `Place` (one life of one process), found by the context it was scheduled from.
Within a place callbacks keep their order; which place runs next is drawn by the seed. A place has a clock of its own
(start and rate), may be frozen (its callbacks wait, its timers fire late) and dies with everything it still wanted.
Must not know what the processes do.
"""

from __future__ import annotations

import asyncio
import heapq
import sys
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from functools import partial
from random import Random
from typing import Any

SPIN = 10_000
"""Callbacks without any time passing: somebody spins."""


CALLBACK_S = 1e-7
"""What a callback takes: time passes between two looks at a clock, as it does everywhere."""


class Due:
    """What asyncio calls a (timer) handle: one callback. Its own class, because a history makes ten thousand of them
    and half of the cost of asyncio's is for debugging. Names as asyncio's tasks, timeouts and tests know them."""

    __slots__ = ("_args", "_callback", "_cancelled", "_context", "_when", "place")

    def __init__(self, place: Place, context: Context, callback: Any, args: tuple[Any, ...], when: float = 0.0) -> None:
        self.place = place
        self._context = context
        self._callback = callback
        self._args = args
        self._cancelled = False
        self._when = when

    def __repr__(self) -> str:
        return f"{self._callback}{self._args}"

    def cancel(self) -> None:
        self._cancelled = True
        self._callback = self._args = None  # type: ignore[assignment]

    def cancelled(self) -> bool:
        return self._cancelled

    def when(self) -> float:
        """By the clock of its place."""
        return self._when


class Stalled(AssertionError):
    """Nothing is left that could ever happen, or time stands still."""


class Place:
    """One life of one process: from its start to its crash.

    start, rate   its monotonic clock shows start + rate * virtual time.
    """

    def __init__(self, loop: VirtualLoop, name: str, start: float = 0.0, rate: float = 1.0) -> None:
        self.loop = loop
        self.name = name
        self.start = start
        self.rate = rate
        self.alive = True
        self.frozen = False
        self.ready: deque[Due] = deque()
        self.tasks: dict[int, asyncio.Task[Any]] = {}
        self.context = copy_context()
        self.context.run(HERE.set, self)

    def __repr__(self) -> str:
        return self.name

    def local(self, moment: float) -> float:
        """What its clock shows at a virtual time."""
        return self.start + self.rate * moment

    def run(self, call: Callable[..., Any], *args: Any) -> Any:
        """Calls something at once, as code of this place."""
        return self.context.copy().run(call, *args)

    def soon(self, call: Callable[..., Any], *args: Any) -> None:
        if self.alive:
            self.ready.append(Due(self, self.context, call, args))

    def at(self, moment: float, call: Callable[..., Any], *args: Any) -> Due:
        """Calls it in this place at a *virtual* time."""
        return self.loop._at(moment, self, call, args, self.context)

    def spawn(self, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        return self.loop.create_task(coroutine, context=self.context.copy())

    def die(self) -> None:
        """Nothing of it ever runs again."""
        self.alive = False
        self.ready.clear()


HERE: ContextVar[Place] = ContextVar("place")
"""The place whose code is running."""


def _ended(place: Place, number: int, _: asyncio.Task[Any]) -> None:
    place.tasks.pop(number, None)


class VirtualLoop(asyncio.AbstractEventLoop):
    """Only what asyncio's tasks, futures, timeouts and threads-as-delays need.

    on_error(place, error)   a callback of that place raised; a world that returns from it takes the blame on itself.
    """

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.now = 0.0
        self.steps = 0
        self.world = Place(self, "world")
        self.places = [self.world]
        self.failure: BaseException | None = None
        self.on_error: Callable[[Place, BaseException], None] = self._fail
        self._timers: list[tuple[float, int, Due]] = []
        self._numbers = 0
        self._closed = False

    def place(self, name: str, start: float = 0.0, rate: float = 1.0) -> Place:
        self.places = [place for place in self.places if place.alive or place.tasks]
        place = Place(self, name, start, rate)
        self.places.append(place)
        return place

    # ── what asyncio asks ──────────────────────────────────────────────────────────────────────────

    def time(self) -> float:
        return HERE.get(self.world).local(self.now)

    def call_soon(self, callback: Any, *args: Any, context: Context | None = None) -> Any:
        place = HERE.get(self.world) if context is None else context.get(HERE, self.world)
        due = Due(place, context or place.context, callback, args)
        if place.alive:
            place.ready.append(due)
        return due

    call_soon_threadsafe = call_soon

    def call_later(self, delay: float, callback: Any, *args: Any, context: Context | None = None) -> Any:
        place = HERE.get(self.world) if context is None else context.get(HERE, self.world)
        moment = self.now + delay / place.rate if delay > 0 else self.now
        return self._at(moment, place, callback, args, context or place.context)

    def call_at(self, when: float, callback: Any, *args: Any, context: Context | None = None) -> Any:
        place = HERE.get(self.world) if context is None else context.get(HERE, self.world)
        return self._at((when - place.start) / place.rate, place, callback, args, context or place.context)

    def at(self, moment: float, place: Place, callback: Any, *args: Any) -> Due:
        """By virtual time, in that place."""
        return self._at(moment, place, callback, args, place.context)

    def _at(self, moment: float, place: Place, callback: Any, args: tuple[Any, ...], context: Context) -> Due:
        due = Due(place, context, callback, args, place.start + place.rate * moment)
        self._numbers += 1
        heapq.heappush(self._timers, (moment if moment > self.now else self.now, self._numbers, due))
        return due

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(self, coro: Any, *, name: str | None = None, context: Context | None = None) -> asyncio.Task[Any]:
        if self._closed:
            coro.close()
            raise RuntimeError("the history is over")
        context = copy_context() if context is None else context
        place = context.get(HERE, self.world)
        task = asyncio.Task(coro, loop=self, name=name or f"{place.name}-task", context=context)
        self._numbers += 1
        place.tasks[self._numbers] = task
        task.add_done_callback(partial(_ended, place, self._numbers), context=context)
        return task

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> asyncio.Future[Any]:
        """A thread: the work is done whole, some time later."""
        future = self.create_future()

        def work() -> None:
            if future.cancelled():
                return
            try:
                result = func(*args)
            except Exception as error:
                future.set_exception(error)
            else:
                future.set_result(result)

        self.call_later(self.random.uniform(0.0001, 0.003), work)
        return future

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """A future or task nobody asked for its exception, or one that was thrown away unfinished."""
        self.on_error(HERE.get(self.world), context.get("exception") or AssertionError(str(context)))

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return not self._closed

    def is_closed(self) -> bool:
        return self._closed

    def _fail(self, place: Place, error: BaseException) -> None:
        if self.failure is None:
            self.failure = error

    # ── the crank ──────────────────────────────────────────────────────────────────────────────────

    @contextmanager
    def running(self) -> Generator[None]:
        """asyncio's functions see this loop."""
        hooks = sys.get_asyncgen_hooks()
        asyncio._set_running_loop(self)
        sys.set_asyncgen_hooks(None, self._abandoned)
        try:
            yield
        finally:
            self._close()
            asyncio._set_running_loop(None)
            sys.set_asyncgen_hooks(*hooks)

    def _abandoned(self, generator: Any) -> None:
        if not self._closed and HERE.get(self.world).alive:
            self.create_task(generator.aclose())

    def run_until(self, done: Callable[[], bool], limit: float) -> bool:
        """Turns the crank until done(), at most `limit` virtual seconds. False: it was not done by then.

        Raises Stalled, and whatever a callback raised (unless on_error took care of it)."""
        end = self.now + limit
        while not done():
            if not self.step(end):
                if not self._timers:
                    raise Stalled(f"nothing is left to happen at {self.now:.4f}")
                return False
        return True

    def run_for(self, seconds: float) -> None:
        end = self.now + seconds
        while self.step(end):
            pass

    def step(self, end: float) -> bool:
        """One callback, or the jump to the next moment anything happens. False: that is behind `end`."""
        if self.failure is not None:
            raise self.failure
        able = [place for place in self.places if place.ready and not place.frozen]
        if able:
            self._spun += 1
            if self._spun > SPIN:
                raise Stalled(f"time stands still at {self.now:.4f}: {[(p, p.ready[0]) for p in able]}")
            place = able[0] if len(able) == 1 else self.random.choice(able)
            due = place.ready.popleft()
            if not due._cancelled:
                self.steps += 1
                self.now += CALLBACK_S
                try:
                    due._context.run(due._callback, *due._args)
                except (KeyboardInterrupt, SystemExit):
                    raise
                except BaseException as error:
                    self.on_error(place, error)
            return True
        self._spun = 0
        return self._jump(end)

    _spun = 0

    def _jump(self, end: float) -> bool:
        timers = self._timers
        while timers and timers[0][2]._cancelled:
            heapq.heappop(timers)
        if not timers or (moment := timers[0][0]) > end:
            self.now = end
            return False
        self.now = moment = max(moment, self.now)
        while timers and timers[0][0] <= moment:
            due = heapq.heappop(timers)[2]
            if due.place.alive and not due._cancelled:
                due.place.ready.append(due)
        return True

    def _close(self) -> None:
        """Throws away what still runs, without a word."""
        self._closed = True
        self._timers.clear()
        for place in self.places:
            place.die()
        for place in self.places:
            for task in place.tasks.values():
                task._log_destroy_pending = False
                if not task.done():
                    try:
                        task.get_coro().close()
                    except BaseException:  # what an ended process would still have liked to say
                        pass
            place.tasks.clear()
