"""An archive in S3, by Hadoop's own S3A: the commit is a PUT on the condition that there is no such object."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.harness import Broker, free_ports, listens, until

from . import s3
from .host import Hosts
from .test_spark_archive import send, take
from .test_spark_sending import taken

WHY = s3.missing()
pytestmark = [
    pytest.mark.timeout(900),  # Spark starts dozens of processes, and other tests run beside it
    pytest.mark.skipif(bool(WHY), reason=f"no S3: {WHY}"),
]


def bodies(endpoint: str, paths: list[str]) -> list[bytes]:
    """As a reader that knows nothing of Spark has them."""
    import pandas
    from pyarrow.fs import S3FileSystem

    place = S3FileSystem(access_key="x", secret_key="y", region="us-east-1", endpoint_override=endpoint)
    frames = [pandas.read_parquet(path.removeprefix("s3a://"), filesystem=place, partitioning=None) for path in paths]
    return [body for frame in frames for body in frame.body if body is not None]


def test_an_archive_in_s3_from_its_first_run_to_its_last_day(sparks: Hosts, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    spark, lake = sparks.host(), "s3a://lake/archive"
    with (
        s3.bucket("lake", tmp_path / "moto.log") as endpoint,
        Broker(tmp_path / "broker", {"log_reads.port": port}) as broker,
    ):
        until(lambda: listens(port), "the read API")
        given: dict[str, Any] = {
            "endpoint": endpoint, "path.style.access": "true", "endpoint.region": "us-east-1", "access.key": "x",
            "secret.key": "y",
        }  # fmt: skip
        spark.call("settings", {f"fs.s3a.{name}": value for name, value in given.items()})
        found = spark.call("stored", "s3a://lake/store", False)
        assert found["create"][0] == "done" and found["create"][1].startswith("FileExistsError")
        assert found["read"] == b"one" and found["gone"].startswith("FileNotFoundError")
        assert "another run is writing this archive" in found["second"] and "has taken over" in found["lost"]

        source = {"broker": f"127.0.0.1:{port}", "addresses": "a,large"}
        send(broker, "/queue/a", [b"%d" % n for n in range(30)])
        send(broker, "/queue/large", [b"L" * 400_000])
        take(broker, "/queue/a", 10)
        assert spark.call("archive", lake, source) > 31
        send(broker, "/queue/a", [b"%d" % n for n in range(30, 40)])
        spark.call("archive", lake, source)
        files = spark.call("live", lake, "messages")
        assert len(files) == len(set(files)) >= 3 and all(path.startswith(f"{lake}/data/") for path in files)
        assert sorted(bodies(endpoint, files), key=int) == [b"%d" % n for n in range(40)]
        assert spark.call("compact", lake, 2) >= 1
        assert len(spark.call("live", lake, "messages")) < len(files)
        assert sorted(bodies(endpoint, spark.call("live", lake, "messages")), key=int) == [b"%d" % n for n in range(40)]

        plan = {"id": "once", "into": "/queue/again", "addresses": ("a", "large")}
        url = f"stomp://127.0.0.1:{broker.port}"
        assert spark.call("replay", lake, source, url, plan) == 41
        assert spark.call("replay", lake, source, url, plan) == 0, "the note, which the driver has kept, says so"
        again = taken(broker, "again", 41)
        assert b"L" * 400_000 in again and sorted(int(body) for body in again if len(body) < 100) == list(range(40))
        assert spark.call("retain", lake, "9999-01-01") > 0 and not spark.call("live", lake, "messages")
        held = json.loads(spark.call("read", lake, "manifests/000000000001.json"))
        assert held["number"] == 1 and held["adds"]
