"""Data sets in files of other formats, which are loaded into stores and into agents' tables."""

from __future__ import annotations

import decimal
import json
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from relive import gpu, rl
from relive.rl import recorded

ROWS = 9


def data() -> dict[str, Any]:
    ends = np.zeros(ROWS, bool)
    ends[[2, 8]] = True
    timeouts = np.zeros(ROWS, bool)
    timeouts[5] = True
    return {
        "observations": np.arange(ROWS * 6, dtype=np.float32).reshape(ROWS, 2, 3),
        "actions": np.arange(ROWS),
        "rewards": np.linspace(0, 1, ROWS),
        "terminals": ends,
        "timeouts": timeouts,
    }


def expect_all(found: Any) -> None:
    for name, array in data().items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)
        assert found[name].dtype == array.dtype, name


def safetensors(arrays: dict[str, Any], names: dict[str, str]) -> bytes:
    header: dict[str, Any] = {"__metadata__": {"made": "by hand"}}
    values = b""
    for name, array in arrays.items():
        begin = len(values)
        values += array.tobytes()
        header[name] = {"dtype": names[str(array.dtype)], "shape": list(array.shape), "data_offsets": [begin, len(values)]}
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + values


NAMES = {"float32": "F32", "int64": "I64", "float64": "F64", "bool": "BOOL"}


def test_safetensors(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "data.safetensors"
    path.write_bytes(safetensors(data(), NAMES))
    expect_all(rl.arrays_of(path))
    with gpu.Store.of_dataset(path) as store:
        assert [store.status(index).length for index in range(3)] == [3, 3, 3]


def test_hdf5_files_never_lead_to_other_files(tmp_path: pathlib.Path) -> None:
    h5py = pytest.importorskip("h5py")
    private, path = tmp_path / "private", tmp_path / "data.h5"
    private.write_bytes(bytes(8 * ROWS))
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["observations"] = data()["observations"]
    layout = h5py.VirtualLayout((ROWS,), "f8")
    layout[:] = h5py.VirtualSource(tmp_path / "other.h5", "observations", (ROWS,))
    arrays = {name: array for name, array in data().items() if name != "observations"}

    def write(change: Callable[[Any], Any]) -> None:
        with h5py.File(path, "w") as file:
            for name, array in arrays.items():
                file[name] = array
            file["infos/secret"] = h5py.ExternalLink("other.h5", "observations")
            change(file)

    def share(file: Any) -> None:
        file["infos/observations"] = data()["observations"]
        file["observations"] = h5py.SoftLink("/infos/observations")
        file["next_observations"] = file["observations"]

    cases: list[tuple[Callable[[Any], Any], str]] = [
        (lambda file: file.create_dataset("observations", (ROWS,), "f8", external=[(private, 0, 8 * ROWS)]), "observations has its values in"),
        (lambda file: file.create_virtual_dataset("observations", layout), "observations has its values in other files"),
        (lambda file: file.update({"observations": h5py.ExternalLink("other.h5", "observations")}), "observations is a link to another file"),
        (lambda file: file.update({"observations/a": h5py.ExternalLink("other.h5", "observations")}), "observations/a is a link to another file"),
        (lambda file: file.update({"observations": h5py.SoftLink("/infos/secret")}), "observations is a link to another file"),
        (lambda file: file.update({"observations/a": file.create_group("observations")}), "observations/a is a link to a group"),
        (lambda file: file.create_group("observations").update({"a": file["/"]}), "observations/a is a link to a group"),
    ]
    for change, text in cases:
        write(change)
        for read in (rl.arrays_of, gpu.Store.of_dataset):
            with pytest.raises(ValueError, match=f"data.h5: the array {text}"):
                read(path)
    # Unwanted arrays are not followed, and other names of an array in the same file are no other file.
    write(share)
    expect_all(rl.arrays_of(path))


def test_safetensors_of_others(tmp_path: pathlib.Path) -> None:
    writer = pytest.importorskip("safetensors.numpy")
    path = tmp_path / "data.safetensors"
    writer.save_file(data(), path)
    expect_all(rl.arrays_of(path))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda whole: b"", "truncated"),
        (lambda whole: whole[:40], "truncated"),
        (lambda whole: (1 << 60).to_bytes(8, "little") + whole[8:], "truncated"),
        (lambda whole: whole[:8] + b"!" + whole[9:], "header is damaged"),
        (lambda whole: whole[:-1], "in the bytes from"),
        (lambda whole: whole.replace(b"F32", b"F99"), "must be one of BOOL"),
        (lambda whole: whole.replace(b'"shape"', b'"shade"'), "an unexpected form"),
        (lambda whole: whole.replace(b"[9, 2, 3]", b"[9,-2,-3]"), "in the bytes from"),
        (lambda whole: whole.replace(b'"rewards"', b'"regards"'), "these arrays are missing: rewards"),
    ],
)
def test_damaged_safetensors(tmp_path: pathlib.Path, change: Any, text: str) -> None:
    path = tmp_path / "data.safetensors"
    path.write_bytes(change(safetensors(data(), NAMES)))
    with pytest.raises(ValueError, match=text):
        rl.arrays_of(path)


