"""The structured writer against servers."""

import gc
import pickle
from typing import Any

import numpy as np
import pytest
from structured_steps import REF, STEP, parse

import relive
from relive import structured
from relive.specs import ArraySpec
from relive.structured_writer import Condition


@pytest.fixture
def server() -> Any:
    with relive.Server([relive.Table.queue("table", 100)], host="127.0.0.1") as server:
        yield server


def items(server: relive.Server) -> list[Any]:
    client = server.localhost_client()
    count = client.server_info(timeout=10)["table"].current_size
    samples = client.sample("table", count, emit_timesteps=False, timeout=10) if count else ()
    return [sample.data for sample in samples]


class TestWriter:
    def writer(self, server: relive.Server, pattern: Any, *conditions: Any, **options: Any) -> Any:
        config = structured.create_config(pattern, "table", conditions, **options)
        return server.localhost_client().structured_writer([config])

    def test_items_follow_the_pattern(self, server: relive.Server) -> None:
        step = structured.create_reference_step({"x": None, "y": None})
        with self.writer(server, {"b": step["y"][-1], "a": step["x"][-2:]}) as writer:
            for number in range(4):
                writer.append({"x": np.float32(number), "y": -number})
        written = items(server)
        assert [columns[0].tolist() for columns in written] == [[0, 1], [1, 2], [2, 3]]
        assert [columns[1].tolist() for columns in written] == [-1, -2, -3]

    def test_strides_select_the_named_steps(self, server: relive.Server) -> None:
        # dm-reverb stores neighboring rows instead.
        step = structured.create_reference_step([None])
        with self.writer(server, [step[0][-5::2]]) as writer:
            for number in range(5):
                writer.append([number])
        assert [columns[0].tolist() for columns in items(server)] == [[0, 2, 4]]

    def test_conditions(self, server: relive.Server) -> None:
        step = structured.create_reference_step([None])
        with self.writer(server, [step[0][-1]], Condition.step_index() % 3 == 1) as writer:
            for number in range(8):
                writer.append([number])
        assert [columns[0].tolist() for columns in items(server)] == [1, 4, 7]

    def test_conditions_on_data_and_end(self, server: relive.Server) -> None:
        data = Condition.data([None])
        step = structured.create_reference_step([None])
        configs = [
            structured.create_config([step[0][-1]], "table", [data[0] >= 3]),
            structured.create_config([step[0][-2:]], "table", [Condition.is_end_episode()]),
        ]
        writer = server.localhost_client().structured_writer(configs)
        for number in range(5):
            writer.append([number])
        writer.end_episode()
        assert [columns[0].tolist() for columns in items(server)] == [3, 4, [3, 4]]

    def test_partial_steps(self, server: relive.Server) -> None:
        step = structured.create_reference_step([None, None])
        writer = self.writer(server, [step[0][-1], step[1][-1]])
        assert not writer.step_is_open
        writer.append([1, None], partial_step=True)
        assert writer.step_is_open
        writer.append([None, 2])
        assert not writer.step_is_open
        writer.flush()
        assert [[column.tolist() for column in columns] for columns in items(server)] == [[1, 2]]

    def test_steps_without_values_apply_no_pattern(self, server: relive.Server) -> None:
        step = structured.create_reference_step({"a": None, "b": None})
        due = Condition.steps_since_applied() >= 3
        with self.writer(server, {"x": step["a"][-1]}, due) as writer:
            for value in (1, None, None, 4, 5, 6):
                writer.append({"a": value, "b": 0})
        with self.writer(server, {"x": step["a"][-2]}, Condition.is_end_episode()) as writer:
            writer.append({"a": 7, "b": 0})
            writer.append({"a": None, "b": 0})
            writer.end_episode()
        assert [columns[0].tolist() for columns in items(server)] == [5]

    def test_td_error(self, server: relive.Server) -> None:
        step = structured.create_reference_step([None])
        priority = structured.td_error(0.75, [None], lambda one: one[0])
        with self.writer(server, [step[0][-2:]], priority=priority) as writer:
            writer.append([np.float64(-4)])
            writer.append([np.float64(2)])
        sample = next(server.localhost_client().sample("table", emit_timesteps=False, timeout=10))
        assert sample.info.priority == 0.75 * 4 + 0.25 * 3

    @pytest.mark.parametrize(
        ("dtype", "shape", "steps"), [(np.int64, (2,), 2), (np.float32, (3,), 2), (np.float32, (2, 1), 2)], ids=["dtype", "steps", "rank"]
    )
    def test_items_match_the_signature(self, dtype: Any, shape: tuple[int, ...], steps: int) -> None:
        table = relive.Table.queue("typed", 10, signature={"x": ArraySpec(shape, dtype)})
        with relive.Server([table]) as server:
            for client in (server.localhost_client(), relive.Client(f"localhost:{server.port}")):
                step = structured.create_reference_step({"a": None})
                writer = client.structured_writer([structured.create_config({"x": step["a"][-steps:]}, "typed")])
                for step in range(3):
                    # Nothing of the step is stored, so that it may be corrected.
                    with pytest.raises(ValueError, match="signature"):
                        writer.append({"a": np.float32(step)})
                writer.end_episode(timeout_ms=10_000)
                writer.close()
                assert client.server_info()["typed"].current_size == 0

    def test_steps_of_classes_with_their_own_constructors(self, server: relive.Server) -> None:
        class Made(dict[str, Any]):
            def __init__(self, length: int) -> None:
                super().__init__({"x": np.full(length, length)})

        step = structured.create_reference_step({"x": None})
        writer = self.writer(server, step["x"][-1])
        for _ in range(2):
            writer.append(Made(3))
        writer.flush(timeout_ms=10_000)
        assert server.localhost_client().server_info()["table"].current_size == 2

    def test_an_unknown_table(self, server: relive.Server) -> None:
        step = structured.create_reference_step(None)
        for client in (server.localhost_client(), relive.Client(f"localhost:{server.port}")):
            writer = client.structured_writer([structured.create_config(step[-1], "nowhere")])
            with pytest.raises(ValueError, match="nowhere"):
                writer.append(np.float32(1))

    @pytest.mark.parametrize("value", [np.float32(1), np.array([1, 2]), np.uint64(2**63), "1"], ids=["float", "vector", "large", "string"])
    def test_values_that_a_condition_cannot_use(self, server: relive.Server, value: Any) -> None:
        step = {"obs": None, "reward": None}
        reference = structured.create_reference_step(step)
        condition = structured.Condition.data(step)["reward"] >= 1
        config = structured.create_config({"x": reference["obs"][-1]}, "table", conditions=[condition])
        writer = server.localhost_client().structured_writer([config])
        with pytest.raises(ValueError, match=r"column 'reward' is .*; a condition needs one integer below 2\*\*63 or one bool per step"):
            writer.append({"obs": 1, "reward": value})

    def test_other_structure(self, server: relive.Server) -> None:
        writer = self.writer(server, [REF["a"][-1]])
        with pytest.raises(TypeError):
            writer.append({**STEP, "a": object()})
        writer.append(STEP)
        with pytest.raises(ValueError, match=r"the structure \{a, b: \{c, d: \{0, 1\}\}\}, but this one has \{0\}; all steps must"):
            writer.append([1])
        with pytest.raises(ValueError, match=r"but this one has \{a, b: \{d: \{0, 1\}, e\}\}"):
            writer.append({**STEP, "b": {"d": STEP["b"]["d"], "e": STEP["b"]["c"]}})
        writer.append(STEP)
        writer.flush(timeout_ms=10_000)
        assert server.localhost_client().server_info()["table"].current_size == 2

    def test_a_list_of_numbers_is_one_array(self, server: relive.Server) -> None:
        step = structured.create_reference_step({"obs": None, "reward": None, "pair": [None, None]})
        pattern = {"obs": step["obs"][-1], "reward": step["reward"][-1], "second": step["pair"][1][-1]}
        with self.writer(server, pattern) as writer:
            writer.append({"obs": [0.1, 0.2], "reward": 9.0, "pair": [1, 2]})
            writer.append({"obs": np.array([0.3, 0.4]), "reward": 8.0, "pair": [3, 4]})
            with pytest.raises(ValueError, match=r"column 2 \(path=\('pair', 1\)\)\. Got float64"):
                writer.append({"obs": [0.5, 0.6], "reward": 7.0, "pair": [5, 6.0]})
        assert [[column.tolist() for column in columns] for columns in items(server)] == [[[0.1, 0.2], 9, 2], [[0.3, 0.4], 8, 4]]

    @pytest.mark.parametrize("step", [
        {"a": 7.0, "obs": 1.0, "reward": 9.0}, {"obs": (1.0, 2.0), "reward": 9.0}, {"obs": 1.0}, {"obs": 1.0, "rewards": 9.0}, [1.0, 9.0],
        {"obs": {"x": 1.0}, "reward": 9.0}, {"obs": [np.float64(1)], "reward": 9.0},
    ], ids=str)
    def test_the_first_step_has_the_structure_of_the_reference_step(self, server: relive.Server, step: Any) -> None:
        reference = structured.create_reference_step({"obs": None, "reward": None})
        config = structured.create_config({"x": reference["obs"][-1]}, "table")
        for known in (config, pickle.loads(pickle.dumps(config))):
            writer = server.localhost_client().structured_writer([known])
            with pytest.raises(ValueError, match=r"the reference step of this writer has the structure \{obs, reward\}, but this one has \{"):
                writer.append(step)
            writer.append({"reward": 1.0, "obs": 2.0})
            writer.flush()
        assert [columns[0].tolist() for columns in items(server)] == [2, 2]

    def test_a_reference_step_of_one_value(self, server: relive.Server) -> None:
        writer = self.writer(server, structured.create_reference_step(None)[-1])
        with pytest.raises(ValueError, match=r"has the structure of a single value, but this one has \{0, 1\}"):
            writer.append([1.0, 2.0])

    def test_configurations_of_different_reference_steps_are_refused(self, server: relive.Server) -> None:
        one, other = (structured.create_reference_step(names) for names in ({"a": None, "b": None}, {"a": None}))
        configs = [structured.create_config(step["a"][-1], "table") for step in (one, other)]
        with pytest.raises(ValueError, match=r"different structures, \{a, b\} and \{a\}"):
            server.localhost_client().structured_writer(configs)
        with pytest.raises(ValueError, match=r"different structures, \{a, b\} and \{a\}"):
            self.writer(server, [one["b"][-1], other["a"][-1]])

    def test_an_unknown_reference_step(self, server: relive.Server) -> None:
        config = parse('flat { flat_source_index: 1 stop: -1 } table: "table"')
        with server.localhost_client().structured_writer([config]) as writer:
            writer.append({"obs": [0.1, 0.2], "reward": 9.0})
            writer.append({"obs": [0.3, 0.4], "reward": 8.0})
            with pytest.raises(ValueError, match=r"the first step of this writer has the structure \{obs, reward\}, but"):
                writer.append({"obs": [0.3, 0.4], "reward": 8.0, "other": 1})
        assert [columns[0].tolist() for columns in items(server)] == [9, 8]

    def test_other_dtype(self, server: relive.Server) -> None:
        writer = self.writer(server, [REF["a"][-1], REF["b"]["d"][1][-1]])
        writer.append(STEP)
        said = (
            r"^Tensor of wrong dtype provided for column 3 \(path=\('b', 'd', 1\)\)\. Got float64 but expected int64\.$"
        )
        with pytest.raises(ValueError, match=said):
            writer.append({**STEP, "b": {"c": np.int32(0), "d": [1, 2.5]}})

    def test_other_shape(self, server: relive.Server) -> None:
        writer = self.writer(server, [REF["a"][-1]])
        writer.append(STEP)
        said = (
            r"^Tensor of incompatible shape provided for column 0 \(path=\('a',\)\)\. "
            r"Got \(4, 1\) which is incompatible with \(3,\)\.$"
        )
        with pytest.raises(ValueError, match=said):
            writer.append({**STEP, "a": np.zeros((4, 1), np.float32)})

    def test_no_tensor(self, server: relive.Server) -> None:
        with pytest.raises(TypeError, match=r"^at \('b', 'd', 1\): a object is not a tensor"):
            self.writer(server, [REF["a"][-1]]).append({**STEP, "b": {"c": np.int32(0), "d": [1, object()]}})
        with pytest.raises(TypeError):
            self.writer(server, [REF["a"][-1]]).append({**STEP, "a": object()})

    def test_field_twice_in_a_step(self, server: relive.Server) -> None:
        step = structured.create_reference_step([None])
        writer = self.writer(server, [step[0][-1]])
        writer.append([1], partial_step=True)
        with pytest.raises(RuntimeError, match="already set in this step"):
            writer.append([1])

    def test_a_garbage_collected_structured_writer_writes_its_items(self, server: relive.Server) -> None:
        step = structured.create_reference_step([None])
        writer = self.writer(server, [step[0][-1]])
        writer.append([1])
        del writer
        gc.collect()
        assert server.localhost_client().server_info()["table"].current_size == 1

    def test_an_unknown_table_is_reported_by_flush(self, server: relive.Server) -> None:
        step = structured.create_reference_step([None])
        config = structured.create_config([step[0][-1]], "other")
        writer = server.localhost_client().structured_writer([config])
        with pytest.raises(RuntimeError, match="other"):  # noqa: PT012
            writer.append([1])
            writer.flush(timeout_ms=10_000)

    def test_flush_arguments(self, server: relive.Server) -> None:
        writer = self.writer(server, [REF["a"][-1]])
        with pytest.raises(ValueError, match="block_until_num_items must be >= 0"):
            writer.flush(-1)

    def test_flush_times_out(self) -> None:
        with relive.Server([relive.Table.queue("table", 1)], host="127.0.0.1") as server:
            step = structured.create_reference_step([None])
            writer = self.writer(server, [step[0][-1]])
            for number in range(2):
                writer.append([number])
            with pytest.raises(relive.DeadlineExceededError):
                writer.flush(timeout_ms=10)
            with pytest.raises(relive.DeadlineExceededError):
                writer.end_episode(timeout_ms=0)
            writer.close()

    def test_closed(self, server: relive.Server) -> None:
        writer = self.writer(server, [REF["a"][-1]])
        writer.close()
        writer.close()
        with pytest.raises(RuntimeError, match="closed"):
            writer.append(STEP)
