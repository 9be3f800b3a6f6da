"""One run of an agent in Python, `examples/python/agents`, with the settings from a case. Prints steps per second,
steps per second of processor time, and memory in MiB, for the whole of `rl.run`."""

from __future__ import annotations

import json
import pathlib
import sys
import time

import torch

from relive import rl

from frames import resident_mib, tell  # noqa: E402

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


def dqn(settings: dict) -> object:
    from frames import Nature, q_loss

    from relive.rl import torch as rlt

    shared = ("batch_size", "discount", "learning_rate", "min_replay_size", "max_replay_size", "target_update_period")
    return rlt.DQN(network=lambda spec: Nature(spec.actions.num_values), loss=q_loss, samples_per_insert=settings["batch_size"] / settings["train_freq"],
                   n_step=1, priority_exponent=0.0, epsilon=settings["epsilon"], max_abs_reward=None, max_gradient_norm=10.0,
                   **{name: settings[name] for name in shared})


def environment(agent: str) -> object:
    if agent == "dqn":
        from frames import pong

        return pong
    return {"ppo": "CartPole-v1", "sac": "Pendulum-v1"}[agent]


def main() -> None:
    agent, steps, threads, settings = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), json.loads(sys.argv[4])
    torch.set_num_threads(threads)
    made = {"ppo": ppo, "sac": sac, "dqn": dqn}[agent](settings)
    where = environment(agent)
    on = {"on": "threads", "actors": settings["actors"]} if "actors" in settings else {}
    # PyTorch imports modules when the first optimizer is created; the other contenders do so when they are created
    # themselves.
    rl.run(made, where, steps=1, progress=False)
    before = resident_mib()
    began = time.perf_counter(), time.process_time()
    result = rl.run(made, where, steps=steps, progress=False, **on)
    seconds = time.perf_counter() - began[0], time.process_time() - began[1]
    tell(result.env_steps, seconds, before)


if __name__ == "__main__":
    main()
