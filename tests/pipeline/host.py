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

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 600.0


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
        self._pipe, theirs = context.Pipe()
        conf = {"spark__sql__warehouse__dir": str(folder / "warehouse"), "spark__sql__shuffle__partitions": "1"} | conf
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

    def begin(self, name: str, *arguments: Any) -> None:
        self._pipe.send((name, arguments))

    def answer(self) -> Any:
        if not self._pipe.poll(LIMIT_S):
            raise AssertionError(f"Spark does not answer:\n{(self.folder / 'spark.log').read_text()[-3000:]}")
        try:
            good, answer = self._pipe.recv()
        except EOFError:
            raise AssertionError((self.folder / "spark.log").read_text()[-3000:]) from None
        if not good:
            raise SparkError(answer)
        return answer

    def call(self, name: str, *arguments: Any) -> Any:
        self.begin(name, *arguments)
        return self.answer()
