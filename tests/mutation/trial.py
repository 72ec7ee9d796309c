"""One mutant before the tests of its room: does one of them notice.

Rule: each trial is a process of its own that is forked from one that has imported everything but the product; the
mutant is put in by an import hook. Whoever does not end is ended: by the time it may compute, which says the same on
a busy machine, and by a clock behind that.
"""

from __future__ import annotations

import importlib.util
import os
import resource
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

import hypothesis
import pytest

from .mutants import ROOT, Mutant, path

hypothesis.settings.register_profile("mutation", deadline=None, database=None, derandomize=True)

# Imported here, hence not in each trial.
for _each in ("msgspec", "prometheus_client", "grpc", "google.protobuf.message", "aiohttp", "click", "yaml"):
    importlib.import_module(_each)


ARGUMENTS = (
    "-x", "-q", "-p", "no:cacheprovider", "--hypothesis-profile=mutation",
    "-W", "ignore::pytest.PytestAssertRewriteWarning",
)  # fmt: skip


class _Hook(MetaPathFinder, Loader):
    """Finds one module, and gives it another text."""

    def __init__(self, mutant: Mutant) -> None:
        self._name = f"broker.{mutant.module}"
        self._file = str(ROOT / path(mutant.module))
        self._code = compile(mutant.source(), self._file, "exec", dont_inherit=True)

    def find_spec(self, fullname: str, *_: object) -> ModuleSpec | None:
        if fullname != self._name:
            return None
        return importlib.util.spec_from_file_location(fullname, self._file, loader=self)

    def exec_module(self, module: ModuleType) -> None:
        exec(self._code, module.__dict__)


def begin(tests: Sequence[str], mutant: Mutant | None, cpu_s: int) -> int:
    """A process that tries it; its status is pytest's."""
    if pid := os.fork():
        return pid
    status = 70
    try:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s + 5))
        quiet = os.open(os.devnull, os.O_RDWR)
        for each in (0, 1, 2):
            os.dup2(quiet, each)
        os.chdir(ROOT)
        if mutant is not None:
            sys.meta_path.insert(0, _Hook(mutant))
        status = int(pytest.main([*ARGUMENTS, *tests]))
    finally:
        os._exit(status)


def tried(
    tests: Sequence[str], mutants: Sequence[Mutant], jobs: int, cpu_s: int, wall_s: float, until: float
) -> Iterator[tuple[Mutant, bool]]:
    """(mutant, it was noticed) as they end; none is begun after `until`."""
    left, running = list(reversed(mutants)), dict[int, tuple[Mutant, float]]()
    while left or running:
        while left and len(running) < jobs and time.monotonic() < until:
            mutant = left.pop()
            running[begin(tests, mutant, cpu_s)] = mutant, time.monotonic() + wall_s
        if not running:
            return
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid:
            mutant, _ = running.pop(pid)
            yield mutant, status != 0
            continue
        time.sleep(0.02)
        for pid, (_, end) in running.items():
            if time.monotonic() > end:
                os.killpg(pid, signal.SIGKILL)


def alone(tests: Sequence[str]) -> tuple[float, float]:
    """Seconds of processor and of wall clock that the tests take without a mutant. They have to be green."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    _, status = os.waitpid(begin(tests, None, 600), 0)
    after, took = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic() - began
    if status:
        raise SystemExit(f"red without a mutant: {' '.join(tests)}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, took
