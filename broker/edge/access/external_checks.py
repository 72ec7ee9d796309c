"""Checks of logins that the table of users does not decide: signatures of tokens, questions to directories.

As for passcodes (login_queue.py): a bounded number of threads, addresses take turns, wrong ones earn waits.

Rule: whatever is checked is checked in a thread; the loop only waits. Keeps no secret: what is remembered of a login
that was right is an HMAC under a key of this process.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
from collections.abc import Awaitable, Callable, Iterator
from math import inf

from broker.core.errors import Code, RefusedError
from broker.seams.clock import Clock
from broker.seams.entropy import token
from broker.seams.threads import WaitingThreads

from ..transport.channel import Channel
from ..transport.fair_places import network
from ..transport.tcp import peer_host
from .auth import MAX_REMEMBERED, MAX_WAITING, Principal, refusal
from .login_queue import Check, LoginQueue, Penalties
from .users import MAX_NAME

log = logging.getLogger("stampede.edge")


class ExternalChecks:
    """Of one kind. A right login is remembered until it ends by itself (Principal.until)."""

    def __init__(
        self, clock: Clock, threads: int, kind: str, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        self._clock = clock
        self._kind = kind
        self._penalties = Penalties(clock, sleep)
        self._turns = LoginQueue(threads, MAX_WAITING, self._penalties.blocked, self._penalties.suspect)
        self._threads = WaitingThreads(threads, kind)
        self._key = token(32).encode()
        self._right: dict[bytes, tuple[Principal, float]] = {}
        """And until when that is not asked again."""

    def known(self, *secret: str) -> Principal | None:
        """Whose login this is, if that was found a moment ago."""
        found = self._right.get(self._digest(secret))
        return found[0] if found is not None and found[1] > self._clock.monotonic() else None

    def marks(self) -> Iterator[int]:
        """Of the logins that are remembered (Principal.mark)."""
        now = self._clock.monotonic()
        return (principal.mark for principal, until in self._right.values() if until > now)

    def forget(self) -> None:
        """What was right may not be so any more."""
        self._right.clear()

    async def run(
        self,
        name: str,
        channel: Channel,
        secret: tuple[str, ...],
        check: Callable[[], Principal | str],
        keep_s: float = inf,
    ) -> Principal:
        """check: in a thread; a principal, or why it is none, for the log (RefusedError: it could not be found out,
        which earns no wait). name: who it is said to be. keep_s: how long a right one is remembered at most. Raises
        RefusedError(LOGIN_FAILED)."""
        pair = network(peer_host(channel.peer)), name[:MAX_NAME]
        paid = await self._penalties.serve(pair)
        turn = Check(pair[1])
        try:
            self._turns.wait(turn, pair[0], self._penalties.proven(pair), paid)
            await turn.granted
            # Of a fleet with one login the first has been judged meanwhile.
            found: Principal | str | None = self.known(*secret)
            if found is None:
                found = await self._threads.run(check)
        except RefusedError:
            raise
        except Exception as error:
            # What was not thought of is nobody's login; who asked must not wait for ever for an answer.
            found = type(error).__name__
        finally:
            self._turns.over(turn)
        if isinstance(found, str):
            self._penalties.failed(pair)
            log.info("%s #%d: login by %s failed: %s", channel.peer, channel.id, self._kind, found)
            raise RefusedError(Code.LOGIN_FAILED, refusal(name))
        self._penalties.succeeded(pair)
        self._remember(secret, found, keep_s)
        return found

    def close(self) -> None:
        """Ends its threads; does not wait for them."""
        self._turns.close()
        self._threads.close()

    def _remember(self, secret: tuple[str, ...], principal: Principal, keep_s: float) -> None:
        if len(self._right) >= MAX_REMEMBERED:
            del self._right[next(iter(self._right))]
        until = min(principal.until or inf, self._clock.monotonic() + keep_s)
        self._right[self._digest(secret)] = principal, until

    def _digest(self, secret: tuple[str, ...]) -> bytes:
        # Lengths keep ("ab", "c") and ("a", "bc") apart.
        return hmac.digest(self._key, b"".join(b"%d:%b" % (len(s), s.encode()) for s in secret), "sha256")
