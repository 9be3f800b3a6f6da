"""One run of an agent in Python, `examples/python/agents`, with the settings of a case. Prints steps per second and per second of processor time, of
the whole of `rl.run`."""

from __future__ import annotations

import json
import pathlib
import sys
import time

import torch

from relive import rl

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples" / "python" / "agents"))


def ppo(settings: dict) -> object:
    from ppo import PPO

    names = ("discount", "gae_lambda", "epochs", "minibatch_size", "learning_rate")
    experience = rl.Rollouts(steps=settings["num_steps"], environments=8)
    return PPO(experience=experience, **{name: settings[name] for name in names})


def sac(settings: dict) -> object:
    from sac import SAC

    experience = rl.Transitions(
        batch_size=settings["batch_size"], min_size=settings["min_replay_size"], discount=settings["discount"]
    )
    return SAC(experience=experience, learning_rate=settings["learning_rate"])


ENVIRONMENTS = {"ppo": "CartPole-v1", "sac": "Pendulum-v1"}


def main() -> None:
    agent, steps, threads, settings = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), json.loads(sys.argv[4])
    torch.set_num_threads(threads)
    made = {"ppo": ppo, "sac": sac}[agent](settings)
    began = time.perf_counter(), time.process_time()
    result = rl.run(made, ENVIRONMENTS[agent], steps=steps, progress=False)
    seconds = time.perf_counter() - began[0], time.process_time() - began[1]
    print(*(result.env_steps / took for took in seconds))


if __name__ == "__main__":
    main()
