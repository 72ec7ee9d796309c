"""The Kubernetes API with the pod's own token: as much of it as the tests need."""

from __future__ import annotations

import json
import os
import time
import urllib.error
import urllib.request

from broker.seams.client_tls import client_context

ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
GROUP = "apis/stampede.dev/v1beta1"


def ask(method, path, body=None):
    """The answer as JSON; None: there is no such thing."""
    with open(f"{ACCOUNT}/token") as file:
        token = file.read()
    host = os.environ["KUBERNETES_SERVICE_HOST"]
    url = f"https://[{host}]" if ":" in host else f"https://{host}"
    request = urllib.request.Request(
        f"{url}:{os.environ['KUBERNETES_SERVICE_PORT']}/{path}",
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=10, context=client_context(f"{ACCOUNT}/ca.crt")) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return None
        raise SystemExit(f"{method} {path}: {error.code} {error.read().decode()[:500]}") from None


def wait_for(what, found, seconds=60):
    """What `found()` returns once it is true."""
    end = time.monotonic() + seconds
    while True:
        answer = found()
        if answer:
            return answer
        if time.monotonic() > end:
            raise SystemExit(f"{what} did not happen within {seconds} s")
        time.sleep(0.2)
