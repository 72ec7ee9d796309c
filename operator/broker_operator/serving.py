"""The operator's own port: health and numbers.

Rule: reads, never steers. Healthy: the event loop turns. Ready: working, or standing by for the operator that works.
"""

from __future__ import annotations

from collections.abc import Callable

from aiohttp import web

from .process import Operator

Current = Callable[[], tuple[Operator | None, bool]]
"""(the operator of this process, whether it holds the lease)"""


class Server:
    """HTTP on `port`."""

    def __init__(self, port: int, current: Current) -> None:
        self._port = port
        self._current = current
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        """Raises OSError when the port is taken."""
        app = web.Application()
        routes = (("/healthz", self._healthz), ("/readyz", self._readyz), ("/metrics", self._metrics))
        app.add_routes([web.get(path, handler) for path, handler in routes])
        self._runner = web.AppRunner(app, access_log=None, handle_signals=False)
        await self._runner.setup()
        await web.TCPSite(self._runner, None, self._port).start()

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _healthz(self, _: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _readyz(self, _: web.Request) -> web.Response:
        operator, leads = self._current()
        if not leads:
            return web.Response(text="standing by\n")
        ready = operator is not None and operator.ready
        return web.Response(text="ready\n" if ready else "reading\n", status=200 if ready else 503)

    async def _metrics(self, _: web.Request) -> web.Response:
        operator, leads = self._current()
        return web.Response(text=exposition(operator, leads), content_type="text/plain")


def exposition(operator: Operator | None, leads: bool) -> str:
    """Numbers in Prometheus' text form."""
    lines = [
        "# HELP stampede_operator_leader Whether this process holds the lease.",
        "# TYPE stampede_operator_leader gauge",
        f"stampede_operator_leader {int(leads)}",
    ]
    if operator is None:
        return "\n".join(lines) + "\n"
    lines += ["# HELP stampede_operator_reconcile_total Resources that were looked at.",
              "# TYPE stampede_operator_reconcile_total counter"]  # fmt: skip
    for (kind, result), count in sorted(operator.queue.done.items()):
        lines.append(f'stampede_operator_reconcile_total{{kind="{kind}",result="{result}"}} {count}')
    lines += ["# HELP stampede_operator_api_writes_total Changes asked of the API server.",
              "# TYPE stampede_operator_api_writes_total counter"]  # fmt: skip
    for kind, count in sorted(operator.kube.writes.items()):
        lines.append(f'stampede_operator_api_writes_total{{kind="{kind}"}} {count}')
    drifts = operator.applier.drifts + operator.etcd_reconciler.drifts
    expiries = operator.workloads.certificates.expiries if operator.workloads is not None else {}
    if expiries:
        lines += ["# HELP stampede_operator_certificate_expiry_seconds End of the first certificate, since the epoch.",
                  "# TYPE stampede_operator_certificate_expiry_seconds gauge"]  # fmt: skip
    for id, ends in sorted(expiries.items()):
        labels = f'resource_kind="{id.kind}",resource_namespace="{id.namespace}",resource_name="{id.name}"'
        lines.append(f"stampede_operator_certificate_expiry_seconds{{{labels}}} {ends:.0f}")
    lines += _backups(operator)
    single = (
        ("workqueue_depth", "gauge", "Resources that wait to be looked at.", operator.queue.depth),
        ("resources", "gauge", "Custom resources that are known.", len(operator.cache.resources)),
        ("drift_corrected_total", "counter", "Foreign changes undone.", drifts),
        ("clusters_unknown", "gauge", "Brokers whose etcd does not answer.",
         sum(not cluster.known for cluster in operator.cache.clusters.values())),
    )  # fmt: skip
    for name, kind, help, value in single:
        lines += [f"# HELP stampede_operator_{name} {help}", f"# TYPE stampede_operator_{name} {kind}"]
        lines.append(f"stampede_operator_{name} {value}")
    return "\n".join(lines) + "\n"


def _backups(operator: Operator) -> list[str]:
    found = operator.backups.states if operator.backups is not None else {}
    if not found:
        return []
    labels = {id: f'resource_namespace="{id.namespace}",resource_name="{id.name}"' for id in sorted(found)}
    lines = ["# HELP stampede_operator_backup_failed Whether the last run of a StompBackup failed, or none can begin.",
             "# TYPE stampede_operator_backup_failed gauge"]  # fmt: skip
    lines += [f"stampede_operator_backup_failed{{{text}}} {int(found[id].failed)}" for id, text in labels.items()]
    taken = [f"stampede_operator_backup_taken_seconds{{{text}}} {found[id].taken:.0f}"
             for id, text in labels.items() if found[id].taken]  # fmt: skip
    if taken:
        lines += ["# HELP stampede_operator_backup_taken_seconds The time that the last complete backup stands for.",
                  "# TYPE stampede_operator_backup_taken_seconds gauge", *taken]  # fmt: skip
    return lines
