"""Settings of one exchange, for acceptors of RabbitMQ's dialect.

Rule: as settings.py: plain frozen dataclasses, nothing read from anywhere.
"""

from __future__ import annotations

from dataclasses import dataclass

from .fields import setting


@dataclass(frozen=True, slots=True)
class ExchangeSettings:
    """An exchange that exists from the start, beside amq.direct, amq.fanout, amq.topic, amq.headers and amq.match.

    Clients name it as /exchange/NAME/KEY. What is bound to it from the start are diverts of its addresses:
    $exchange/NAME/KEY (direct), $exchange/NAME (fanout, headers), $exchange/NAME.KEY (topic). Read at start only."""

    type: str = setting("direct", "direct|fanout|topic|headers", "how keys are matched")
