"""IMPALA on CartPole-v1 on two logical Ray nodes with two actors each: Relive and RLlib with the same network,
alternating.

    python3.11 -m venv target/cluster && target/cluster/bin/pip install -r benches/cluster/requirements.txt ./python
    target/cluster/bin/python benches/cluster/throughput.py --rounds 3

Prints steps per second in all environments, including learning, in the second half of each run. Both use the same
network: layers of 50 and 50 units with tanh and an LSTM of 20 units, shared by policy and value; 16 environments,
fragments of 20 steps, batches of 16 fragments. RLlib runs with its learner in the program itself and in a separate
actor, and the better result counts.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "peers"))

from machine import machine  # noqa: E402
from nodes import two_nodes  # noqa: E402

ACTORS, ENVIRONMENTS, FRAGMENT, BATCH = 4, 16, 20, 16


def relive(seconds: float) -> tuple[float, float]:
    """Returns the steps per second, and the mean return of the last hundred episodes."""
    import relive.ray
    from relive import rl

    on = relive.ray.Workers(resources={"worker": 1})
    result = rl.run(rl.IMPALA(), "CartPole-v1", steps=1 << 40, on=on, actors=ACTORS, timeout=seconds, progress=False)
    log = result.episodes
    ends_at = log.seconds[-1]
    later = log.seconds >= ends_at - seconds / 2
    steps, times = log.env_steps[later], log.seconds[later]
    return float((steps[-1] - steps[0]) / (times[-1] - times[0])), float(log.returns[-100:].mean())


def rllib(seconds: float, learners: int) -> tuple[float, float]:
    """Returns the same for RLlib, with the given number of learners as actors; with 0, RLlib learns in this program."""
    from ray.rllib.algorithms.impala import IMPALAConfig
    from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

    network = DefaultModelConfig(
        fcnet_hiddens=[50, 50], fcnet_activation="tanh", use_lstm=True, lstm_cell_size=20, max_seq_len=FRAGMENT, vf_share_layers=True
    )
    config = IMPALAConfig().environment("CartPole-v1").rl_module(model_config=network).learners(num_learners=learners)
    config = config.env_runners(
        num_env_runners=ACTORS, num_envs_per_env_runner=ENVIRONMENTS // ACTORS, rollout_fragment_length=FRAGMENT,
        custom_resources_per_env_runner={"worker": 1},
    )
    config = config.training(
        train_batch_size_per_learner=FRAGMENT * BATCH, lr=0.001, entropy_coeff=0.01, vf_loss_coeff=0.5, grad_clip=None
    ).reporting(min_time_s_per_iteration=1)
    algorithm = config.build_algo()
    since, seen, result = time.monotonic(), [], {}
    while time.monotonic() < since + seconds:
        result = algorithm.train()
        seen.append((time.monotonic() - since, result["num_env_steps_sampled_lifetime"]))
    algorithm.stop()
    later = [one for one in seen if one[0] >= seconds / 2]
    (first_at, first), (last_at, last) = later[0], later[-1]
    return (last - first) / (last_at - first_at), result["env_runners"]["episode_return_mean"]


CONTENDERS = {
    "relive": relive,
    "rllib, learner in the program": lambda seconds: rllib(seconds, 0),
    "rllib, learner as an actor": lambda seconds: rllib(seconds, 1),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="runs of each contender, in turn [default: 3]")
    parser.add_argument("--seconds", type=float, default=40.0, help="of each run [default: 40]")
    parser.add_argument("--contender", choices=CONTENDERS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.contender:
        with two_nodes(cpus=ACTORS // 2):
            rate, mean_return = CONTENDERS[options.contender](options.seconds)
        print(json.dumps([rate, mean_return]))
        return
    print(json.dumps(machine()))
    rates: dict[str, list[float]] = {name: [] for name in CONTENDERS}
    for _ in range(options.rounds):
        for name in CONTENDERS:
            command = [sys.executable, __file__, "--contender", name, "--seconds", str(options.seconds)]
            told = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True, timeout=10 * options.seconds + 120)
            rate, mean_return = json.loads(told.stdout.strip().splitlines()[-1])
            rates[name].append(rate)
            print(f"{name}: {rate:,.0f} steps/s, mean return {mean_return:.1f}; load {machine()['load']}", flush=True)
    medians = {name: statistics.median(all_of) for name, all_of in rates.items()}
    best = max(rate for name, rate in medians.items() if name != "relive")
    print(f"medians: {({name: round(rate) for name, rate in medians.items()})}; {medians['relive'] / best:.1f} times RLlib's better one")


if __name__ == "__main__":
    main()
