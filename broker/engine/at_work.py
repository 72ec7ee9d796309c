"""What an engine is at, and what it has thrown: the engine itself says so, and no owner has to guess it afterwards.

    at_work   the command or the turn, or the name and arguments of the call; None: nothing
    fault     the last that came out of it and was no refusal: the owner asks whose an error was (Shard.thrown)

Rule: every call into an engine that does something says so (but restore_dedup, which notes one number for each record
that a follower gets). The three that each message goes through (handle, flush,
release) say it in line, all others by `stated`. Must not know who looks.
"""

# Example. The owner carries out an ACK in slot 9 that divides by zero: handle() sets at_work to the ACK, keeps the
# ZeroDivisionError as `fault`, at_work is None again, and the error goes on. Shard.thrown() gets it and asks all its
# engines whose `fault` it is: 9. By identity, so a fault that somebody has lived with is never blamed for another one.

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from broker.core.commands import Command
from broker.core.effects import Turn
from broker.core.errors import RefusedError

Work = Command | Turn | tuple[str, tuple[object, ...]]


class Stating(Protocol):
    """The engine."""

    at_work: Work | None
    fault: Exception | None


P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", bound=Stating)


def stated(call: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """The engine is at it as long as the call lasts."""

    @wraps(call)
    def stating(self: S, /, *given: P.args, **named: P.kwargs) -> R:
        # A call may make another one. A new tuple for each: two calls are never the same work.
        before, self.at_work = self.at_work, (call.__name__, given)
        try:
            return call(self, *given, **named)
        except RefusedError:
            raise
        except Exception as error:
            self.fault = error
            raise
        finally:
            self.at_work = before

    return stating


def stated_pieces(call: Callable[Concatenate[S, P], Iterator[None]]) -> Callable[Concatenate[S, P], Iterator[None]]:
    """The engine is at it in each piece, and between two of them is not."""

    @wraps(call)
    def stating(self: S, /, *given: P.args, **named: P.kwargs) -> Iterator[None]:
        work = call(self, *given, **named)

        def piece(_: S) -> bool:
            return next(work, work) is None

        piece.__name__ = call.__name__
        go_on = stated(piece)
        while go_on(self):
            yield

    return stating
