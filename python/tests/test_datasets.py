"""Datasets of numpy arrays."""

import logging
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import relive
from relive import _datasets, errors
from relive.specs import ArraySpec

SIGNATURE = {"a": ArraySpec((None, 3), "float32"), "b": [ArraySpec((), "int32")]}
INFO_DTYPES = [np.uint64, np.float64, np.int64, np.float64, np.int32]


@pytest.fixture
def server() -> Iterator[relive.Server]:
    tables = [
        relive.Table.queue("signed", 100, signature=SIGNATURE),
        relive.Table.queue("plain", 100),
        relive.Table.queue("steps", 100, signature={"x": ArraySpec((2,), "float64"), "y": ArraySpec((), "int64")}),
    ]
    with relive.Server(tables, host="127.0.0.1") as server:
        yield server


def write(server: relive.Server, table: str, trajectories: list[Any]) -> None:
    """Writes items with the rows of arrays as columns; a tuple gives a squeezed column."""
    # Tables for single steps have signatures of single steps, which items with several steps do not match.
    with server.localhost_client().trajectory_writer(10, validate_items=False) as writer:
        for trajectory in trajectories:
            leaves = relive.nest.flatten(trajectory)
            for row in range(max(len(leaf) for leaf in leaves)):
                writer.append([leaf[row] if row < len(leaf) else None for leaf in leaves])
            past = writer.history
            columns = [
                past[index][0] if isinstance(leaf, Squeezed) else past[index][: len(leaf)]
                for index, leaf in enumerate(leaves)
            ]
            writer.create_item(table, 1.0, columns)
            writer.end_episode()


class Squeezed(np.ndarray[Any, Any]):
    """One row, without its leading dimension."""

    @staticmethod
    def of(value: Any) -> "Squeezed":
        return np.asarray([value]).view(Squeezed)


def dataset(server: relive.Server, table: str, dtypes: Any, shapes: Any, kind: Any = None, **options: Any) -> Any:
    options = {"max_in_flight_samples_per_worker": 2, "rate_limiter_timeout_ms": 0, **options}
    return (kind or relive.TrajectoryDataset)(server.localhost_client(), table, dtypes, shapes, **options)


KINDS = [relive.TrajectoryDataset, relive.TimestepDataset]


class TestArguments:
    GOOD = {"server_address": "localhost:1", "table": "t", "dtypes": np.int8, "shapes": (), "max_in_flight_samples_per_worker": 1}

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize(
        ("option", "value", "said"),
        [
            ("max_in_flight_samples_per_worker", 0, "positive integer"),
            ("num_workers_per_iterator", 0, "positive integer or -1"),
            ("num_workers_per_iterator", -2, "positive integer or -1"),
            ("max_samples_per_stream", 0, "positive integer or -1"),
            ("max_samples", 0, "positive integer or -1"),
            ("max_samples", -3, "positive integer or -1"),
            ("rate_limiter_timeout_ms", -2, "integer >= -1"),
        ],
    )
    def test_ranges(self, kind: Any, option: str, value: int, said: str) -> None:
        with pytest.raises(ValueError, match=rf"{option} \({value}\) must be an? {said}"):
            kind(**{**self.GOOD, option: value})

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize(
        ("dtypes", "shapes"),
        [
            ({"a": np.int8, "b": np.int8}, {"a": ()}),
            ({"a": np.int8}, [()]),
            ([np.int8], [(), ()]),
        ],
    )
    def test_structures(self, kind: Any, dtypes: Any, shapes: Any) -> None:
        with pytest.raises(ValueError, match="structures differ"):
            kind(**{**self.GOOD, "dtypes": dtypes, "shapes": shapes})

    def test_element_spec(self) -> None:
        made = relive.TrajectoryDataset("localhost:1", "t", {"a": [np.int8, "float32"]}, {"a": [None, (None, 2)]}, 1)
        spec = made.element_spec
        assert spec.data == {"a": (ArraySpec(None, "int8"), ArraySpec((None, 2), "float32"))}
        assert [leaf.dtype for leaf in spec.info] == INFO_DTYPES


class TestFromTableSignature:
    @pytest.mark.parametrize("kind", KINDS)
    def test_types_and_shapes_come_from_the_signature(self, server: relive.Server, kind: Any) -> None:
        made = kind.from_table_signature(f"localhost:{server.port}", "signed", 2, get_signature_timeout_secs=10)
        assert made.element_spec.data == {"a": SIGNATURE["a"], "b": tuple(SIGNATURE["b"])}

    @pytest.mark.parametrize("kind", KINDS)
    def test_unknown_table(self, server: relive.Server, kind: Any) -> None:
        with pytest.raises(ValueError, match=rf"localhost:{server.port}.* named other. Found: plain, signed, steps."):
            kind.from_table_signature(f"localhost:{server.port}", "other", 2)

    @pytest.mark.parametrize("kind", KINDS)
    def test_no_signature(self, server: relive.Server, kind: Any) -> None:
        with pytest.raises(ValueError, match=rf"plain.*localhost:{server.port} does not have a signature. .*: signed, "):
            kind.from_table_signature(f"localhost:{server.port}", "plain", 2)

    @pytest.mark.parametrize("timeout", [{"get_signature_timeout_secs": 0.05}, {"get_signature_timeout_ms": 50}])
    def test_no_server(self, timeout: Any) -> None:
        with pytest.raises(errors.DeadlineExceededError):
            relive.TrajectoryDataset.from_table_signature("localhost:1", "t", 2, **timeout)


