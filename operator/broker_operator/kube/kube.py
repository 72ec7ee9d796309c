"""The Kubernetes API, as far as the operator needs it: read, list, watch, server-side apply, status, delete.

Rule: one HTTP request per call, no cache, no decision. Every write is counted, because the steady state has none.
kopf knows where the server is and who we are (login()); the rest of HTTP is here because kopf has no server-side apply,
and watches whole kinds only (docs/adr/0006-kubernetes.md: one way of watching).
"""

from __future__ import annotations

import json
import ssl
import tempfile
from base64 import b64decode
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from typing import Any

import aiohttp
import kopf

from broker.core.errors import BrokerError
from broker.seams.client_tls import client_context
from broker.seams.files import read_whole

from ..spec.model import Table
from ..spec.names import FIELD_MANAGER, PLURALS

_PLURALS = {
    **PLURALS,
    "StatefulSet": "statefulsets",
    "Deployment": "deployments",
    "Pod": "pods",
    "Service": "services",
    "ConfigMap": "configmaps",
    "ServiceAccount": "serviceaccounts",
    "Secret": "secrets",
    "Namespace": "namespaces",
    "Node": "nodes",
    "PersistentVolumeClaim": "persistentvolumeclaims",
    "PodDisruptionBudget": "poddisruptionbudgets",
    "HorizontalPodAutoscaler": "horizontalpodautoscalers",
    "NetworkPolicy": "networkpolicies",
    "TCPRoute": "tcproutes",
    "TLSRoute": "tlsroutes",
    "Job": "jobs",
    "Lease": "leases",
    "Event": "events",
}
_KINDS = {plural: kind for kind, plural in _PLURALS.items()}
METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
METADATA_EVENTS = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
TOKEN_FILE = "/var/run/secrets/kubernetes.io/serviceaccount/token"
TIMEOUT = aiohttp.ClientTimeout(total=30, connect=10)
WATCH_S = 300
PAGE = 250
"""Objects per page of a list: a thousand at once would leave their memory behind."""


