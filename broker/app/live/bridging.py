"""How a bridge comes into its own broker: as a client without a socket.

Rule: only wiring.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.edge.access.auth import ANONYMOUS
from broker.edge.edge import Edge
from broker.edge.transport.in_process_channel import InProcessChannel

if TYPE_CHECKING:
    from broker.bridge.ends import Inside
    from broker.client.transport import Transport


def inside_of(edge: Edge) -> Inside:
    """Connections to this edge."""

    def opened(bridge: str, user: str) -> Transport:
        return InProcessChannel(edge, bridge, user or ANONYMOUS.name).pipe

    return opened
