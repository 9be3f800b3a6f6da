"""relive.torch: tensors over the gathered memory, and datasets in loaders."""

from __future__ import annotations

import pickle
import types
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import relive
import relive.torch
import torch
from relive.batches import Batch
from relive.replay_sample import SampleInfo
from relive.torch import ReplayDataset, to_torch
from torch.utils.data import DataLoader

NUM_ITEMS = 64

# Python 3.12, and JAX if another test has imported it, warn about any fork in a process with threads.
FORKS = pytest.mark.filterwarnings(
    "ignore:.*multi-threaded, use of fork:DeprecationWarning", r"ignore:os\.fork\(\) was called:RuntimeWarning"
)


@pytest.fixture(scope="module")
def server() -> Iterator[relive.Server]:
    tables = [uniform("replay"), uniform("ragged"), uniform("empty")]
    with relive.Server(tables) as server, server.localhost_client().trajectory_writer(4) as writer:
        for index in range(NUM_ITEMS):
            writer.append(step(index))
            writer.create_item("replay", 1.0, newest(writer, slice(-1, None)))
            if index >= 3:
                writer.create_item("ragged", 1.0, newest(writer, slice(-1 - index % 3, None)))
        writer.flush()
        yield server


@pytest.fixture
def client(server: relive.Server) -> relive.Client:
    return server.localhost_client()


def uniform(name: str) -> relive.Table:
    return relive.Table(
        name=name,
        sampler=relive.selectors.Uniform(),
        remover=relive.selectors.Fifo(),
        max_size=1_000,
        rate_limiter=relive.rate_limiters.MinSize(1),
        signature={
            "frame": relive.ArraySpec((None, 3, 5), np.float32),
            "done": relive.ArraySpec((None,), np.bool_),
            "text": relive.ArraySpec((None,), object),
        },
    )


def step(index: int) -> dict[str, Any]:
    return {"frame": np.full((3, 5), index, np.float32), "done": np.bool_(index % 2), "text": f"step {index}"}


def newest(writer: Any, rows: slice) -> dict[str, Any]:
    return {name: column[rows] for name, column in writer.history.items()}


def test_tensors_use_the_memory_of_the_batch(client: relive.Client) -> None:
    with client.batches("replay", 8, max_batches=1) as batches:
        batch = next(batches)
    converted = to_torch(batch)
    assert isinstance(converted, Batch)
    for name in ("frame", "done"):
        tensor = converted.data[name]
        assert isinstance(tensor, torch.Tensor)
        assert tensor.data_ptr() == batch.data[name].ctypes.data
    assert converted.data["frame"].shape == (8, 1, 3, 5)
    assert converted.data["frame"].dtype == torch.float32
    assert converted.data["done"].dtype == torch.bool
    assert converted.info.probability.data_ptr() == batch.info.probability.ctypes.data
    assert converted.info.times_sampled.dtype == torch.int32


def test_strings_and_keys_stay_numpy(client: relive.Client) -> None:
    batch = next(iter(ReplayDataset(client, "replay", 4)))
    texts, keys = batch.data["text"], batch.info.key
    assert isinstance(texts, np.ndarray)
    numbers = batch.data["frame"][:, 0, 0, 0].tolist()
    assert [text.decode() for text in texts[:, 0]] == [f"step {number:.0f}" for number in numbers]
    assert keys.dtype == np.uint64
    client.update_priorities("replay", keys, np.ones(4))


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_small_floats_share_the_memory_of_the_array(dtype: str) -> None:
    array = np.arange(6).reshape(2, 3).astype(getattr(ml_dtypes, dtype))
    tensor = to_torch(array)
    assert tensor.dtype == getattr(torch, dtype)
    assert tensor.data_ptr() == array.ctypes.data
    assert tensor.to(torch.float32).tolist() == [[0, 1, 2], [3, 4, 5]]


def test_reversed_and_foreign_arrays_are_copied() -> None:
    array = np.arange(6.0).reshape(2, 3)
    for given in (array[:, ::-1], array.astype(">f8"), array.astype(ml_dtypes.bfloat16)[::-1]):
        assert to_torch(given).tolist() == given.astype(np.float64).tolist()


def test_dtypes_unsupported_by_pytorch_stay_numpy() -> None:
    array = np.zeros(3, ml_dtypes.int4)
    assert to_torch({"a": [array]})["a"][0] is array


def test_a_tensor_keeps_its_values_while_later_batches_come(client: relive.Client) -> None:
    iterator = iter(ReplayDataset(client, "replay", 16))
    first = next(iterator).data["frame"]
    values = first.clone()
    later = [next(iterator).data["frame"].sum() for _ in range(100)]
    assert torch.equal(first, values)
    assert len(set(map(float, later))) > 1


