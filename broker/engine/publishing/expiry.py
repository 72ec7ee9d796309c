"""How long messages live, by the settings of their address.

Rule: a function of settings, run and time, as Artemis has it: `no_expiry` wins over all; `expiry_delay_ms` is for
messages without an expiry of their own and puts the bounds out of use; `max_expiry_delay_ms` (else `min_…`) also gives
one to those that have none. It ends once: what has expired is not given another life at its expiry address, whose
settings may be those of all addresses, or it would go round there for ever. Must not know queues.
"""

# Example. expiry_delay_ms unset, min 10 s, max 60 s; a message comes now.
#     no expiry      lives 60 s: the upper bound is also the default
#     in 90 s        60 s
#     in 5 s         10 s
#     in 30 s        30 s: as its sender says

from __future__ import annotations

from typing import Final

from broker.config.addressing import AddressSettings
from broker.core.message import Run

_LATEST: Final = 1 << 62
"""The log names moments by 64 bits; a setting may be any number."""


def apply(settings: AddressSettings, run: Run, now: int) -> None:
    """Sets `run.expires` (epoch ms, 0 = never)."""
    expires, least, most = run.expires, settings.min_expiry_delay_ms, settings.max_expiry_delay_ms
    if settings.no_expiry:
        run.expires_at(0)
    elif settings.expiry_delay_ms >= 0:
        run.expires_at(expires or min(now + settings.expiry_delay_ms, _LATEST))
    elif most >= 0 and (not expires or expires > now + most):
        run.expires_at(min(now + most, _LATEST))
    elif least >= 0 and (not expires or expires < now + least):
        run.expires_at(min(now + least, _LATEST))


def ended(run: Run) -> bool:
    """Has it expired before (redelivery.py says so in front). What a client says of that is not believed."""
    return b"_AMQ_ACTUAL_EXPIRY:" in run.lines
