"""Copies of replay buffers: in memory, in files, and in forked processes."""

from __future__ import annotations

import copy
import json
import pathlib
import pickle
import subprocess
import sys
import tarfile
import zlib
from typing import Any

import numpy as np
import pytest
from buffers import filled, priorities, rewards, step
from conftest import PATIENCE_S

import relive
from relive import ReplayBuffer, errors


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda buffer: pickle.loads(pickle.dumps(buffer))])
def test_a_buffer_is_copied_with_its_transitions(copied: Any) -> None:
    buffer = filled(prioritized=0.7, beta=0.3, batch_size=12, n_step=2, discount=0.9, seed=3)
    buffer.update(buffer.sample()["keys"], np.full(12, 7.0))
    first, second = copied(buffer), copied(buffer)
    assert rewards(first) == rewards(buffer) and priorities(first) == priorities(buffer)
    assert first.beta == 0.3 and first.batch_size == 12
    np.testing.assert_array_equal(first.sample()["reward"], second.sample()["reward"])
    for number in range(10):
        first.add(step(number))
    assert priorities(first)[-1] == 7.0
    first.close()
    assert len(buffer) == len(second) == 50
    # Without a step, the first one determines the columns of a copy.
    for of in (ReplayBuffer(10), copied(ReplayBuffer(10))):
        copied(of).add(step(0))
    buffer.close()
    with pytest.raises(errors.ClosedError):
        copied(buffer)


def test_a_buffer_continues_with_a_state() -> None:
    buffer = filled(prioritized=0.7, beta=0.3, batch_size=12, n_step=2, discount=0.9, seed=3)
    buffer.update(buffer.sample()["keys"], np.full(12, 7.0))
    state = pickle.loads(pickle.dumps(buffer.state_dict()))
    other = filled(prioritized=0.7, beta=0.1, batch_size=12, n_step=2, discount=0.9, seed=3)
    for _ in range(2):
        other.load_state_dict(state)
        assert rewards(other) == rewards(buffer) and priorities(other) == priorities(buffer) and other.beta == 0.3
    for number in range(10):
        other.add(step(number))
    assert priorities(other)[-1] == 7.0
    other.load_state_dict(ReplayBuffer(10).state_dict())
    assert len(other) == 0
    other.add(step(0))
    with pytest.raises(ValueError, match=r"the keys \['a'\], but it must be the state_dict"):
        other.load_state_dict({"a": 1})
    with pytest.raises(errors.DataLossError):
        other.load_state_dict({**state, "transitions": state["transitions"][: -len(state["transitions"]) // 2]})
    assert len(other) == 0
    other.close()
    with pytest.raises(errors.ClosedError):
        other.state_dict()


def test_a_buffer_is_copied_by_early_releases_of_python(monkeypatch: pytest.MonkeyPatch) -> None:
    extract = tarfile.TarFile.extractall

    # The function's arguments in Python 3.11.3.
    def early(self: tarfile.TarFile, path: str = ".", members: Any = None, *, numeric_owner: bool = False) -> None:
        extract(self, path, members, numeric_owner=numeric_owner, filter="data")

    monkeypatch.setattr(tarfile.TarFile, "extractall", early)
    monkeypatch.delattr(tarfile, "data_filter")
    buffer = ReplayBuffer(10)
    buffer.add(x=1.0)
    assert len(copy.deepcopy(buffer)) == 1


FORKS = """
import os, sys
import relive
buffer = relive.ReplayBuffer(10)
buffer.add(action=1)
if "sampled" in sys.argv:
    buffer.sample()
owner = os.getpid()
if os.fork() == 0:
    for call in (lambda: buffer.add(action=1), buffer.sample):
        try:
            call()
        except relive.errors.FailedPreconditionError as error:
            assert f"this buffer belongs to process {owner}" in str(error), error
        else:
            os._exit(1)
    if repr(buffer) != f"ReplayBuffer(capacity={buffer.capacity}, of process {owner})":
        os._exit(2)
    with buffer:
        pass
    os._exit(0)
_, status = os.wait()
assert status == 0
buffer.add(action=1)
assert len(buffer) == 2
"""


@pytest.mark.parametrize("before", ["added", "sampled"])
def test_a_forked_process_is_told_whose_buffer_it_is(before: str) -> None:
    """Runs in a new interpreter, because other tests load libraries with threads, which do not support forks."""
    subprocess.run([sys.executable, "-c", FORKS, before], timeout=PATIENCE_S, check=True)


def test_a_buffer_is_saved_and_loaded(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "buffer"
    buffer = filled(prioritized=0.7, beta=0.3, batch_size=12, n_step=2, discount=0.9)
    batch = buffer.sample()
    buffer.update(batch["keys"], batch["reward"] + 5.0)
    buffer.save(path)
    buffer.add(step(1_000))
    buffer.save(path)
    buffer.close()
    for seed in (1, 1, 2):
        loaded = ReplayBuffer.load(path, seed=seed)
        assert len(loaded) == len(rewards(loaded)) == 50
        assert loaded.beta == 0.3 and loaded.sample()["weights"].shape == (12,)
        # The next transition gets the highest priority so far.
        for number in range(10):
            loaded.add(step(number))
        highest = max(item.priority for item in loaded.server.localhost_client().items("replay"))
        assert [item.priority for item in loaded.server.localhost_client().items("replay")][-1] == highest > 5.0
        loaded.close()


def test_damaged_settings_of_a_buffer_are_reported(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with filled(n_step=2, discount=0.9) as buffer:
        buffer.save("")
    with ReplayBuffer.load("") as buffer:
        assert len(buffer) > 0
    file = tmp_path / "replay_buffer.json"
    whole = file.read_text()
    for damaged in (whole.replace("0.9", "0.1"), whole[:20], "{}", "[1]", "null"):
        file.write_text(damaged)
        with pytest.raises(relive.errors.DataLossError, match="replay_buffer.json is damaged"):
            ReplayBuffer.load("")


def test_settings_of_a_later_version_are_refused(tmp_path: pathlib.Path) -> None:
    with filled() as buffer:
        buffer.save(tmp_path)
    file = tmp_path / "replay_buffer.json"
    text = json.dumps({**json.loads(json.loads(file.read_text())["settings"]), "compression": "zstd"})
    file.write_text(json.dumps({"settings": text, "crc32": zlib.crc32(text.encode())}))
    with pytest.raises(relive.errors.FailedPreconditionError, match=r"has the settings \['compression'\], which this version"):
        ReplayBuffer.load(tmp_path)


def test_a_loaded_buffer_can_be_saved_to_the_same_folder(tmp_path: pathlib.Path) -> None:
    with filled() as buffer:
        buffer.save(tmp_path)
    with ReplayBuffer.load(tmp_path) as buffer:
        buffer.add(step(50))
        buffer.save(tmp_path)
    with ReplayBuffer.load(tmp_path) as buffer:
        assert rewards(buffer) == list(range(51))
