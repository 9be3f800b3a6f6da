"""Names that programs use although dm-reverb does not document them."""

import doctest
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import relive
from relive import checkpointers, item_selectors, pybind


@pytest.mark.parametrize(
    "name",
    [
        "AutoTunedChunkerOptions", "Checkpointer", "ChunkerOptions", "Client", "ConstantChunkerOptions", "FifoSelector",
        "HeapSelector", "ItemSelector", "LifoSelector", "PrioritizedSelector", "RateLimiter", "Sampler", "Server",
        "StructuredWriter", "Table", "TableExtension", "TrajectoryWriter", "UniformSelector", "WeakCellRef", "Writer",
    ],
)  # fmt: skip
def test_classes(name: str) -> None:
    assert isinstance(getattr(pybind, name), type)
    assert name in pybind.__all__


def test_the_number_of_information_tensors() -> None:
    assert pybind.Sampler.NUM_INFO_TENSORS == len(relive.SampleInfo._fields)


def test_chunker_options() -> None:
    constant, tuned = pybind.ConstantChunkerOptions, pybind.AutoTunedChunkerOptions
    assert constant(2, 5) == constant(max_chunk_length=2, num_keep_alive_refs=5)
    assert constant(2, 5) != constant(2, 6)
    assert constant(2, 5) != constant(3, 5)
    assert tuned(5, 1.0) == tuned(num_keep_alive_refs=5, throughput_weight=2.0)
    assert tuned(5, 1.0) != tuned(6, 1.0)
    assert tuned(5, 1.0) != constant(1, 5)
    assert isinstance(tuned(5, 1.0), pybind.ChunkerOptions)


def test_selector_from_proto() -> None:
    from relive.cc import schema_pb2

    options = schema_pb2.KeyDistributionOptions(heap=schema_pb2.KeyDistributionOptions.Heap(min_heap=True))
    selector = pybind.selector_from_proto(options.SerializeToString())
    assert isinstance(selector, pybind.HeapSelector)
    assert selector == item_selectors.MinHeap()
    with pytest.raises(NotImplementedError):
        pybind.selector_from_proto(b"")


class TestCheckpointers:
    def test_default(self, tmp_path: Path) -> None:
        made = checkpointers.DefaultCheckpointer(tmp_path, fallback_checkpoint_path=str(tmp_path / "old"))
        assert (made.path, made.group, made.fallback_checkpoint_path) == (str(tmp_path), "", str(tmp_path / "old"))
        internal = made.internal_checkpointer()
        assert isinstance(internal, pybind.Checkpointer)
        assert (internal.path, internal.fallback_checkpoint_path) == (str(tmp_path), str(tmp_path / "old"))
        assert repr(internal) == f"TFRecordCheckpointer(root_dir={tmp_path}, group=)"

    def test_default_does_not_touch_the_folder(self, tmp_path: Path) -> None:
        checkpointers.DefaultCheckpointer(str(tmp_path / "new"))
        assert not (tmp_path / "new").exists()

    def test_no_path(self) -> None:
        with pytest.raises(TypeError):
            checkpointers.DefaultCheckpointer(3)  # type: ignore[arg-type]

    def test_temporary_folders_differ(self) -> None:
        first, second = checkpointers.TempDirCheckpointer(), checkpointers.TempDirCheckpointer()
        try:
            assert first.path != second.path
            assert Path(first.path).is_dir()
            assert isinstance(first, checkpointers.CheckpointerBase)
        finally:
            for made in (first, second):
                Path(made.path).rmdir()

    def test_default_checkpointer(self) -> None:
        made = checkpointers.default_checkpointer(group="ignored")
        assert isinstance(made, checkpointers.TempDirCheckpointer)
        Path(made.path).rmdir()

    def test_base_is_abstract(self) -> None:
        with pytest.raises(TypeError):
            checkpointers.CheckpointerBase()  # type: ignore[abstract]

    def test_create_default_checkpointer(self, tmp_path: Path) -> None:
        made = pybind.create_default_checkpointer(str(tmp_path), "", None)
        assert made == checkpointers.DefaultCheckpointer(tmp_path).internal_checkpointer()

    @pytest.mark.parametrize("module", ["platform.checkpointers_lib", "platform.default.checkpointers"])
    def test_dm_reverbs_modules(self, module: str) -> None:
        found = importlib.import_module(f"relive.{module}")
        assert found.DefaultCheckpointer is checkpointers.DefaultCheckpointer


@pytest.mark.parametrize(
    "module",
    [
        "client", "errors", "item_selectors", "pattern_dataset", "pybind", "rate_limiters", "replay_sample", "reverb_types",
        "server", "structured_writer", "timestep_dataset", "trajectory_dataset", "trajectory_writer",
    ],
)  # fmt: skip
def test_every_module_can_be_imported_first(module: str) -> None:
    subprocess.run([sys.executable, "-c", f"import relive.{module}"], check=True, timeout=60)


@pytest.mark.parametrize(
    "module",
    [
        "nest", "specs", "structured_writer", "_patterns", "client", "server", "tables", "trajectory_writer", "batches",
        "rate_limiters", "item_selectors", "replay_sample",
    ],
)  # fmt: skip
def test_examples_in_documentation(module: str) -> None:
    result = doctest.testmod(importlib.import_module(f"relive.{module}"))
    assert result.attempted > 0
    assert result.failed == 0
