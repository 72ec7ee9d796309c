"""An S3 for tests: moto's server, a process of its own, and what Spark needs to speak to it.

    python -m tests.pipeline.s3     # fetches the jars, which are none of the product's; `make pipeline-jars` does

Rule: what is not here is said in one line, and only the tests of S3 skip.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.harness import free_ports, listens, until
from tests.harness.fetching import alone_in

HADOOP, SDK = "3.5.0", "2.35.4"
"""Of Spark's own Hadoop, and the SDK that it was built with: docs/pipeline.md names the same."""
JARS = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / f"stampede-s3/{HADOOP}-{SDK}"
NEEDS = f"""
<ivy-module version="2.0"><info organisation="stampede" module="tests"/>
<configurations><conf name="default"/></configurations>
<dependencies defaultconf="default->default">
  <dependency org="org.apache.hadoop" name="hadoop-aws" rev="{HADOOP}"/>
  <dependency org="software.amazon.awssdk" name="s3" rev="{SDK}"/>
  <dependency org="software.amazon.awssdk" name="s3-transfer-manager" rev="{SDK}"/>
  <dependency org="software.amazon.awssdk" name="sts" rev="{SDK}"/>
  <exclude org="software.amazon.awssdk" module="bundle"/>
  <exclude org="software.amazon.awssdk" module="netty-nio-client"/>
  <exclude org="org.slf4j"/><exclude org="commons-logging"/>
</dependencies></ivy-module>
"""


def missing() -> str:
    """What is not here."""
    if not JARS.is_dir():
        return "the jars of S3 are not here: make pipeline-jars fetches them from Maven"
    return missing_of_server()


def missing_of_server(*more: str) -> str:
    """What the server needs and is not here, or another library."""
    names = ("moto", "flask", "flask_cors", *more)
    return next((f"{name} is not installed" for name in names if importlib.util.find_spec(name) is None), "")


def as_variables(endpoint: str) -> dict[str, str]:
    """How clients are told where it is, and who they are."""
    return {
        "AWS_ENDPOINT_URL": endpoint, "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y", "AWS_REGION": "us-east-1",
    }  # fmt: skip


def fetch() -> None:
    """By the Ivy that Spark brings. Raises when it cannot be had."""
    import pyspark
    from broker_pipeline.session import java_home

    (ivy,) = (Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar")
    with alone_in(JARS.parent), tempfile.TemporaryDirectory(dir=JARS.parent) as folder:
        if JARS.exists():  # by another worker, while this one waited
            return
        place = Path(folder)
        (place / "ivy.xml").write_text(NEEDS)
        command = [
            f"{java_home()}/bin/java",
            "-jar",
            str(ivy),
            "-ivy",
            "ivy.xml",
            "-cache",
            "cache",
            "-confs",
            "default",
        ]
        asked = [*command, "-retrieve", "jars/[artifact]-[revision].[ext]", "-warn"]
        subprocess.run(asked, cwd=place, check=True, timeout=120, capture_output=True)
        assert list((place / "jars").glob("hadoop-aws-*.jar"))
        (place / "jars").rename(JARS)


@contextmanager
def bucket(name: str, log: Path) -> Iterator[str]:
    """An empty one, of a server of its own: its endpoint."""
    (port,) = free_ports(1)
    with log.open("wb") as out:
        server = subprocess.Popen([sys.executable, "-m", "moto.server", "-p", str(port)], stdout=out, stderr=out)
    try:
        until(lambda: listens(port), "moto", 120)
        request = urllib.request.Request(f"http://127.0.0.1:{port}/{name}", method="PUT")
        urllib.request.urlopen(request, timeout=60).close()
        yield f"http://127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()


if __name__ == "__main__":
    try:
        if not JARS.is_dir():
            fetch()
    except Exception as error:
        print(f"no jars of S3 ({type(error).__name__}): its tests will skip")
