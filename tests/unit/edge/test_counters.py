"""Numbers of an edge: each thing is counted under one name, and told as that."""

from __future__ import annotations

from broker.core.reasons import Reason
from broker.edge.session.counters import EdgeCounters


def told(counters: EdgeCounters, subscriptions: int = 0) -> dict[str, list[tuple[dict[str, str], float]]]:
    return {metric.name: list(metric.samples) for metric in counters.metrics(subscriptions)}


def test_what_is_counted_is_told_under_its_own_name_alone():
    counters = EdgeCounters()
    before = told(counters)
    reason = next(iter(Reason))
    counters.came()
    counters.left(7)
    counters.login(True)
    counters.login(True)
    counters.login(False)
    counters.deny("send")
    counters.deny("send")
    counters.error("BAD_HEADER")
    counters.closed[reason] = 3
    after = told(counters, 4)
    assert {name: after[name] for name in after if after[name] != before[name]} == {
        "stomp_frames_received_total": [({}, 1.0)],
        "stomp_bytes_sent_total": [({}, 7.0)],
        "stomp_logins_total": [({}, 2.0)],
        "stomp_login_failures_total": [({}, 1.0)],
        "stomp_denied_total": [({"operation": "send"}, 2.0)],
        "stomp_errors_total": [({"code": "BAD_HEADER"}, 1.0)],
        "stomp_connections_closed_total": [({"reason": reason.value}, 3.0)],
        "stomp_subscriptions": [({}, 4.0)],
    }
    counters.refuse()
    assert counters.refused == 1