class KubeError(BrokerError):
    """The API server said no, or gave no answer. status: of HTTP, 0 = no answer."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status

    @property
    def failed(self) -> bool:
        """It says that it broke over this request. Some webhooks refuse like that, so people are told; it is tried
        again as if nothing had been said."""
        return self.status == 500

    @property
    def refused(self) -> bool:
        """It understood, and will say no again until something is changed: rules, rights, a quota."""
        return self.status in (400, 403, 422)


def login() -> kopf.ConnectionInfo:
    """In a pod its service account, else KUBECONFIG. Raises KubeError when there is neither."""
    settings = kopf.OperatorSettings()
    found = kopf.login_with_service_account(settings=settings) or kopf.login_with_kubeconfig(settings=settings)
    if found is None:
        raise KubeError(0, "There is no Kubernetes to talk to: run in a pod, or set KUBECONFIG.")
    return found


def path_of(api_version: str, kind: str, namespace: str = "", name: str = "") -> str:
    """namespace "": all of them."""
    root = "/api/v1" if api_version == "v1" else f"/apis/{api_version}"
    middle = f"/namespaces/{namespace}" if namespace else ""
    return f"{root}{middle}/{_PLURALS[kind]}" + (f"/{name}" if name else "")


class Kube:
    """One API server. `writes`: kind of object → how often one was changed there."""

    def __init__(self, connection: kopf.ConnectionInfo) -> None:
        self._server = connection.server.rstrip("/")
        self._token = connection.token
        self._refresh_token = connection.token is not None and not connection.certificate_data
        self._session = aiohttp.ClientSession(
            # Each watch has a connection for itself, sixteen of a namespace: a bound would leave none to the lease.
            connector=aiohttp.TCPConnector(ssl=_tls(connection), limit=0),
            timeout=TIMEOUT,
        )
        self.writes: Counter[str] = Counter()

    async def close(self) -> None:
        await self._session.close()

    async def get(self, api_version: str, kind: str, namespace: str, name: str) -> Table | None:
        """None: there is none. Raises KubeError."""
        try:
            return await self._ask("GET", path_of(api_version, kind, namespace, name))
        except KubeError as error:
            if error.status == 404:
                return None
            raise

    async def read_list(
        self, api_version: str, kind: str, namespace: str, selector: str = "", *, meta: bool = False
    ) -> Table:
        """The list object, read in pages. meta: metadata of the items only. Raises KubeError."""
        params = {"limit": str(PAGE), **({"labelSelector": selector} if selector else {})}
        headers = {"Accept": METADATA_ONLY} if meta else {}
        items: list[Table] = []
        while True:
            answer = await self._ask("GET", path_of(api_version, kind, namespace), params=params, headers=headers)
            for item in answer["items"] or ():
                # Half of the text, and nobody here reads it.
                item["metadata"].pop("managedFields", None)
                items.append(item)
            if not answer["metadata"].get("continue"):
                return {**answer, "items": items}
            params["continue"] = answer["metadata"]["continue"]

    async def apply(self, body: Table) -> Table:
        """Server-side apply: our fields become as in `body`, those no longer named go. The object as it is then."""
        meta = body["metadata"]
        path = path_of(body["apiVersion"], body["kind"], meta["namespace"], meta["name"])
        params = {"fieldManager": FIELD_MANAGER, "force": "true"}
        return await self._write("PATCH", path, body, "application/apply-patch+yaml", params)

    async def set_status(self, resource: Table, status: Table) -> Table:
        """Replaces the status if nobody changed the resource meanwhile. Raises KubeError (404, 409)."""
        meta = resource["metadata"]
        path = path_of(resource["apiVersion"], resource["kind"], meta["namespace"], meta["name"]) + "/status"
        patch = [
            {"op": "test", "path": "/metadata/uid", "value": meta["uid"]},
            {"op": "add", "path": "/status", "value": status},
        ]
        return await self._write("PATCH", path, patch, "application/json-patch+json")

    async def merge(self, api_version: str, kind: str, namespace: str, name: str, patch: Table) -> Table:
        path = path_of(api_version, kind, namespace, name)
        return await self._write("PATCH", path, patch, "application/merge-patch+json")

    async def annotate(self, resource: Table, key: str, value: str) -> Table:
        """Writes one annotation if nobody changed the resource meanwhile. Raises KubeError (404, 409)."""
        meta = resource["metadata"]
        patch = {
            "metadata": {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"], "annotations": {key: value}}
        }
        return await self.merge(resource["apiVersion"], resource["kind"], meta["namespace"], meta["name"], patch)

    async def create(self, body: Table) -> Table:
        """Raises KubeError (409: it exists)."""
        path = path_of(body["apiVersion"], body["kind"], body["metadata"]["namespace"])
        return await self._write("POST", path, body, "application/json")

    async def replace(self, body: Table) -> Table:
        """Raises KubeError (409: another writer was first)."""
        meta = body["metadata"]
        path = path_of(body["apiVersion"], body["kind"], meta["namespace"], meta["name"])
        return await self._write("PUT", path, body, "application/json")

    async def delete(self, body: Table, *, alone: bool = False) -> None:
        """Gone already is no error. alone: what it controls stays, and is nobody's."""
        meta = body["metadata"]
        path = path_of(body["apiVersion"], body["kind"], meta["namespace"], meta["name"])
        options = {"preconditions": {"uid": meta["uid"]}, "propagationPolicy": "Orphan" if alone else "Background"}
        try:
            await self._write("DELETE", path, options, "application/json")
        except KubeError as error:
            if error.status not in (404, 409):
                raise

    async def watch(
        self, api_version: str, kind: str, namespace: str, selector: str, revision: str, *, meta: bool = False
    ) -> AsyncIterator[Table]:
        """Events from `revision` on, until the server ends the watch. Raises KubeError (410: read the list anew)."""
        params = {
            "watch": "1", "resourceVersion": revision, "allowWatchBookmarks": "true", "timeoutSeconds": str(WATCH_S),
        }  # fmt: skip
        if selector:
            params["labelSelector"] = selector
        headers = self._headers({"Accept": METADATA_EVENTS} if meta else {})
        timeout = aiohttp.ClientTimeout(total=None, connect=10, sock_read=WATCH_S + 30)
        url = self._server + path_of(api_version, kind, namespace)
        try:
            async with self._session.get(url, params=params, headers=headers, timeout=timeout) as answer:
                if answer.status >= 400:
                    raise KubeError(answer.status, await answer.text())
                rest = b""
                async for chunk in answer.content.iter_any():
                    *lines, rest = (rest + chunk).split(b"\n")
                    for line in lines:
                        if line:
                            yield _event(line)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise KubeError(0, f"watch of {kind}: {error!r}") from None

    async def served(self) -> dict[str, list[str]]:
        """API group → versions that are served."""
        answer = await self._ask("GET", "/apis")
        return {group["name"]: [one["version"] for one in group["versions"]] for group in answer["groups"]}

    async def serves(self, api_version: str, kind: str) -> bool:
        try:
            answer = await self._ask("GET", f"/apis/{api_version}")
        except KubeError:
            return False
        return any(one["kind"] == kind for one in answer["resources"])

    # ── inside ───────────────────────────────────────────────────────────────────────────────────

    async def _write(
        self, method: str, path: str, body: Any, content_type: str, params: Mapping[str, str] | None = None
    ) -> Table:
        self.writes[_kind_in(path)] += 1
        return await self._ask(method, path, body, params=params, headers={"Content-Type": content_type})

    async def _ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Table:
        data = json.dumps(body).encode() if body is not None else None
        try:
            async with self._session.request(
                method, self._server + path, data=data, params=params, headers=self._headers(headers or {})
            ) as answer:
                text = await answer.text()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise KubeError(0, f"{method} {path}: {error!r}") from None
        if answer.status >= 400:
            raise KubeError(answer.status, f"{method} {path}: {_reason(text)}")
        found: Table = json.loads(text) if text else {}
        return found

    def _headers(self, more: Mapping[str, str]) -> dict[str, str]:
        headers = dict(more)
        if self._refresh_token:
            try:
                self._token = read_whole(TOKEN_FILE).decode().strip()  # renewed by the kubelet every hour
            except OSError:
                self._refresh_token = False
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        return headers


