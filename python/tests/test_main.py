"""``python -m relive`` runs the program of the same name."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys


def run(path: pathlib.Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": str(path)}
    return subprocess.run([sys.executable, "-m", "relive", *arguments], capture_output=True, text=True, timeout=60, check=False, env=environment)


def test_the_program_on_the_path_gets_the_arguments(tmp_path: pathlib.Path) -> None:
    missing = run(tmp_path, "info")
    assert missing.returncode == 2 and "cargo install" in missing.stderr
    program = tmp_path / "relive"
    program.write_text("#!/bin/sh\necho \"$@\"\nexit 3\n")
    program.chmod(0o755)
    found = run(tmp_path, "info", "localhost:8000")
    assert (found.returncode, found.stdout) == (3, "info localhost:8000\n")
