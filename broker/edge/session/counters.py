"""Numbers of an edge. Rule: plain ints, counted per batch; turned into metrics only when asked."""

from __future__ import annotations

from broker.core.metrics import Metric
from broker.core.reasons import Reason


class EdgeCounters:
    """Everything an edge counts."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "closed",
        "connections",
        "deliveries",
        "denied",
        "errors",
        "frames_in",
        "login_failures",
        "logins",
        "opened",
        "receipts",
        "refused",
    )  # fmt: skip

    def __init__(self) -> None:
        self.opened: dict[str, int] = {}
        self.connections: dict[str, int] = {}
        self.closed: dict[Reason, int] = {}
        self.errors: dict[str, int] = {}
        self.denied: dict[str, int] = {}
        self.frames_in = 0
        self.receipts = 0
        self.deliveries = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.logins = 0
        self.login_failures = 0
        self.refused = 0

    def came(self) -> None:
        """A frame that is not one of a group."""
        self.frames_in += 1

    def left(self, nbytes: int) -> None:
        """A piece of a large body has gone to a socket."""
        self.bytes_out += nbytes

    def refuse(self) -> None:
        """An owner did not carry out a request."""
        self.refused += 1

    def login(self, accepted: bool) -> None:
        """A login was decided."""
        if accepted:
            self.logins += 1
        else:
            self.login_failures += 1

    def deny(self, operation: str) -> None:
        """A user was not allowed to do that."""
        self.denied[operation] = self.denied.get(operation, 0) + 1

    def error(self, name: str) -> None:
        """A client was told of that error."""
        self.errors[name] = self.errors.get(name, 0) + 1

    def metrics(self, subscriptions: int) -> list[Metric]:
        """Families of this edge."""

        def one(name: str, kind: str, text: str, value: float) -> Metric:
            return Metric(name, kind, text, [({}, float(value))])  # type: ignore[arg-type]

        return [
            Metric(
                "stomp_connections", "gauge", "Open client connections.",
                [({"transport": t}, float(n)) for t, n in self.connections.items()],
            ),
            Metric(
                "stomp_connections_opened_total", "counter", "Client connections accepted.",
                [({"transport": t}, float(n)) for t, n in self.opened.items()],
            ),
            Metric(
                "stomp_connections_closed_total", "counter", "Client connections ended, by reason.",
                [({"reason": r.value}, float(n)) for r, n in self.closed.items()],
            ),
            Metric(
                "stomp_errors_total", "counter", "ERROR frames sent, by error code.",
                [({"code": c}, float(n)) for c, n in self.errors.items()],
            ),
            Metric(
                "stomp_denied_total", "counter",
                "Requests that the user has no permission for (edge.permissions), by operation.",
                [({"operation": o}, float(n)) for o, n in self.denied.items()],
            ),
            one("stomp_subscriptions", "gauge", "Open subscriptions.", subscriptions),
            one("stomp_frames_received_total", "counter", "Frames received.", self.frames_in),
            one("stomp_receipts_total", "counter", "RECEIPT frames sent.", self.receipts),
            one("stomp_deliveries_total", "counter", "MESSAGE frames sent.", self.deliveries),
            one("stomp_bytes_received_total", "counter", "Bytes read from clients.", self.bytes_in),
            one("stomp_bytes_sent_total", "counter", "Bytes written to clients.", self.bytes_out),
            one("stomp_logins_total", "counter", "Successful logins.", self.logins),
            one("stomp_login_failures_total", "counter", "Failed logins.", self.login_failures),
        ]  # fmt: skip