def test_the_number_of_batches_is_bounded(client: relive.Client) -> None:
    dataset = ReplayDataset(client, "replay", 4, max_batches=3)
    assert len(dataset) == 3
    assert len(list(dataset)) == 3
    assert len(list(dataset)) == 3, "each iteration begins anew"
    assert list(ReplayDataset(client, "empty", 4, max_batches=0)) == []


def test_an_endless_dataset_has_no_length(client: relive.Client) -> None:
    with pytest.raises(TypeError, match="max_batches"):
        len(ReplayDataset(client, "replay", 4))


def test_padding_gives_lengths(client: relive.Client) -> None:
    batch = next(iter(ReplayDataset(client, "ragged", 32, pad=True)))
    lengths = batch.lengths["frame"]
    assert lengths.dtype == torch.int64
    assert set(lengths.tolist()) <= {1, 2, 3}
    longest = int(lengths.max())
    assert batch.data["frame"].shape == (32, longest, 3, 5)
    beyond = torch.arange(longest) >= lengths[:, None]
    assert not batch.data["frame"][beyond].any()


def test_a_dataset_can_be_pickled(client: relive.Client) -> None:
    dataset = pickle.loads(pickle.dumps(ReplayDataset(client, "replay", 4, max_batches=2, device="cpu")))
    assert [batch.data["frame"].shape[0] for batch in dataset] == [4, 4]


def test_an_address_is_accepted_in_place_of_a_client(client: relive.Client) -> None:
    assert len(list(ReplayDataset(client.server_address, "replay", 2, max_batches=1))) == 1


@FORKS
@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_workers_of_a_loader_share_the_batches(client: relive.Client, context: str) -> None:
    dataset = ReplayDataset(client, "replay", 4, max_batches=5)
    loader = DataLoader(dataset, batch_size=None, num_workers=2, multiprocessing_context=context)
    batches = list(loader)
    assert len(batches) == 5
    for batch in batches:
        assert batch.data["frame"].shape == (4, 1, 3, 5)
        keys = np.asarray(batch.info.key)
        assert keys.dtype == np.uint64
        client.update_priorities("replay", batch.info.key, [1.0] * 4)
        frames = batch.data["frame"][:, 0, 0, 0]
        assert [f"step {frame:.0f}".encode() for frame in frames] == batch.data["text"][:, 0].tolist()


@pytest.mark.parametrize("options", [{"device": "meta"}, {"pin_memory": True}])
def test_loader_workers_refuse_to_move_tensors(
    client: relive.Client, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs in this process, because PyTorch takes 5 s to end a worker after an exception."""
    worker = types.SimpleNamespace(id=0, num_workers=1)
    monkeypatch.setattr(relive.torch, "get_worker_info", lambda: worker)
    with pytest.raises(ValueError, match="workers of a DataLoader"):
        next(iter(ReplayDataset(client, "replay", 4, **options)))


def test_a_loader_without_workers_yields_the_tensors_as_they_are(client: relive.Client) -> None:
    loader = DataLoader(ReplayDataset(client, "replay", 4, max_batches=2), batch_size=None)
    assert len(loader) == 2
    assert [batch.data["frame"].shape[0] for batch in loader] == [4, 4]


def test_a_device_gets_everything_but_keys_and_strings(client: relive.Client) -> None:
    batch = next(iter(ReplayDataset(client, "replay", 4, device="meta")))
    assert batch.data["frame"].device.type == "meta"
    assert batch.info.probability.device.type == "meta"
    assert isinstance(batch.info.key, np.ndarray)
    assert isinstance(batch.data["text"], np.ndarray)


@pytest.mark.cuda
def test_batches_on_a_cuda_device(client: relive.Client) -> None:
    dataset = ReplayDataset(client, "replay", NUM_ITEMS, max_batches=50, device="cuda")
    for batch in dataset:
        frames = batch.data["frame"]
        assert frames.is_cuda
        wanted = [float(text.decode().split()[1]) for text in batch.data["text"][:, 0]]
        assert frames[:, 0, 2, 4].tolist() == wanted


@pytest.mark.cuda
def test_pinned_memory_without_a_device(client: relive.Client) -> None:
    batch = next(iter(ReplayDataset(client, "replay", 4, pin_memory=True)))
    assert batch.data["frame"].is_pinned()


def test_a_timeout_is_an_error(client: relive.Client) -> None:
    with pytest.raises(relive.DeadlineExceededError):
        next(iter(ReplayDataset(client, "empty", 4, timeout=0.01)))


@pytest.mark.parametrize("arguments", [{"batch_size": 0}, {"batch_size": 1, "max_batches": -1}])
def test_numbers_out_of_range(client: relive.Client, arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must be at least"):
        ReplayDataset(client, "replay", **arguments)


def test_nests_that_are_not_batches_are_converted(client: relive.Client) -> None:
    key = np.arange(3, dtype=np.uint64)
    info = to_torch(SampleInfo(key, *[np.zeros(3)] * 4))
    assert isinstance(info.key, torch.Tensor), "only a batch is known to go back to a client"
    assert info.key.dtype == torch.uint64
