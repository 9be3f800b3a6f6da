"""Data sets from other sources, and the quality of the learned policies."""

from __future__ import annotations

import dataclasses
import pathlib
import re
from typing import Any

import gymnasium
import h5py
import numpy as np
import pytest

from relive import gpu, rl
from relive.rl import recorded


def transitions(count: int = 40) -> dict[str, Any]:
    """Episodes of catch with nine steps each, in which the paddle does not move."""
    environment = rl.make("catch/0", seed=1)
    rows: dict[str, list[Any]] = {name: [] for name in ("observations", "actions", "rewards", "terminals")}
    for _ in range(count):
        step = environment.reset()
        while not step.last():
            rows["observations"].append(step.observation)
            step = environment.step(1)
            rows["actions"].append(1)
            rows["rewards"].append(step.reward)
            rows["terminals"].append(step.last())
    return {name: np.array(values) for name, values in rows.items()}


def learned(data: Any, learner_steps: int = 50, **options: Any) -> rl.TrainingResult:
    return rl.BC(batch_size=32, hidden=(16,)).train("catch/0", data=data, learner_steps=learner_steps, **options)


def stays(result: rl.TrainingResult) -> bool:
    return result.policy(rl.make("catch/0", seed=3).reset().observation) == 1


@dataclasses.dataclass
class Episode:
    """An episode in Minari's format."""

    observations: Any
    actions: Any
    rewards: Any
    terminations: Any
    truncations: Any


class Storage:
    metadata: dict[str, Any] = {"ref_min_score": -1.0, "ref_max_score": 1.0}


class Dataset:
    """The parts of a Minari data set that are used."""

    storage = Storage()

    def __init__(self, episodes: list[Episode]) -> None:
        self._episodes = episodes

    def iterate_episodes(self) -> Any:
        return iter(self._episodes)


def minari_like(data: dict[str, Any]) -> Dataset:
    ends = np.flatnonzero(data["terminals"]) + 1
    episodes = []
    for begin, end in zip([0, *ends[:-1]], ends):
        seen = data["observations"][begin:end]
        rows = {name: data[name][begin:end] for name in ("actions", "rewards")}
        terminations = data["terminals"][begin:end]
        observations = np.concatenate([seen, seen[-1:]])
        episodes.append(Episode(observations, **rows, terminations=terminations, truncations=np.zeros(end - begin, bool)))
    return Dataset(episodes)


def test_arrays_files_and_minari_data_sets_are_learned_from(tmp_path: pathlib.Path) -> None:
    data = transitions()
    assert stays(learned(data)) and stays(learned(minari_like(data)))
    np.savez_compressed(tmp_path / "catch.npz", **data)
    assert stays(learned(tmp_path / "catch.npz"))
    rl.save_dataset(tmp_path / "saved.npz", minari_like(data))
    with np.load(tmp_path / "saved.npz") as saved:
        assert set(saved) == {"observations", "next_observations", "actions", "rewards", "terminals", "timeouts"}
        np.testing.assert_array_equal(saved["actions"], data["actions"])
        assert not saved["timeouts"].any() and saved["terminals"].sum() == 40
    assert stays(learned(str(tmp_path / "saved.npz")))


def test_a_failed_save_keeps_the_existing_file(tmp_path: pathlib.Path) -> None:
    data, path = transitions(), tmp_path / "saved.npz"
    rl.save_dataset(path, data)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="rewards"):
        rl.save_dataset(path, {name: rows for name, rows in data.items() if name != "rewards"})
    assert path.read_bytes() == before
    rl.save_dataset(path, path)
    np.testing.assert_array_equal(rl.arrays_of(path)["rewards"], data["rewards"])
    for name in ("saved.hdf5", "saved.parquet", "saved"):
        with pytest.raises(ValueError, match=f"{name} must end with .npz"):
            rl.save_dataset(tmp_path / name, data)
    assert [file.name for file in tmp_path.iterdir()] == ["saved.npz"]


def test_a_save_follows_links_and_keeps_permissions(tmp_path: pathlib.Path) -> None:
    data, path, link = transitions(), tmp_path / "saved.npz", tmp_path / "link.npz"
    path.touch(mode=0o600)
    link.symlink_to(path)
    rl.save_dataset(link, data)
    assert link.is_symlink() and path.stat().st_mode & 0o777 == 0o600
    np.testing.assert_array_equal(rl.arrays_of(path)["rewards"], data["rewards"])
    with pytest.raises(FileNotFoundError, match="nowhere"):
        rl.save_dataset(tmp_path / "nowhere" / "saved.npz", data)


