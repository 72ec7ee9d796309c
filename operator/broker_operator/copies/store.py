"""What a backup or a restore needs beside its broker: the claim or the keys of its store.

Rule: looked at before a Job is made, because a pod that waits for what is not there says so to nobody.
"""

from __future__ import annotations

from ..kube.kube import Kube
from ..spec.model import Store


async def missing(kube: Kube, namespace: str, store: Store) -> tuple[str, str]:
    """(reason, what is not there and what to do); ("", ""): all is. Raises KubeError."""
    if store.volume is not None:
        name = store.volume.claim_name
        if await kube.get("v1", "PersistentVolumeClaim", namespace, name) is None:
            return "ClaimMissing", f"there is no PersistentVolumeClaim {name} (store.volume.claimName); create it"
    if store.bucket is not None and (name := store.bucket.secret_name):
        secret = await kube.get("v1", "Secret", namespace, name)
        if secret is None:
            return (
                "SecretMissing",
                f"there is no Secret {name} (store.bucket.secretName); create it, or correct the name",
            )
        lacks = [key for key in ("accessKeyId", "secretAccessKey") if not (secret.get("data") or {}).get(key)]
        if lacks:
            return "SecretMissing", f"Secret {name} has no {' and no '.join(lacks)}; put it there"
    return "", ""
