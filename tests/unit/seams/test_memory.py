"""How much memory a process may have: what its container says, in all the ways that containers say it; and what of it
is kept between two reads."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from broker.seams.memory import available

MACHINE = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
MIB = 1024 * 1024
OF_GLIBC = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have no mallopt")
V1 = "memory/{}memory.limit_in_bytes"


@pytest.mark.parametrize(
    ("own", "limits", "expected"),
    [
        (None, {}, MACHINE),  # no control groups at all
        ("0::/\n", {}, MACHINE),
        ("0::/\n", {"memory.max": "max\n"}, MACHINE),
        ("0::/\n", {"memory.max": f"{64 * MIB}\n"}, 64 * MIB),  # v2, in a container
        (None, {"memory.max": f"{64 * MIB}\n"}, 64 * MIB),
        ("0::/pods/one\n", {"pods/one/memory.max": f"{32 * MIB}\n"}, 32 * MIB),
        ("0::/pods/one\n", {"pods/memory.max": f"{16 * MIB}\n", "pods/one/memory.max": "max\n"}, 16 * MIB),
        ("0::/pods/one\n", {"pods/memory.max": f"{16 * MIB}\n", "pods/one/memory.max": f"{32 * MIB}\n"}, 16 * MIB),
        ("0::/pods/one\n", {"pods/two/memory.max": f"{8 * MIB}\n"}, MACHINE),  # somebody else's
        ("5:memory:/\n4:cpu,cpuacct:/\n", {V1.format(""): f"{64 * MIB}\n"}, 64 * MIB),  # v1
        ("5:cpu,memory:/a/b\n0::/\n", {V1.format("a/b/"): f"{32 * MIB}\n"}, 32 * MIB),
        ("4:cpu:/a\n5:memory:/b\n", {V1.format("a/"): f"{8 * MIB}\n"}, MACHINE),  # not our group of this controller
        ("5:memory:/a\n", {V1.format("a/"): "9223372036854771712\n"}, MACHINE),  # how v1 says that there is none
        ("0::/a\n", {"a/memory.max": f"{MACHINE * 2}\n"}, MACHINE),  # more than there is
        ("0::/a\n", {"a/memory.max": "what\n"}, MACHINE),
    ],
)
def test_the_least_limit_counts(tmp_path: Path, own: str | None, limits: dict[str, str], expected: int) -> None:
    groups, of_us = tmp_path / "groups", tmp_path / "own"
    if own is not None:
        of_us.write_text(own)
    for name, text in limits.items():
        (groups / name).parent.mkdir(parents=True, exist_ok=True)
        (groups / name).write_text(text)
    assert available(str(groups), str(of_us)) == expected


def test_where_the_machine_does_not_tell_the_container_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(name: str) -> int:
        raise ValueError(name)

    monkeypatch.setattr(os, "sysconf", unknown)
    groups, own = str(tmp_path), str(tmp_path / "own")
    assert available(groups, own) == 0
    (tmp_path / "memory.max").write_text("1000\n")
    assert available(groups, own) == 1000


ROUNDS = """
import resource, sys
from broker.seams import memory
if sys.argv[1:]:
    memory.keep_free()
def work():
    for _ in range(50):
        pieces = [bytes(200_000) + b"x" for _ in range(5)]
work()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
work()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def _faults(*arguments: str, **variables: str) -> int:
    """Pages that the kernel had to find for 50 times the same work, when it has been done 50 times before."""
    own = {name: text for name, text in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    line = [sys.executable, "-c", ROUNDS, *arguments]
    return int(subprocess.run(line, env=own | variables, capture_output=True, text=True, check=True).stdout)


@OF_GLIBC
def test_what_a_read_needs_is_kept_for_the_next_one() -> None:
    assert _faults("keep") < 500
    assert _faults() > 5_000  # else the C library does so by itself, and this may go


@OF_GLIBC
def test_what_the_environment_says_of_the_heap_counts() -> None:
    assert _faults("keep", MALLOC_TRIM_THRESHOLD_="131072") > 5_000
