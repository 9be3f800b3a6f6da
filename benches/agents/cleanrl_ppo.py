"""One run of CleanRL's `ppo.py` with the settings from a case. Prints the steps per second, and per second of processor
time, of the whole script without its imports.

CleanRL's package on PyPI is from 2021 and requires the `gym` of that time. The script uses only a small part of `gym`,
which is provided here, based on gymnasium. The script itself runs unchanged. The package is downloaded as source,
without its dependencies.
"""

from __future__ import annotations

import json
import os
import pathlib
import runpy
import subprocess
import sys
import tarfile
import tempfile
import time
import types

import gymnasium
import stable_baselines3.common.vec_env  # noqa: F401  (imported before the clock runs)
import torch
import torch.utils.tensorboard  # noqa: F401

VERSION = "0.4.8"
ENVS = 8


class Seedable(gymnasium.Wrapper):
    """An environment that receives its seed in the same way as in gym."""

    def seed(self, seed: int) -> None:
        self.reset(seed=seed)


class Statistics(gymnasium.wrappers.RecordEpisodeStatistics, Seedable):
    """gym's wrapper with this name."""


def gym() -> None:
    old = types.ModuleType("gym")
    wrappers = types.ModuleType("gym.wrappers")
    wrappers.RecordEpisodeStatistics, wrappers.TimeLimit, wrappers.Monitor = Statistics, gymnasium.wrappers.TimeLimit, None
    old.make, old.spaces, old.wrappers = gymnasium.make, gymnasium.spaces, wrappers
    sys.modules |= {"gym": old, "gym.wrappers": wrappers, "gym.spaces": gymnasium.spaces}


def script(cache: pathlib.Path) -> pathlib.Path:
    archive = cache / f"cleanrl-{VERSION}.tar.gz"
    if not archive.exists():
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary=:all:", "--no-build-isolation",
                        f"--dest={cache}", f"cleanrl=={VERSION}"], check=True)
    with tarfile.open(archive) as files:
        files.extractall(cache, filter="data")
    return cache / f"cleanrl-{VERSION}" / "cleanrl" / "ppo.py"


def main() -> None:
    steps, threads, settings = int(sys.argv[2]), int(sys.argv[3]), json.loads(sys.argv[4])
    path = script(pathlib.Path(sys.prefix))
    torch.set_num_threads(threads)
    gym()
    batch = ENVS * settings["num_steps"]
    steps -= steps % batch
    sys.argv = [
        str(path), "--gym-id=CartPole-v1", f"--total-timesteps={steps}", "--cuda=false", f"--num-envs={ENVS}",
        f"--num-steps={settings['num_steps']}", f"--n-minibatch={batch // settings['minibatch_size']}",
        f"--update-epochs={settings['epochs']}", f"--gamma={settings['discount']}", f"--gae-lambda={settings['gae_lambda']}",
        f"--learning-rate={settings['learning_rate']}", "--ent-coef=0", "--clip-vloss=false", "--anneal-lr=false"]
    began = time.perf_counter(), time.process_time()
    out, sys.stdout = sys.stdout, sys.stderr
    with tempfile.TemporaryDirectory() as runs:
        os.chdir(runs)
        runpy.run_path(str(path), run_name="__main__")
    seconds = time.perf_counter() - began[0], time.process_time() - began[1]
    print(*(steps / took for took in seconds), file=out)


if __name__ == "__main__":
    main()
