"""The names of the package."""

from __future__ import annotations

import subprocess
import sys

from conftest import PATIENCE_S

WITHOUT_OPTIONAL_PACKAGES = """
import sys
from unittest import mock

class Absent:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name in ("tensorflow", "torch", "torchrl", "jax", "gymnasium", "stable_baselines3"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent)
import relive

names = set(dir(relive))
assert names >= {"Client", "PatternDataset", "ReplayBuffer", "gpu", "ray", "rl", "structured"}, names
assert not names & {"TFClient", "tf_client", "torch", "torchrl", "sb3", "jax", "gymnasium"}, names
mock.create_autospec(relive)
try:
    relive.TFClient
except ModuleNotFoundError as error:
    assert error.name == "tensorflow", error
else:
    raise AssertionError("imported without TensorFlow")
"""


def test_names_that_cannot_be_imported_are_not_listed() -> None:
    subprocess.run([sys.executable, "-c", WITHOUT_OPTIONAL_PACKAGES], timeout=PATIENCE_S, check=True)


def test_names_that_can_be_imported_are_listed() -> None:
    lists = "import relive, importlib.util, sys; print('torch' in dir(relive), 'torch' in sys.modules, importlib.util.find_spec('torch') is not None)"
    run = subprocess.run([sys.executable, "-c", lists], timeout=PATIENCE_S, check=True, capture_output=True, text=True)
    is_listed, is_imported, is_installed = run.stdout.split()
    assert is_listed == is_installed and is_imported == "False"
