"""Writes bsuite_scores.json: bsuite's own scores for invented runs. Needs bsuite 0.3.6 and its requirements."""

import json
import pathlib

import numpy as np
import pandas as pd
from bsuite import sweep
from bsuite.experiments import summary_analysis

EPISODES = (1, 100, 120, 1_000, 10_000)

# bsuite uses a method that newer versions of pandas lack.
pd.Series.append = lambda self, other: pd.concat([self, other])


def row(experiment, episode, luck):
    """The log entry of an agent with this luck, a number in [0, 1), with every column that a score uses."""
    car = experiment.startswith("mountain_car")
    swingup = experiment == "cartpole_swingup"
    return {
        "episode": episode,
        "total_regret": episode * luck * 0.8,
        "raw_return": -(100 + 1000 * luck) * episode if car else 1000 * luck * episode,
        "total_return": 700 * luck * episode if swingup else (1 + 0.1 * luck) * episode,
        "best_episode": 1000 * luck if not swingup else 200 * luck,
        "total_bad_episodes": episode * (0.7 + 0.3 * luck),
        "total_perfect": episode * (0.5 + 0.5 * luck),
    }


def runs(seed):
    """Draws one number per row, in the order of the sweep."""
    stream, rows = np.random.RandomState(seed), []
    for bsuite_id in sweep.SWEEP:
        experiment = bsuite_id.split("/")[0]
        if experiment.startswith("mnist"):
            continue
        for episode in EPISODES:
            if episode <= sweep.EPISODES[bsuite_id]:
                known = {"bsuite_id": bsuite_id, "bsuite_env": experiment, **sweep.SETTINGS[bsuite_id]}
                rows.append(known | row(experiment, episode, stream.random_sample()))
    return pd.DataFrame(rows)


def scores(seed):
    frame, found = runs(seed), {}
    for experiment, of_it in frame.groupby("bsuite_env"):
        found[experiment] = float(summary_analysis.BSUITE_INFO[experiment].score(of_it.dropna(axis=1)))
    return {"seed": seed, "scores": found}


target = pathlib.Path(__file__).with_name("bsuite_scores.json")
target.write_text(json.dumps([scores(seed) for seed in range(3)], indent=1) + "\n")
