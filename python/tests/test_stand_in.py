"""The module `reverb` of `relive-as-reverb` without TensorFlow. `interop/standin` tests it with TensorFlow."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

import relive

STAND_IN = pathlib.Path(__file__).resolve().parents[1] / "relive-as-reverb"

# Every importable module, and its listed names.
WALK = """
import importlib, pkgutil, sys
import reverb

def walk(package):
    for module in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        try:
            imported = importlib.import_module(module.name)
        except ImportError as error:
            print("cannot import", module.name)
            continue
        for name in dir(imported):
            if not hasattr(imported, name):
                print("not there:", module.name, name)
        if module.ispkg:
            walk(imported)

walk(reverb)
assert reverb.structured_writer.Config().table == ""
assert "tensorflow" not in sys.modules
"""


def test_the_module_requires_the_version_whose_private_parts_it_uses() -> None:
    project = (STAND_IN / "pyproject.toml").read_text(encoding="utf-8")
    assert f'\nversion = "{relive.__version__}"\n' in project
    assert f'\ndependencies = ["relive=={relive.__version__}"]\n' in project


def test_names_without_tensorflow() -> None:
    walked = subprocess.run(
        [sys.executable, "-W", "error", "-c", WALK],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(STAND_IN)},
        check=False,
    )
    assert walked.returncode == 0, walked.stderr
    said = set(walked.stdout.splitlines())
    # Modules that need TensorFlow, or absl, which is installed with TensorFlow.
    assert {"cannot import reverb.tf_client", "cannot import reverb.cc.ops.gen_reverb_ops"} <= said
    assert said <= {
        "cannot import reverb.tf_client",
        "cannot import reverb.cc.ops.gen_reverb_ops",
        "cannot import reverb.platform.default.server_main_command_line_args",
    }


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--v=1"], "the following arguments are required: --config"),
        (["--config=", "--port=1", "-x"], "unrecognized arguments: --port=1 -x"),
        (["--flagfile=nowhere"], "--flagfile cannot be read: [Errno 2] No such file or directory: 'nowhere'"),
        (["--flagfile"], "argument --flagfile/-flagfile: expected one argument"),
    ],
)
def test_wrong_flags_of_a_server(flags: list[str], said: str, tmp_path: pathlib.Path) -> None:
    server = subprocess.run(
        [sys.executable, "-m", "reverb.server_executable.server_main", *flags],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(STAND_IN)},
        cwd=tmp_path,
        check=False,
    )
    assert server.returncode == 2
    assert said in server.stderr
