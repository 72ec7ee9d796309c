"""Coverage-guided fuzzing of the STOMP reader; not run by pytest.

    pip install atheris
    python -m tests.fuzz.fuzz_frames tests/fuzz/corpus -max_len=4096 -max_total_time=600

A crash file that it leaves belongs into tests/fuzz/corpus, under a name that says what it is.
"""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports(include=["broker.wire"]):
    from tests.fuzz.frames import try_input

if __name__ == "__main__":
    atheris.Setup(sys.argv, try_input)
    atheris.Fuzz()
