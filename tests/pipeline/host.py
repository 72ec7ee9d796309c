"""A process with a Spark session: runs functions of jobs.py and sends back what they return.

Rule: an error there is an error here, with its text; the process and its JVM end with the module, or are killed."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import traceback
from pathlib import Path
from typing import Any

from . import s3

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 600.0
# Half the processor time of a JVM that gets ready for long runs: these are short.
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def serve(pipe: Any, folder: str, conf: dict[str, str]) -> None:
    os.setsid()
    os.chdir(folder)
    log = os.open(f"{folder}/spark.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    sys.path[:0] = [str(ROOT), str(ROOT / "pipeline")]
    os.environ["PYTHONPATH"] = f"{ROOT}:{ROOT / 'pipeline'}"
    from broker_pipeline.session import session

    from tests.pipeline import jobs

    spark = session("local[1]", "512m", **conf)
    pipe.send((True, None))
    while (call := pipe.recv()) is not None:
        name, arguments = call
        try:
            if name == "renew":
                spark.stop()
            if spark.sparkContext._jsc is None:  # stopped, here or by a job
                spark = session("local[1]", "512m", **conf)
            pipe.send((True, getattr(jobs, name)(spark, *arguments)))
        except BaseException as error:
            pipe.send((False, f"{error}\n{traceback.format_exc()}"))
    spark.stop()


class SparkError(Exception):
    """What a job raised."""


class Host:
    def __init__(self, folder: Path, **conf: str) -> None:
        context = multiprocessing.get_context("spawn")
        self.folder = folder
        self._over = False
        self._asked = True  # for its readiness
        self._pipe, theirs = context.Pipe()
        conf = {
            "spark__sql__warehouse__dir": str(folder / "warehouse"), "spark__sql__shuffle__partitions": "1",
            "spark__driver__extraJavaOptions": QUICK,
        } | conf  # fmt: skip
        self.process = context.Process(target=serve, args=(theirs, str(folder), conf), daemon=True)
        self.process.start()
        theirs.close()

    def __enter__(self) -> Host:
        try:
            self.answer()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if not self._over and self.process.is_alive():
            self._pipe.send(None)
            self.process.join(20)
        self.kill()

    def kill(self) -> None:
        """SIGKILL to it, its JVM and its workers."""
        if self._over:
            return
        self._over = True
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
        self.process.join(20)
        self._pipe.close()
        self.process.close()

    def idle(self) -> bool:
        """It lives and owes no answer."""
        return not self._over and not self._asked and self.process.is_alive()

    def renew(self) -> None:
        """Another session in the same JVM: one whose Python workers were killed fails as often as it has dead ones."""
        self.call("renew")

    def begin(self, name: str, *arguments: Any) -> None:
        self._asked = True
        self._pipe.send((name, arguments))

    def answer(self) -> Any:
        if not self._pipe.poll(LIMIT_S):
            raise AssertionError(f"Spark does not answer:\n{(self.folder / 'spark.log').read_text()[-3000:]}")
        try:
            good, answer = self._pipe.recv()
        except EOFError:
            raise AssertionError((self.folder / "spark.log").read_text()[-3000:]) from None
        self._asked = False
        if not good:
            raise SparkError(answer)
        return answer

    def call(self, name: str, *arguments: Any) -> Any:
        self.begin(name, *arguments)
        return self.answer()


class Hosts:
    """One Host for all tests of a pytest worker, warm as it is; another when it was killed or left in the middle.

    `place` is a folder of this machine that only Spark knows as viewfs://lake/mount."""

    def __init__(self, folder: Path) -> None:
        self.place = folder / "mounted"
        self.place.mkdir()
        self._folder = folder
        self._host: Host | None = None
        self._count = 0

    def host(self) -> Host:
        if self._host is None or not self._host.idle():
            self.close()
            self._count += 1
            folder = self._folder / str(self._count)
            folder.mkdir()
            # What is in event logs is looked at by tests.
            (folder / "events").mkdir()
            logs = {
                "enabled": "true",
                "dir": f"file://{folder}/events",
                "compress": "false",
                "rolling__enabled": "false",
            }
            told = {f"spark__eventLog__{name}": value for name, value in logs.items()}
            link = {"spark__hadoop__fs__viewfs__mounttable__lake__link__/mount": f"file://{self.place}"}
            jars = {"spark__driver__extraClassPath": f"{s3.JARS}/*"} if s3.JARS.is_dir() else {}
            self._host = Host(folder, **told, **link, **jars).__enter__()
        return self._host

    def close(self) -> None:
        if self._host is not None:
            self._host.kill()
            self._host = None
