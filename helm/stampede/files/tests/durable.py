"""A durable subscription keeps what is sent while its client is away; with REPLACE_EDGES it also outlives all edges.

Without that no pod is touched, and in the end the subscription is gone again.
"""

import asyncio
import os
import subprocess
import time

from api import ask, wait_for

from broker.client import connect

namespace, acceptor = os.environ.get("NAMESPACE", ""), os.environ.get("ACCEPTOR", "")
pods = f"api/v1/namespaces/{namespace}/pods"
login = os.environ.get("STAMPEDE_LOGIN", "")
mark = f"{int(time.time())}-{os.getpid()}"
topic = f"/topic/helm-test.{mark}"
client = f"{login or 'helm'}-test-{mark}"  # of its user (edge.client_ids)
NAME = {"durable-subscription-name": "restart"}


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
    headers = [part for key, value in NAME.items() for part in ("-H", f"{key}:{value}")]
    done = subprocess.run(
        ["stampede", "receive", topic, "--count", "1", "--timeout", str(seconds), "--client-id", client, *headers],
        stdout=subprocess.PIPE,
        text=True,
    )
    return done.stdout.strip()


def replace_edges():
    before = edges()
    for name in before:
        ask("DELETE", f"{pods}/{name}")
    print(f"deleted {', '.join(before)}")
    wait_for("other edges ready", lambda: (now := edges()) and all(now.values()) and not set(now) & set(before), 120)


async def forget():
    """Deletes the subscription with whatever is in it."""
    lines = {"login": login, "passcode": os.environ.get("STAMPEDE_PASSCODE", "")} if login else {}
    async with (
        connect(os.environ["STAMPEDE_URL"], client_id=client, headers=lines) as connection,
        connection.subscribe(topic, headers=NAME) as subscription,
    ):
        await subscription.unsubscribe(NAME)


receive(1)  # makes the subscription
try:
    if os.environ.get("REPLACE_EDGES") == "true":
        replace_edges()
    subprocess.run(["stampede", "send", topic, f"for {client}", "--persistent"], check=True)
    got = wait_for("the message", lambda: receive(10), 60)
finally:
    asyncio.run(forget())
if got != f"for {client}":
    raise SystemExit(f"got {got!r}")
print("received what was sent while nobody was there")
