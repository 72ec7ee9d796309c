"""A durable subscription outlives the edge it was made through."""

import os
import subprocess
import time

from api import ask, wait_for

namespace, acceptor = os.environ["NAMESPACE"], os.environ["ACCEPTOR"]
pods = f"api/v1/namespaces/{namespace}/pods"
mark = str(int(time.time()))
topic = f"/topic/helm-test.{mark}"
client = f"{os.environ.get('STAMPEDE_LOGIN') or 'helm'}-test-{mark}"  # of its user (edge.client_ids)
NAME = ["--client-id", client, "-H", "durable-subscription-name:restart"]


def edges():
    """Name → ready."""
    found = ask("GET", f"{pods}?labelSelector=stampede.dev%2Facceptor%3D{acceptor}")["items"]
    return {
        each["metadata"]["name"]: any(
            c["type"] == "Ready" and c["status"] == "True" for c in each["status"].get("conditions", [])
        )
        for each in found
        if not each["metadata"].get("deletionTimestamp")
    }


def receive(seconds):
    done = subprocess.run(
        ["stampede", "receive", topic, "--count", "1", "--timeout", str(seconds), *NAME],
        stdout=subprocess.PIPE,
        text=True,
    )
    return done.stdout.strip()


receive(1)  # makes the subscription
before = edges()
for name in before:
    ask("DELETE", f"{pods}/{name}")
print(f"deleted {', '.join(before)}")
wait_for("other edges ready", lambda: (now := edges()) and all(now.values()) and not set(now) & set(before), 120)
subprocess.run(["stampede", "send", topic, f"for {client}", "--persistent"], check=True)
got = wait_for("the message", lambda: receive(10), 60)
if got != f"for {client}":
    raise SystemExit(f"got {got!r}")
print("received through new edges")