def test_unfinished_episodes_are_truncated_and_nests_have_paths() -> None:
    seen = {"camera": np.zeros((4, 2), np.uint8), "arm": (np.arange(4.0), np.arange(4.0))}
    episode = Episode(seen, np.zeros(3), np.ones(3), np.zeros(3, bool), np.zeros(3, bool))
    arrays = rl.arrays_of(Dataset([episode, episode]))
    assert arrays["observations/camera"].shape == (6, 2) and arrays["actions"].shape == (6,)
    np.testing.assert_array_equal(arrays["next_observations/arm/1"], [1, 2, 3, 1, 2, 3])
    np.testing.assert_array_equal(arrays["timeouts"], [False, False, True] * 2)


def test_discrete_actions_of_minari_are_counted_from_0() -> None:
    spaces = pytest.importorskip("gymnasium").spaces
    acted = {"go": np.array([-1, 1, 0]), "by": (np.ones((3, 2)), np.array([5, 6, 5]))}
    data = Dataset([Episode(np.zeros((4, 2)), acted, np.ones(3), np.zeros(3, bool), np.zeros(3, bool))])
    data.action_space = spaces.Dict({  # type: ignore[attr-defined]
        "go": spaces.Discrete(3, start=-1), "by": spaces.Tuple([spaces.Box(0, 1, (2,)), spaces.Discrete(2, start=5)]),
    })
    arrays = rl.arrays_of(data)
    assert (arrays["actions/go"].tolist(), arrays["actions/by/1"].tolist()) == ([0, 2, 1], [0, 1, 0])
    assert arrays["actions/by/0"].tolist() == [[1, 1]] * 3 and acted["go"].tolist() == [-1, 1, 0]


def test_d4rl_hdf5_files_are_learned_from(tmp_path: pathlib.Path) -> None:
    h5py = pytest.importorskip("h5py")
    path, data = tmp_path / "catch.hdf5", transitions()
    with h5py.File(path, "w") as file:
        for name, array in data.items():
            file[name] = array
        file["infos/goal"] = np.zeros(3)
    assert set(rl.arrays_of(path)) == set(data)
    assert stays(learned(path))
    with h5py.File(path, "a") as file:
        file["truncations"] = np.zeros(len(data["rewards"]))
    with pytest.raises(ValueError, match="catch.hdf5: there is an array truncations, which must be called timeouts"):
        learned(path)
    with h5py.File(path, "a") as file:
        del file["truncations"]
    with h5py.File(path, "a") as file:
        del file["rewards"]
    with pytest.raises(ValueError, match="catch.hdf5: these arrays are missing: rewards"):
        learned(path)


