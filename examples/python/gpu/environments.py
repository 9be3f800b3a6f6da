"""The command line of the examples, and its environments."""

from __future__ import annotations

import argparse
from typing import Any

from relive import rl


def made(name: str, seed: int) -> Any:
    """Returns a native environment or a Gymnasium environment, by name."""
    try:
        return rl.make(name, seed=seed)
    except ValueError:
        import gymnasium

        return rl.GymEnvironment(gymnasium.make(name), seed=seed)


def parser_of(description: str | None, *, steps: int) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("environment", nargs="?", default="catch/0", help="a native or a Gymnasium environment")
    parser.add_argument("--data", help="anything that Store.insert_dataset takes by its path; some episodes are played unless given")
    parser.add_argument("--steps", type=int, default=steps, help="of the optimizer")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    return parser