class TestTrajectories:
    def test_samples(self, server: relive.Server) -> None:
        rows = np.arange(6, dtype=np.float32).reshape(2, 3)
        write(server, "signed", [{"a": rows, "b": [Squeezed.of(np.int32(7))]}] * 3)
        made = relive.TrajectoryDataset.from_table_signature(
            server.localhost_client(), "signed", 1, rate_limiter_timeout_ms=0
        )
        samples = list(made)
        assert len(samples) == 3
        first = samples[0]
        assert isinstance(first, relive.ReplaySample)
        assert [type(value) for value in first.info] == INFO_DTYPES
        assert first.info.priority == 1.0
        assert first.info.times_sampled == 1
        np.testing.assert_array_equal(first.data["a"], rows)
        assert type(first.data["b"]) is tuple
        assert (first.data["b"][0].shape, first.data["b"][0]) == ((), 7)

    def test_ends_by_number(self, server: relive.Server) -> None:
        write(server, "plain", [[np.arange(2)]] * 5)
        made = dataset(server, "plain", [np.int64], [(None,)], max_samples=2, rate_limiter_timeout_ms=-1)
        assert len(list(made)) == 2

    def test_ends_by_time(self, server: relive.Server) -> None:
        made = dataset(server, "plain", [np.int64], [(None,)], rate_limiter_timeout_ms=20)
        assert list(made) == []

    def test_can_be_iterated_again(self, server: relive.Server) -> None:
        made = dataset(server, "plain", [np.int64], [(None,)])
        assert list(made) == []
        write(server, "plain", [[np.arange(2)]])
        assert len(list(made)) == 1

    def test_unknown_table(self, server: relive.Server) -> None:
        with pytest.raises(RuntimeError, match="other"):
            next(iter(dataset(server, "other", [np.int64], [()])))

    def test_strings(self, server: relive.Server) -> None:
        write(server, "plain", [[np.array(["x", "yz", ""], object)]])
        (sample,) = dataset(server, "plain", [str], [(None,)])
        assert sample.data[0].tolist() == [b"x", b"yz", b""]