# Minari warns about missing metadata of the data set.
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_data_sets_of_minari_itself(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    minari = pytest.importorskip("minari")
    for needed in ("h5py", "PIL"):
        pytest.importorskip(needed)
    gymnasium = pytest.importorskip("gymnasium")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    collector = minari.DataCollector(gymnasium.make("CartPole-v1"))
    for seed in range(3):
        collector.reset(seed=seed)
        ends = False
        while not ends:
            _, _, terminated, truncated, _ = collector.step(collector.action_space.sample())
            ends = terminated or truncated
    data = collector.create_dataset(dataset_id="cartpole/random-v0", eval_env="CartPole-v1")
    collector.close()
    result = rl.BCQ(batch_size=8, hidden=(8,)).train("CartPole-v1", data=data, learner_steps=5)
    assert result.learner_steps == 5
    with pytest.raises(ValueError, match="no reference scores"):
        rl.evaluate(result.policy, "CartPole-v1", reference_scores=data)


def test_a_run_resumes_with_the_same_data_in_any_form(tmp_path: pathlib.Path) -> None:
    """Only the path of a temporary file used to identify a mapping, so that a run did not resume."""
    h5py = pytest.importorskip("h5py")
    data = transitions()
    data["rewards"] = data["rewards"] + 0.1
    forms: list[Any] = [data, {**data, "rewards": data["rewards"].astype(np.float32)}, minari_like(data), tmp_path / "data.npz", tmp_path / "data.hdf5"]
    rl.save_dataset(tmp_path / "data.npz", data)
    with h5py.File(tmp_path / "data.hdf5", "w") as file:
        for name, array in data.items():
            file[name] = array

    def learn(data: Any, steps: int, name: str) -> rl.TrainingResult:
        return learned(data, steps, checkpoint_dir=tmp_path / name, checkpoint_every=20)

    whole = learn(data, 60, "whole").policy.to_bytes()
    for number, form in enumerate(forms):
        learn(data, 40, f"run {number}")
        assert learn(form, 60, f"run {number}").policy.to_bytes() == whole
        assert learn(form, 40, f"again {number}").resume(learner_steps=60).policy.to_bytes() == whole
    other = {**data, "rewards": data["rewards"] + (np.arange(len(data["rewards"])) == 3)}
    with pytest.raises(ValueError, match=r"different run: rewards of the data: the checkpoint has numbers with the checksum .* \(checkpoint_dir=\)"):
        learn(other, 90, "whole")
    shorter = {name: array[:-10] for name, array in data.items()}
    with pytest.raises(ValueError, match=r"different run: data: the checkpoint has \d+ steps in \d+ episodes, this run has \d+ steps in"):
        learn(shorter, 90, "whole")


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"rewards": None}, "these arrays are missing: rewards"),
        ({"rewards": np.zeros(7)}, "array `[a-z]+`: it has 360 rows, but `rewards` has 7"),
        ({"rewards": np.full(360, np.nan)}, "array `rewards`: row 0 has NaN"),
        ({"observations": np.zeros((360, 3), np.float32)}, r"array `observations`: its shape is \[360, 3\]"),
        ({"actions": np.full(360, 7)}, "array `actions`: row 0 has 7"),
        ({"observations": np.full((360, 10, 5), 1e300)}, "array `observations`: row 0 has 1e300; agents learn only from finite float32 numbers"),
        ({"terminals": np.where(np.arange(360) == 7, np.nan, 0)}, "array `terminals`: row 7 has nan, but it must be 1"),
        ({"terminals": np.full(360, 2)}, "array `terminals`: row 0 has 2, but it must be 1"),
        ({"timeouts": np.array(["no"] * 360)}, "array `timeouts`: its values have the data type <U2, but must be booleans, or the numbers 0 and 1"),
        ({"terminals": np.zeros((360, 2))}, r"array `terminals`: its shape is \[360, 2\]"),
        ({"terminals": None, "terminations": np.zeros(360)}, "array terminations, which must be called terminals"),
        ({"truncations": np.zeros(360)}, "array truncations, which must be called timeouts"),
        ({"rewards": None}, "these arrays are missing: rewards.*rl.BC, use zeros"),
        ({"terminals": np.full(360, 0.5)}, "array `terminals`: row 0 has 0.5, but it must be 1"),
        ({"observations": np.array([None] * 360)}, "array `observations`: its data type is"),
    ],
)
def test_unusable_data_is_reported(changed: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        learned({**transitions(), **changed})


def test_invalid_data_sets_are_reported() -> None:
    with pytest.raises(TypeError, match="int is not a data set"):
        learned(7)
    with pytest.raises(ValueError, match="no episodes"):
        learned(Dataset([]))


def test_policies_are_scored_by_a_random_policy_and_an_expert() -> None:
    class Still:
        """A policy that counts its resets."""

        begun = 0

        def reset(self) -> None:
            self.begun += 1

        def __call__(self, observation: Any) -> int:
            return 1

    policy = Still()
    result = rl.evaluate(policy, "catch/0", episodes=20, reference_scores=(-1.0, 1.0))
    assert policy.begun == 20 and len(result.returns) == 20 and (result.lengths == 9).all()
    assert result.normalized_score == pytest.approx(50 * (result.mean_return + 1))
    assert rl.evaluate(policy, lambda seed: rl.make("catch/0", seed=seed), reference_scores=Dataset([])).normalized_score is not None
    assert rl.evaluate(policy, "catch/0", episodes=1).normalized_score is None
    known = rl.evaluate(lambda seen: int(seen[2] > 0), "CartPole-v1", episodes=5)
    assert known.normalized_score == pytest.approx(100 * (known.mean_return - 22.5) / 477.5)
    with pytest.raises(ValueError, match="two different finite returns"):
        rl.evaluate(policy, "catch/0", reference_scores=(1.0, 1.0))
    with pytest.raises(ValueError, match="episodes"):
        rl.evaluate(policy, "catch/0", episodes=0)
    with pytest.raises(TypeError, match="not an environment"):
        rl.evaluate(policy, 7)


def test_offline_learning_curves_are_plotted_over_learner_steps() -> None:
    result = rl.BC(batch_size=32, hidden=(16,)).train(
        "catch/0", data=transitions(), learner_steps=60, evaluate_every=20, evaluation_episodes=2
    )
    drawn = result.plot().svg
    assert "steps of the learner" in drawn and ">60<" in drawn
    points = drawn.partition('points="')[2].partition('"')[0].split()
    assert len({point.partition(",")[0] for point in points}) == 3


def test_arrays_of_different_lengths_are_not_saved(tmp_path: pathlib.Path) -> None:
    data = {"observations": np.zeros((5, 4)), "actions": np.zeros(4), "rewards": np.zeros(5), "terminals": np.zeros(5), "infos": np.zeros(3)}
    with pytest.raises(ValueError, match="the data: array `actions`: it has 4 rows, but `rewards` has 5; give one row for each transition"):
        rl.save_dataset(tmp_path / "data.npz", data)
    assert not list(tmp_path.iterdir())


class Bits:
    """An environment whose observations are flags of int8, as of ``gymnasium.spaces.MultiBinary``."""

    def __init__(self) -> None:
        self.observation_space, self.action_space = gymnasium.spaces.MultiBinary(3), gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return np.ones(3, np.int8), {}

    def step(self, action: Any) -> Any:
        return np.zeros(3, np.int8), 1.0, True, False, {}


SMALL_INTEGERS = {
    "observations": np.array([[1, 0, 1], [0, 0, 0]]),
    "actions": np.array([0, 1]),
    "rewards": np.array([1.0, 0.0]),
    "terminals": np.array([False, True]),
}


def test_data_has_the_types_of_the_environment() -> None:
    for dtype in (np.int8, np.uint16, np.float16, ">f4", ">i8", np.longdouble):
        data = {**SMALL_INTEGERS, "observations": SMALL_INTEGERS["observations"].astype(dtype), "rewards": np.array([1, 0], dtype)}
        result = rl.DQN(hidden=[4], batch_size=4).train(Bits(), data=data, learner_steps=5)
        assert result.learner_steps == 5
    with pytest.raises(ValueError, match=r"^the data, array `observations`: row 0 has 300, but the environment has int8 \(3,\)"):
        rl.BC().train(Bits(), data={**SMALL_INTEGERS, "observations": np.full((2, 3), 300)}, learner_steps=1)


@pytest.mark.parametrize("change", [lambda array: array.astype(np.float16), lambda array: array.astype(">f4"), np.asfortranarray])
def test_files_of_numpy_have_the_types_of_mappings(change: Any, tmp_path: pathlib.Path) -> None:
    data = transitions(4)
    data["observations"] = change(data["observations"])
    np.savez(tmp_path / "data.npz", **data, infos=np.array(["text"] * 3))
    found = [learned(given, 20).policy.to_bytes() for given in (data, tmp_path / "data.npz")]
    assert found[0] == found[1]
    np.savez(tmp_path / "data.npz", **{**data, "rewards": np.zeros(3)})
    with pytest.raises(ValueError, match=f"^{re.escape(str(tmp_path))}/data.npz: array `[a-z]+`: it has 36 rows, but `rewards` has 3"):
        learned(tmp_path / "data.npz")


def test_only_numbers_are_saved(tmp_path: pathlib.Path) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    path = tmp_path / "data.npz"
    rl.save_dataset(path, {**SMALL_INTEGERS, "observations": SMALL_INTEGERS["observations"].astype(ml_dtypes.bfloat16)})
    found = rl.arrays_of(path)["observations"]
    assert found.dtype == np.float32 and np.array_equal(found, SMALL_INTEGERS["observations"])
    before = path.read_bytes()
    for values in (np.array([None, 1]), np.array(["a", "b"]), np.zeros(2, complex)):
        with pytest.raises(ValueError, match="data.npz: array `observations`: its data type is .*, but it must be bool, an integer type or a float"):
            rl.save_dataset(path, {**SMALL_INTEGERS, "observations": values})
    assert path.read_bytes() == before


def test_masked_values_are_refused() -> None:
    masked = np.ma.masked_array(np.ones((2, 3)), np.eye(2, 3))
    episode = recorded.Episode(np.ones((3, 3)), masked, np.ones(2, np.float32), np.ones(2, np.float32))
    nest = {**SMALL_INTEGERS, "observations": {"eye": masked}}
    for read, given, name in (
        (rl.arrays_of, nest, "observations/eye"), (gpu.Store.of_dataset, nest, "observations/eye"), (gpu.Store.of_dataset, [episode], "actions"),
        (rl.arrays_of, Dataset([Episode(np.ma.masked_array(np.ones(3), [0, 1, 1]), *[np.zeros(2)] * 4)]), "observations"),
    ):
        with pytest.raises(ValueError, match=f"array `{name}`: 2 values are masked; remove these rows, or fill them"):
            read(given)
    assert rl.arrays_of({**SMALL_INTEGERS, "rewards": np.ma.masked_array(np.ones(2))})["rewards"].tolist() == [1, 1]


def test_data_frames_and_lists_of_rows_get_a_hint() -> None:
    class DataFrame:
        """Only the module of the class is looked at."""

    for package, text in (("pandas.core.frame", r"pyarrow.Table.from_pandas\(data\)"), ("polars.dataframe.frame", r"data.to_arrow\(\)")):
        DataFrame.__module__ = package
        for read in (rl.arrays_of, gpu.Store.of_dataset):
            with pytest.raises(TypeError, match=rf"DataFrame is not a data set; give the table {text}, or a "):
                read(DataFrame())
    with pytest.raises(TypeError, match="a pyarrow.Table, a relive.gpu.Store, a folder of recorded episodes"):
        rl.arrays_of(7)
    rows = {**transitions(1), "observations": list(transitions(1)["observations"])}
    with pytest.raises(ValueError, match="array `observations/0`: it has 10 rows, but `rewards` has 9; .* give numpy.stack of a list of rows"):
        rl.arrays_of(rows)


def test_errors_name_the_data_and_not_a_temporary_file(tmp_path: pathlib.Path) -> None:
    broken = {**SMALL_INTEGERS, "rewards": np.array([0.0, np.inf])}
    with pytest.raises(ValueError, match="^the data, array `rewards`: row 1 has inf"):
        rl.DQN().train(Bits(), data=broken, learner_steps=1)
    with h5py.File(tmp_path / "data.hdf5", "w") as file:
        for name, array in broken.items():
            file[name] = array
    with pytest.raises(ValueError, match=f"^{re.escape(str(tmp_path))}/data.hdf5, array `rewards`: row 1 has inf"):
        rl.DQN().train(Bits(), data=tmp_path / "data.hdf5", learner_steps=1)
    with pytest.raises(TypeError, match=r"data is a list, but it must be a data set, or an iterator of batches, such as iter\(data\)"):
        rl.DQN().train(Bits(), data=[SMALL_INTEGERS], learner_steps=1)


def test_shuffled_transitions_are_learned_from_as_they_are() -> None:
    # State 0 leads to itself with reward 0, and state 1 ends the episode with reward 1, but in the data they alternate.
    states = np.eye(2, dtype=np.float32)[np.arange(400) % 2]
    ends = np.arange(400) % 2 == 1
    data = {
        "observations": states, "next_observations": states, "actions": np.zeros(400, int), "rewards": ends.astype(float), "terminals": ends,
    }

    class Two(Bits):
        def __init__(self) -> None:
            self.observation_space, self.action_space = gymnasium.spaces.Box(0, 1, (2,)), gymnasium.spaces.Discrete(2)

    agent = rl.DQN(hidden=[32], n_step=1, discount=0.9, learning_rate=3e-3, target_update_period=50, batch_size=64)
    policy = agent.train(Two(), data=data, learner_steps=1500, seed=1).policy
    values = policy.values(np.eye(2, dtype=np.float32))[:, 0]
    assert abs(values[0]) < 0.1 and abs(values[1] - 1) < 0.1, values
