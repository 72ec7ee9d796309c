"""Are messages traced? Rule: what that takes is imported only where they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.config.settings import Settings
from broker.seams.clock import SystemClock

if TYPE_CHECKING:
    from broker.tracing.tracing import Tracing


def traces(settings: Settings, kind: str, id: str, clock: SystemClock) -> Tracing | None:
    """None: they are not. Raises ConfigError."""
    if not settings.tracing.endpoint:
        return None
    from broker.tracing.tracing import Tracing

    return Tracing(settings.tracing, kind, id, clock)
