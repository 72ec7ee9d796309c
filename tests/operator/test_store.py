"""What a store needs is looked for, and named."""

from __future__ import annotations

import pytest
from broker_operator.copies.store import missing
from broker_operator.spec.model import BucketStore, Store, VolumeStore

from .copies_world import Server

BUCKET = Store(bucket=BucketStore(url="s3://b", secret_name="keys"))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (None, "there is no Secret keys"),
        ({"accessKeyId": "eA=="}, "has no secretAccessKey;"),
        ({}, "has no accessKeyId and no secretAccessKey;"),
        ({"accessKeyId": "eA==", "secretAccessKey": "eA=="}, ""),
    ],
)
async def test_keys(data, said):
    server = Server()
    if data is not None:
        server.put("Secret", "keys", data=data)
    reason, why = await missing(server, "shop", BUCKET)
    assert said in why and bool(why) == bool(said) and reason == ("SecretMissing" if said else "")


async def test_a_claim():
    server, store = Server(), Store(volume=VolumeStore(claim_name="c"))
    assert (await missing(server, "shop", store))[0] == "ClaimMissing"
    server.put("PersistentVolumeClaim", "c")
    assert await missing(server, "shop", store) == ("", "")


async def test_a_bucket_whose_pods_are_given_their_keys_needs_none():
    assert await missing(Server(), "shop", Store(bucket=BucketStore(url="s3://b"))) == ("", "")
