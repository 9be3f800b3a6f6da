"""Writes numpy.json: numbers from numpy's random streams. Needs numpy; 1.26 and 2.x give the same numbers."""

import json
import pathlib

import numpy as np


def legacy(seed):
    """Draws of every kind from one stream, in this order, past the regeneration of the stream's words."""
    stream = np.random.RandomState(seed)
    return {
        "seed": seed,
        "random_sample": [stream.random_sample() for _ in range(4)],
        "uniform": [stream.uniform(-0.05, 0.05) for _ in range(3)],
        "randint_5": [int(stream.randint(5)) for _ in range(20)],
        "randint_1": [int(stream.randint(1)) for _ in range(3)],
        "randint_wide": [int(stream.randint(-(2**40), 2**41)) for _ in range(5)],
        "normal": [stream.randn() for _ in range(5)],
        "after_odd_normal": stream.random_sample(),
        "normal_cached": stream.randn(),
        "bernoulli_half": [int(x) for x in stream.binomial(1, 0.5, 20)],
        "bernoulli_third": [int(x) for x in stream.binomial(1, 0.3, 20)],
        "bernoulli_likely": [int(x) for x in stream.binomial(1, 0.9, 20)],
        "binomial_40_0.3": [int(stream.binomial(40, 0.3)) for _ in range(20)],
        "binomial_25_0.8": [int(stream.binomial(25, 0.8)) for _ in range(20)],
        "permutation_11": [int(x) for x in stream.permutation(11)],
        "choice_without_replacement": [int(x) for x in stream.choice(range(11), size=11, replace=False)],
        "choice_weighted": [int(stream.choice(4, p=[0.1, 0.2, 0.3, 0.4])) for _ in range(20)],
        "sum_of_2000": float(sum(stream.random_sample() for _ in range(2000))),
    }


def newer(seed):
    """Draws from `default_rng`."""
    stream = np.random.default_rng(seed)
    return {
        "seed": seed,
        "random": [stream.random() for _ in range(4)],
        "uniform": [float(x) for x in stream.uniform(low=-0.05, high=0.05, size=(4,))],
        "bounds": [float(x) for x in stream.uniform(low=np.array([-np.pi, -1.0]), high=np.array([np.pi, 1.0]))],
    }


document = {
    "legacy": [legacy(seed) for seed in (0, 1, 5, 42, 12345, 2**32 - 1)],
    "newer": [newer(seed) for seed in (0, 1, 42, 123456789012, 2**64 - 1)],
}
target = pathlib.Path(__file__).with_name("numpy.json")
target.write_text(json.dumps(document, indent=1) + "\n")
