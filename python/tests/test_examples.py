"""The examples and the snippets in the documents run."""

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

# Long enough for a slow and busy machine; each example takes seconds, the training loop a minute or two.
TIMEOUT_S = 600

# Longer than TIMEOUT_S, so that a slow program reaches that limit first, and its output is shown.
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


# Blocks with this text start processes that import the main module again, so they must be separate programs.
ALONE = "learners=2"


def snippets(document: str) -> list[str]:
    """Returns the Python blocks of a document as programs, each on its original lines: all together as the first
    program, except the blocks that must be separate."""
    blocks: list[list[str]] = [[]]
    inside, lines = False, (ROOT / "docs" / document).read_text().splitlines()
    for number, line in enumerate(lines):
        if re.match(r"^```", line):
            inside = line == "```python"
            if inside:
                blocks.append([""] * (number + 1))
        elif inside:
            blocks[-1].append(line)
    together = [""] * len(lines)
    alone = []
    for block in blocks:
        program = "\n".join(block) + "\n"
        if ALONE in program:
            alone.append(program)
            continue
        for number, line in enumerate(block):
            together[number] = together[number] or line
    return ["\n".join(together) + "\n", *alone]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example(example: pathlib.Path) -> None:
    assert run([str(example)]).strip(), "an example says what it found"


def test_examples_are_found() -> None:
    assert len(EXAMPLES) >= 11


@pytest.mark.parametrize("document", DOCUMENTS)
def test_snippets(document: str, tmp_path: pathlib.Path) -> None:
    programs = snippets(document)
    assert programs[0].strip()
    # Adds the stand-in module `reverb`, for the snippets that use it.
    path = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(ROOT / "python" / "relive-as-reverb")]))
    # Sets torchrun's variables for the snippet that torchrun would start; here with a single process.
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    alone = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    for number, program in enumerate(programs):
        script = tmp_path / f"{document.removesuffix('.md')}{number or ''}.py"
        script.write_text(program)
        run(["-W", "error", str(script)], tmp_path, PYTHONPATH=path, RELIVE_DOCUMENT_FOLDER=str(tmp_path), **alone)


def test_snippets_are_extracted_from_documents() -> None:
    (program,) = snippets("python.md")
    assert "import relive" in program and "```" not in program
    together, alone = snippets("python-agents.md")
    assert ALONE in alone and ALONE not in together
