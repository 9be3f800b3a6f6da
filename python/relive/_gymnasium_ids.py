"""The names of native environments in Gymnasium."""

from __future__ import annotations

from collections.abc import Iterator

import gymnasium

_NAMESPACE = "relive"

_OTHERS = (
    "CartPole-v1", "Acrobot-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Pendulum-v1", "control/acrobot-swingup",
    "control/cartpole-swingup", "control/pendulum-swingup", "pixels/catch",
)  # fmt: skip

# bsuite's families, and the number of settings of each family.
_SETTINGS = {
    "bandit": 20, "bandit_noise": 20, "bandit_scale": 20, "cartpole": 20, "cartpole_noise": 20, "cartpole_scale": 20,
    "cartpole_swingup": 20, "catch": 20, "catch_noise": 20, "catch_scale": 20, "deep_sea": 21, "deep_sea_stochastic": 21,
    "discounting_chain": 20, "memory_len": 23, "memory_size": 17, "mountain_car": 20, "mountain_car_noise": 20,
    "mountain_car_scale": 20, "umbrella_distract": 23, "umbrella_length": 23,
}  # fmt: skip


def native_names() -> Iterator[str]:
    """Returns all names for ``relive.rl.make``."""
    yield from _OTHERS
    for family, count in _SETTINGS.items():
        yield from (f"{family}/{number}" for number in range(count))


def gymnasium_id(name: str) -> str:
    """Returns the Gymnasium id of a native environment: ``catch/0`` is ``relive/catch-0``."""
    return f"{_NAMESPACE}/{name.replace('/', '-')}"


def register() -> None:
    """Registers all native environments with Gymnasium. Their modules are imported when the first environment is
    created."""
    for name in native_names():
        gymnasium.register(
            gymnasium_id(name),
            entry_point="relive._gymnasium_native:NativeEnv",
            vector_entry_point="relive._gymnasium_native:NativeVectorEnv",
            kwargs={"name": name},
        )