def _kind_in(path: str) -> str:
    """The kind of the object that a path names, for counting."""
    parts = path.split("/")
    plural = next((part for part in reversed(parts) if part in _KINDS), "")
    return _KINDS.get(plural, "other") + ("/status" if parts[-1] == "status" else "")


def _event(line: bytes) -> Table:
    event: Table = json.loads(line)
    if event["type"] == "ERROR":
        raise KubeError(int(event["object"].get("code", 0)), str(event["object"].get("message", "")))
    return event


def _reason(text: str) -> str:
    try:
        return str(json.loads(text).get("message", text))
    except ValueError:
        return text[:500]


def _tls(connection: kopf.ConnectionInfo) -> ssl.SSLContext | bool:
    if not connection.server.startswith("https"):
        return True
    ca_data = b64decode(connection.ca_data).decode() if connection.ca_data else None
    ca_path = str(connection.ca_path) if connection.ca_path else None
    context = client_context(ca_path, ca_data)
    if connection.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if connection.certificate_path and connection.private_key_path:
        context.load_cert_chain(str(connection.certificate_path), str(connection.private_key_path))
    elif connection.certificate_data and connection.private_key_data:
        # OpenSSL reads files only; they are gone as soon as they are read.
        with tempfile.NamedTemporaryFile() as file:
            file.write(b64decode(connection.certificate_data) + b"\n" + b64decode(connection.private_key_data))
            file.flush()
            context.load_cert_chain(file.name)
    return context