class TestComparison:
    """Checks requests against signatures, and samples against both."""

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize(
        ("dtypes", "shapes", "said"),
        [
            (
                {"a": np.float64, "b": [np.int32]},
                {"a": (None, 3), "b": [()]},
                r"column 0 .*'signed'.*requested \(dtype, shape\): \(double, \[\?,3\]\).*"
                r"signature \(dtype, shape\): \(float, \[\?,3\]\)",
            ),
            (
                {"a": np.float32, "b": [np.int32]},
                {"a": (None, 4), "b": [()]},
                r"column 0 .*'signed'.*\(float, \[\?,4\]\).*\(float, \[\?,3\]\)",
            ),
            ({"a": np.float32}, {"a": (None, 3)}, "1 columns were requested .*'signed'.* has 2"),
        ],
    )
    def test_requests(self, server: relive.Server, kind: Any, dtypes: Any, shapes: Any, said: str) -> None:
        with pytest.raises(errors.InvalidArgumentError, match=said):
            next(iter(dataset(server, "signed", dtypes, shapes, kind)))

    def test_requests_may_be_less_specific(self, server: relive.Server) -> None:
        made = dataset(server, "signed", {"a": np.float32, "b": [np.int32]}, {"a": None, "b": [()]})
        assert list(made) == []

    @pytest.mark.parametrize(
        ("dtypes", "shapes", "said"),
        [
            ([np.int32], [(None,)], r"specification \(dtype, shape\): \(int32, \[\?\]\), tensor .*: \(int64, \[2\]\)"),
            ([np.int64], [(3,)], r"'plain'.*\(int64, \[3\]\), tensor \(dtype, shape\): \(int64, \[2\]\)"),
            ([np.int64, np.int64], [None, None], "has 1 columns, but 2 were expected"),
        ],
    )
    def test_samples(self, server: relive.Server, dtypes: Any, shapes: Any, said: str) -> None:
        write(server, "plain", [[np.arange(2)]])
        with pytest.raises(ValueError, match=said):
            next(iter(dataset(server, "plain", dtypes, shapes)))

    def test_a_server_without_signatures_is_tolerated(
        self, server: relive.Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        def late(_: Any, timeout: Any = None) -> Any:
            raise errors.DeadlineExceededError(f"{timeout} s")

        write(server, "plain", [[np.arange(2)]])
        monkeypatch.setattr(relive.Client, "server_info", late)
        with caplog.at_level(logging.WARNING, "relive"):
            assert len(list(dataset(server, "plain", [np.int64], [(2,)]))) == 1
        assert "no signature of table 'plain'" in caplog.text


@pytest.mark.parametrize(
    ("seconds", "milliseconds", "timeout"), [(None, None, None), (3, 500, 3), (None, 500, 0.5), (None, 0, None), (None, -1, None)]
)
def test_the_time_to_wait_for_a_signature(seconds: Any, milliseconds: Any, timeout: Any) -> None:
    assert _datasets.signature_timeout(seconds, milliseconds) == timeout


class TestTimesteps:
    def test_steps(self, server: relive.Server) -> None:
        write(server, "steps", [{"x": np.arange(6.0).reshape(3, 2), "y": np.arange(3)}] * 2)
        made = relive.TimestepDataset.from_table_signature(
            server.localhost_client(), "steps", 1, rate_limiter_timeout_ms=0
        )
        steps = list(made)
        assert [step.data["y"].item() for step in steps] == [0, 1, 2] * 2
        assert steps[1].data["x"].tolist() == [2.0, 3.0]
        assert steps[0].info == steps[2].info
        assert steps[0].info.key != steps[3].info.key

    def test_texts_are_arrays(self, server: relive.Server) -> None:
        write(server, "plain", [[np.array([b"a", b"bc"], object), np.arange(2)]])
        steps = dataset(server, "plain", [np.object_, np.int64], [(), ()], relive.TimestepDataset)
        assert [[column.item() for column in step.data] for step in steps] == [[b"a", 0], [b"bc", 1]]

    def test_squeezed_columns_are_one_step(self, server: relive.Server) -> None:
        write(server, "plain", [[Squeezed.of([1, 2]), np.arange(1)]])
        (step,) = dataset(server, "plain", [np.int64, np.int64], [(2,), ()], relive.TimestepDataset)
        assert [column.tolist() for column in step.data] == [[1, 2], 0]

    def test_columns_of_different_lengths(self, server: relive.Server) -> None:
        write(server, "plain", [[np.arange(2), np.arange(3)]])
        with pytest.raises(errors.InvalidArgumentError, match=r"'plain' cannot be split into steps.*\[2, 3\]"):
            next(iter(dataset(server, "plain", [np.int64, np.int64], [(), ()], relive.TimestepDataset)))


class TestTensorFlow:
    @pytest.mark.tensorflow
    def test_the_same_samples(self, server: relive.Server) -> None:
        write(server, "plain", [[np.arange(2)]] * 3)
        made = relive.TrajectoryDataset(
            f"localhost:{server.port}", "plain", [np.int64], [(None,)], 1, rate_limiter_timeout_ms=10
        ).as_tf_dataset()
        samples = list(made.as_numpy_iterator())
        assert [sample.data[0].tolist() for sample in samples] == [[0, 1]] * 3

    @pytest.mark.tensorflow
    @pytest.mark.parametrize("size", [0, None])
    @pytest.mark.parametrize("kind", KINDS)
    def test_empty_columns(self, server: relive.Server, kind: Any, size: int | None) -> None:
        write(server, "plain", [[np.arange(2), np.zeros((2, 0))]] * 3)
        rows = () if kind is relive.TimestepDataset else (None,)
        made = kind(
            f"localhost:{server.port}",
            "plain",
            [np.int64, np.float64],
            [rows, (*rows, size)],
            2,
            rate_limiter_timeout_ms=10,
        ).as_tf_dataset()
        steps = [sample.data[0].tolist() for sample in made.as_numpy_iterator()]
        assert np.ravel(steps).tolist() == [0, 1] * 3

    @pytest.mark.tensorflow
    @pytest.mark.parametrize(
        "pipeline",
        [
            "samples.prefetch(3)",
            "samples.repeat().prefetch(3)",
            "samples.map(lambda *parts: parts, num_parallel_calls=2)",
            # Any of the two may get the only sample.
            "tf.data.Dataset.range(2).interleave("
            "lambda _: samples, cycle_length=2, num_parallel_calls=2, deterministic=False)",
        ],
    )
    @pytest.mark.parametrize("ending", ["", "raise KeyError('expected')"])
    def test_a_program_ends_while_a_thread_waits_for_samples(self, pipeline: str, ending: str) -> None:
        program = UNFINISHED_PROGRAM.format(pipeline=pipeline, ending=ending)
        run = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
        )
        assert run.stdout == "one sample\n"
        assert (run.returncode, "expected" in run.stderr) == (int(bool(ending)), bool(ending)), run.stderr


UNFINISHED_PROGRAM = """
import relive
import tensorflow as tf

server = relive.Server([relive.Table.queue("table", 10)], host="127.0.0.1")
server.localhost_client().insert(1, {{"table": 1.0}})
samples = relive.TrajectoryDataset(f"localhost:{{server.port}}", "table", "int64", (1,), 5).as_tf_dataset()
iterator = ({pipeline}).as_numpy_iterator()
next(iterator)
print("one sample")
{ending}
"""
