"""The examples run, and so do the snippets of the documents."""

from __future__ import annotations

import os
import pathlib
import re
import socket
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "examples" / "python").glob("*.py"))
DOCUMENTS = ["coming-from.md", "flow.md", "gpu.md", "migrating-from-reverb.md", "python-agents.md", "python.md"]

# A slow machine with other work on it; each takes seconds, the training loop a minute or two.
TIMEOUT_S = 600

# The limit above ends them with what they said.
pytestmark = pytest.mark.timeout(TIMEOUT_S + 60)


def run(arguments: list[str], folder: pathlib.Path = ROOT, **extra_environment: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        cwd=folder,
        env={**os.environ, **extra_environment},
        check=False,
    )
    assert done.returncode == 0, f"{arguments} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


def snippets(document: str) -> str:
    """All Python blocks of a document as one program, each on the lines where it stands."""
    program, inside = [], False
    for line in (ROOT / "docs" / document).read_text().splitlines():
        if re.match(r"^```", line):
            inside = line == "```python"
            program.append("")
        else:
            program.append(line if inside else "")
    return "\n".join(program) + "\n"


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example(example: pathlib.Path) -> None:
    assert run([str(example)]).strip(), "an example says what it found"


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 11


@pytest.mark.parametrize("document", DOCUMENTS)
def test_snippets(document: str, tmp_path: pathlib.Path) -> None:
    program = snippets(document)
    assert program.strip()
    script = tmp_path / f"{document.removesuffix('.md')}.py"
    script.write_text(program)
    # The stand-in of the module name `reverb`, for the snippets that use it.
    path = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(ROOT / "python" / "relive-as-reverb")]))
    # As torchrun starts a process, for the snippet that is begun by it: here as the only one.
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    alone = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    run(["-W", "error", str(script)], tmp_path, PYTHONPATH=path, RELIVE_DOCUMENT_FOLDER=str(tmp_path), **alone)


def test_snippets_are_cut_out_of_documents() -> None:
    assert "import relive" in snippets("python.md")
    assert "```" not in snippets("python.md")
