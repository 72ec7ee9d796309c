"""Completion as shells have it: each that is here sources what `stampede completion` prints, and completes a word."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SHELLS = {
    "bash": ["bash", "-c", 'eval "$(stampede completion bash)"; complete -p stampede >&2; '
             'COMP_WORDS=(stampede queue re) COMP_CWORD=2; _stampede_completion stampede; echo "${COMPREPLY[@]}"'],
    "zsh": ["zsh", "-fc", 'autoload -U compinit && compinit -u -D; eval "$(stampede completion zsh)"; '
            '[ "${_comps[stampede]}" = _stampede_completion ] && '
            'compadd() { print -- "$@" }; _describe() { print -- ${(P)${@[-1]}} ${(P)3}; }; '
            "words=(stampede queue re) CURRENT=3; _stampede_completion"],
    "fish": ["fish", "--no-config", "-c", 'stampede completion fish | source; complete -C "stampede queue re"'],
}  # fmt: skip


@pytest.mark.parametrize("shell", list(SHELLS))
def test_a_shell_that_has_sourced_it_completes_a_word(shell: str, tmp_path: Path):
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here: what it would source is not tried")
    own = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", "HOME": str(tmp_path),
        "LANG": "C.UTF-8",
    }  # fmt: skip
    told = subprocess.run(SHELLS[shell], capture_output=True, text=True, env=own, timeout=240)
    assert told.returncode == 0 and "resume" in told.stdout and "retry" in told.stdout, told
    assert "purge" not in told.stdout, told
