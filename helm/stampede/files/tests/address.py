"""An Address is applied: it is Programmed in every pod, does what it says, and is gone when it is deleted."""

import os
import subprocess
import time

from api import GROUP, ask, wait_for

namespace, broker = os.environ["NAMESPACE"], os.environ["BROKER"]
name = f"helm-test-{os.environ['HOSTNAME'].rpartition('-')[2]}-{int(time.time())}"
path = f"{GROUP}/namespaces/{namespace}/addresses"
ask(
    "POST",
    path,
    {
        "apiVersion": "stampede.dev/v1beta1",
        "kind": "Address",
        "metadata": {"name": name},
        "spec": {
            "brokerRef": {"name": broker},
            "name": name,
            "settings": {"lastValue": True},
            "deletionPolicy": "Delete",
        },
    },
)
began = time.monotonic()


def programmed():
    conditions = (ask("GET", f"{path}/{name}").get("status") or {}).get("conditions", [])
    return any(each["type"] == "Programmed" and each["status"] == "True" for each in conditions)


try:
    wait_for(f"Address {name} programmed", programmed, 30)
    print(f"programmed after {time.monotonic() - began:.2f} s")
    queue = f"/queue/{name}"
    for body in ("old", "new"):
        subprocess.run(["stampede", "send", queue, body, "-H", "_AMQ_LVQ_NAME:key"], check=True)
    got = subprocess.run(
        ["stampede", "receive", queue, "--count", "1", "--timeout", "20"], check=True, stdout=subprocess.PIPE, text=True
    ).stdout.strip()
    if got != "new":
        raise SystemExit(f"the address does not do what it says: {got!r} came first of a last-value queue")
finally:
    ask("DELETE", f"{path}/{name}")
wait_for(f"Address {name} gone", lambda: ask("GET", f"{path}/{name}") is None, 30)
print("in use, and gone again")