def table(by_episode: bool) -> Any:
    pyarrow = pytest.importorskip("pyarrow")
    arrays = data()
    if by_episode:
        arrays.pop("timeouts")
    columns = {}
    for name, array in arrays.items():
        rows: Any = array.tolist()
        columns[name] = pyarrow.array([rows[start : start + 3] for start in (0, 3, 6)] if by_episode else rows)
    columns["observations"] = columns["observations"].cast(
        pyarrow.list_(pyarrow.list_(pyarrow.list_(pyarrow.float32()))) if by_episode else pyarrow.list_(pyarrow.list_(pyarrow.float32(), 3), 2)
    )
    return pyarrow.table(columns)


def test_unused_columns_are_not_read(tmp_path: pathlib.Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    named = table(by_episode=False).append_column("episode_id", pyarrow.array([f"episode {row // 3}" for row in range(ROWS)]))
    parquet.write_table(named, tmp_path / "data.parquet")
    for given in (tmp_path / "data.parquet", named):
        found = rl.arrays_of(given)
        expect_all(found)
        assert "episode_id" not in found


@pytest.mark.parametrize("by_episode", [False, True])
def test_tables_of_arrow(tmp_path: pathlib.Path, by_episode: bool) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import feather, parquet

    made = table(by_episode)
    expect_all(rl.arrays_of(made))
    parquet.write_table(made, tmp_path / "data.parquet", row_group_size=2)
    feather.write_feather(made, tmp_path / "data.feather")
    with pyarrow.OSFile(str(tmp_path / "data.arrow"), "wb") as sink, pyarrow.ipc.new_stream(sink, made.schema) as writer:
        writer.write_table(made, max_chunksize=2)
    for name in ("data.parquet", "data.feather", "data.arrow"):
        expect_all(rl.arrays_of(tmp_path / name))
        with gpu.Store.of_dataset(tmp_path / name) as store:
            assert len(store) == 3


def test_tables_that_are_not_data_sets_are_refused() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    good = table(False)
    for column, values, text in (
        ("observations", [[1.0]] * (ROWS - 1) + [[1.0, 2.0]], "lists of 1 to 2 values"),
        ("rewards", [None, *range(ROWS - 1)], "1 values are missing"),
        ("actions", ["left"] * ROWS, "is not a number type"),
    ):
        place = good.column_names.index(column)
        with pytest.raises(ValueError, match=text):
            rl.arrays_of(good.set_column(place, column, pyarrow.array(values)))
    by_episode = table(True)
    with pytest.raises(ValueError, match="has a different number"):
        rl.arrays_of(by_episode.set_column(1, "actions", pyarrow.array([[1], [2], [3]])))


def by_row(**others: Any) -> Any:
    """Returns a table with one row per episode, with the arrays of `data` except those that are replaced, or removed by
    ``None``."""
    pyarrow = pytest.importorskip("pyarrow")
    arrays = {name: array for name, array in {**data(), **others}.items() if array is not None}
    return pyarrow.table({name: [array.tolist()[:2], [], array.tolist()[2:]] for name, array in arrays.items()})


@pytest.mark.parametrize(
    ("terminals", "timeouts", "expected"),
    [
        # The episodes of terminals at steps 2 and 8, and of the boundary after the first two steps.
        ([2, 8], None, [1]),
        ([2, 8], [], [1]),
        ([2, 8], [5, 8], [1, 5, 8]),
        ([1], [], [8]),
        (None, [], [1, 8]),
        (None, None, [1, 8]),
    ],
)
def test_rows_of_tables_end_episodes(terminals: Any, timeouts: Any, expected: list[int]) -> None:
    def marks(steps: Any, dtype: Any) -> Any:
        return None if steps is None else np.isin(np.arange(ROWS), steps).astype(dtype)

    for dtype in (bool, np.float32):
        changed = {"terminals": marks(terminals, dtype), "timeouts": marks(timeouts, dtype)}
        found = rl.arrays_of(by_row(**changed), required=())
        assert np.flatnonzero(found["timeouts"]).tolist() == expected
        with gpu.Store.of_dataset(by_row(**changed)) as store:
            ends = {*expected, *(terminals or [])}
            assert len(store) == len(ends)


def test_tables_without_rewards_have_episodes_in_rows() -> None:
    for others, episodes in (({}, 4), ({"terminals": None}, 3), ({"timeouts": None}, 3)):
        with gpu.Store.of_dataset(by_row(rewards=None, **others)) as store:
            assert len(store) == episodes
    with pytest.raises(ValueError, match="In a table with one row per episode, rewards, terminals or timeouts must be lists"):
        gpu.Store.of_dataset(by_row(rewards=None, terminals=None, timeouts=None))


def test_other_tables_of_pyarrow(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("pyarrow")
    from pyarrow import dataset, parquet

    made = table(by_episode=False)
    (tmp_path / "shards").mkdir()
    parquet.write_table(made.slice(0, 4), tmp_path / "shards" / "0.parquet")
    parquet.write_table(made.slice(4), tmp_path / "shards" / "1.parquet")
    for form in (lambda: made.combine_chunks().to_batches()[0], made.to_reader, lambda: dataset.dataset(tmp_path / "shards")):
        expect_all(rl.arrays_of(form()))
        with gpu.Store.of_dataset(form()) as store:
            assert len(store) == 3
    for read in (rl.arrays_of, gpu.Store.of_dataset, lambda folder: rl.DQN().train("catch/0", data=folder, learner_steps=1)):
        with pytest.raises(ValueError, match=r"shards: a folder as a data set must have .*/0.parquet, or pyarrow.dataset.dataset\(folder\)"):
            read(tmp_path / "shards")
    with pytest.raises(TypeError, match=r"list is not a data set; give pyarrow.dataset.dataset\(paths\), if these are Parquet"):
        rl.arrays_of([tmp_path / "shards" / "0.parquet"])


def test_columns_of_other_types_are_refused_with_a_remedy() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    good = table(False)
    tensors = pyarrow.FixedShapeTensorArray.from_numpy_ndarray(np.ones((ROWS, 3)))
    for column, text in (
        (pyarrow.array([{"eye": 1.0}] * ROWS), "its own column, with a name such as observations/eye"),
        (pyarrow.array([decimal.Decimal("1.5")] * ROWS), "is not a number type; cast the column to float64"),
        (tensors, "is not a number type; give its storage, which has lists"),
    ):
        with pytest.raises(ValueError, match=f"the table, column 'observations': .*{text}"):
            rl.arrays_of(good.set_column(0, "observations", column))
    expect_all(rl.arrays_of(good))
    with pytest.raises(ValueError, match="the table: there are 2 columns 'rewards'; give each column a different name"):
        rl.arrays_of(good.append_column("rewards", good["rewards"]))


@pytest.mark.parametrize("kind", ["parquet", "file", "stream", "h5"])
def test_all_damage_is_reported_with_the_path(tmp_path: pathlib.Path, kind: str) -> None:
    pyarrow, h5py = pytest.importorskip("pyarrow"), pytest.importorskip("h5py")
    from pyarrow import parquet

    path = tmp_path / f"data.{kind if kind in ('parquet', 'h5') else 'arrow'}"
    if kind == "parquet":
        parquet.write_table(table(False), path)
    elif kind == "h5":
        with h5py.File(path, "w") as file:
            for name, array in data().items():
                file.create_dataset(name, data=array, compression="gzip")
    else:
        begin = pyarrow.ipc.new_file if kind == "file" else pyarrow.ipc.new_stream
        with pyarrow.OSFile(str(path), "wb") as sink, begin(sink, table(False).schema) as writer:
            writer.write_table(table(False))
    whole = path.read_bytes()
    for place in range(0, len(whole), max(1, len(whole) // 100)):
        for content in (whole[:place], whole[:place] + b"\xff" * 12 + whole[place + 12 :]):
            path.write_bytes(content)
            try:
                rl.arrays_of(path)
            except ValueError as error:
                assert str(path) in str(error), error
                assert type(error) is ValueError
    path.write_bytes(whole[:-9] if kind != "stream" else whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=f"data.{path.suffix[1:]}: not an? .* file, or damaged"):
        rl.arrays_of(path)
    with pytest.raises(FileNotFoundError):
        rl.arrays_of(tmp_path / f"other{path.suffix}")


def test_agents_learn_from_a_parquet_file(tmp_path: pathlib.Path) -> None:
    environment = rl.make("catch/0", seed=1)
    spec = rl.make_environment_spec(environment)
    shape = (12, *spec.observations.shape)
    arrays = {
        "observations": np.zeros(shape, np.float32), "actions": np.ones(12, np.int64), "rewards": np.zeros(12), "terminals": np.arange(12) % 4 == 3,
    }
    path = tmp_path / "data.safetensors"
    path.write_bytes(safetensors(arrays, NAMES))
    assert rl.run(rl.DQN(min_replay_size=4), "catch/0", data=path, learner_steps=3, progress=False).learner_steps == 3


def test_files_of_numpy(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "data.npz"
    rows = {"observations/eye": np.zeros((4, 2), np.uint8), "observations/arm": np.ones((4, 3)), "actions": np.arange(4)}
    np.savez_compressed(path, **rows, rewards=np.ones(4), terminals=np.arange(4) == 3, infos=np.array([None]))  # type: ignore[arg-type]
    found = rl.arrays_of(path)
    assert found.keys() == {*rows, "rewards", "terminals"}
    for name, array in rows.items():
        assert found[name].dtype == array.dtype and np.array_equal(found[name], array)
    rl.save_dataset(tmp_path / "again.npz", path)
    assert rl.arrays_of(tmp_path / "again.npz").keys() == found.keys()
    plain = tmp_path / "plain.npz"
    np.savez(plain, **{name: np.zeros(1000) for name in ("observations", "actions", "rewards", "terminals")})  # type: ignore[arg-type]
    damaged = bytearray(plain.read_bytes())
    damaged[4000] ^= 1
    for content in (b"", path.read_bytes()[:-30], damaged):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="data.npz: not a file of numpy's savez, or damaged"):
            rl.arrays_of(path)
    with open(path, "wb") as file:
        np.save(file, np.zeros(3))
    with pytest.raises(ValueError, match="data.npz: not a file of numpy's savez, or damaged"):
        rl.arrays_of(path)


def test_folders_of_recorded_episodes_as_arrays(tmp_path: pathlib.Path) -> None:
    ends = np.array([1, 1, 0], np.float32), np.ones(2, np.float32)
    episodes = [
        recorded.Episode(np.arange(len(end) + 1.0), np.arange(len(end)), np.ones(len(end), np.float32), end) for end in ends
    ]
    recorded.save(tmp_path / "data", episodes)
    found = {name: array.tolist() for name, array in rl.arrays_of(tmp_path / "data").items()}
    assert found == {
        "observations": [0, 1, 2, 0, 1], "next_observations": [1, 2, 3, 1, 2], "actions": [0, 1, 2, 0, 1], "rewards": [1] * 5,
        "terminals": [False, False, True, False, False], "timeouts": [False] * 4 + [True],
    }


def test_lists_of_numbers_are_arrays() -> None:
    found = rl.arrays_of({"observations": [[0.5, 1], [2, 3]], "actions": [1, 0], "rewards": [np.float32(1), 0], "terminals": [False, True]})
    assert found["observations"].shape == (2, 2) and found["actions"].tolist() == [1, 0] and found["rewards"].tolist() == [1, 0]


def test_other_file_extensions_are_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(FileNotFoundError, match="there is no file or folder .*data.csv"):
        rl.arrays_of(tmp_path / "data.csv")
    (tmp_path / "data.csv").touch()
    with pytest.raises(ValueError, match=r"the extension of a data set must be one of .hdf5, .h5, .parquet"):
        rl.arrays_of(tmp_path / "data.csv")
