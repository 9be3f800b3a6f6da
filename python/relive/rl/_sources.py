"""The supported kinds of environments, and their construction."""

from __future__ import annotations

import contextlib
import inspect
import threading
import weakref
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np

from relive.rl import _faults
from relive.rl._bridge import Bridge, Part, Single
from relive.rl._parallel import Parallel, expect_parallel, is_parallel
from relive.rl._registered import registered
from relive.rl._vectors import Vector, is_vector
from relive.rl.gymnasium_adapters import adapted, expect_no_other_vector

_KINDS = (
    "the name of a native one or of one that Gymnasium has, an environment of Gymnasium or a vector of them, one with dm_env's interface, a "
    "parallel environment of PettingZoo, a class of one of these, a function from a seed to one, or a list of functions that each create one"
)

COUNTS = "set this number with environments= of its experience or with num_envs"


class Source:
    """Creates the environments of a run, for the extension.

    Args:
      environment: the value that the user passed.
      acts_here: whether this process acts in environments, rather than only reading their specs.
    """

    def __init__(self, environment: Any, *, acts_here: bool = True) -> None:
        self._environment, self._is_given, self._acts_here = environment, is_environment(environment), acts_here
        self._takes_seed = not self._is_given and not isinstance(environment, (list, tuple)) and _seeding(environment) != "none"
        self._specs: tuple[Any, ...] | None = None
        # An environment that was created to read its specs, with its key. It is used if the next environment that is
        # needed has the same key.
        self._spare: tuple[Any, Any] | None = None
        # The environments that are in use: of bridges, and of calls of `rows` in progress, which may be in several threads.
        self._bridges: list[weakref.ref[Bridge]] = []
        self._starting: list[Any] = []
        self._lock = threading.Lock()

    def specs(self, seed: int) -> tuple[Any, ...]:
        """Returns the specs of the environments, in the extension's form."""
        if self._specs is None:
            made = self._made(0, seed)
            self._spare = self._key(0, seed), made
            self._specs = Bridge([_part(made, [seed])]).specs
            if not self._acts_here:
                self.close()
        return self._specs

    def rows(self, first: int, seeds: Sequence[int], generation: int, is_exact: bool) -> Bridge:
        """Returns the environments for these seeds, each in its own row; ``first`` is the number of the first
        environment.

        Raises:
          ValueError: the environments are in one vector that has too many rows, although the number of rows must be
            exact; or a function returned an environment that is already in use.
        """
        parts: list[Part] = []
        owned: list[Any] = []
        try:
            self._make_parts(parts, owned, first, seeds, generation)
            bridge = Bridge(parts, owned)
            rows = sum(part.rows for part in parts)
            if is_exact and rows != len(seeds):
                raise ValueError(
                    f"a worker of this run acts in {len(seeds)} environments, but {parts[-1].called} alone has {parts[-1].rows}: {COUNTS}"
                )
        except BaseException:
            for environment in owned:
                _faults.close(environment, _faults.name_of(environment))
            self._begun(owned)
            raise
        self._begun(owned, bridge)
        return bridge

    def _make_parts(self, parts: list[Part], owned: list[Any], first: int, seeds: Sequence[int], generation: int) -> None:
        row = 0
        while row < len(seeds):
            made = self._made(first + row, _of_episodes(seeds[row], generation))
            of_episodes = [_of_episodes(seed, generation) for seed in seeds[row : row + _rows_of(made)]]
            with _closed_on_error(made, is_given=self._is_given):
                parts.append(_part(made, of_episodes))
            if first or len(seeds) > parts[-1].rows:
                _faults.number(parts[-1], first + row)
            if not self._is_given:
                self._expect_unused(parts[-1].environment)
                owned.append(parts[-1].environment)
            row += parts[-1].rows

    def _expect_unused(self, environment: Any) -> None:
        """Raises an exception if an environment is already in use; otherwise records that it is in use from now on."""
        with self._lock:
            bridges = [bridge for bridge in (reference() for reference in self._bridges) if bridge is not None]
            if any(environment is other for other in self._starting) or any(bridge.owns(environment) for bridge in bridges):
                raise ValueError(
                    f"the function returned {_faults.name_of(environment)}, which is already in use: each actor and the evaluator needs "
                    "its own environment, so the function must create a new one at each call"
                )
            self._starting.append(environment)

    def _begun(self, owned: Sequence[Any], bridge: Bridge | None = None) -> None:
        """Records that a bridge owns these environments from now on, or that they are closed."""
        with self._lock:
            self._bridges = [reference for reference in self._bridges if reference() is not None]
            if bridge is not None:
                self._bridges.append(weakref.ref(bridge))
            self._starting = [other for other in self._starting if not any(other is environment for environment in owned)]

    def _made(self, number: int, seed: int) -> Any:
        spare, self._spare = self._spare, None
        if spare is not None and spare[0] == self._key(number, seed):
            return spare[1]
        self._close(spare)
        if is_environment(self._environment):
            return self._environment
        if isinstance(self._environment, (list, tuple)):
            return self._environment[number]()
        return _called(self._environment, seed)

    def _key(self, number: int, seed: int) -> Any:
        """Returns a value that is equal for environments that are created in the same way."""
        if isinstance(self._environment, (list, tuple)):
            return number
        return (number, seed) if self._takes_seed else None

    def close(self) -> None:
        """Closes the environment that was created to read its specs, unless it is in use."""
        spare, self._spare = self._spare, None
        self._close(spare)

    def _close(self, spare: tuple[Any, Any] | None) -> None:
        if spare is not None and not self._is_given:
            _faults.close(spare[1], _faults.name_of(spare[1]))


def source_of(environment: Any, *, acts_here: bool = True) -> str | Source:
    """Converts the value that a user passed as an environment to the name of a native environment or a source of
    environments; see :class:`Source`.

    Raises:
      TypeError: the value is not an environment.
      ValueError: no environment has this name.
    """
    resolved = _resolved(environment)
    if is_parallel(resolved):
        expect_parallel(resolved)
    return resolved if isinstance(resolved, str) else Source(resolved, acts_here=acts_here)


def _resolved(environment: Any) -> Any:
    """Replaces the name of an environment that is not native by a function that creates it.

    Raises:
      TypeError: the value is not an environment, or is a vector that is not supported.
      ValueError: no environment has this name.
    """
    if isinstance(environment, str):
        return registered(environment) or environment
    is_list = isinstance(environment, (list, tuple)) and environment and all(callable(make) and not is_environment(make) for make in environment)
    if not is_list and not is_environment(environment) and not callable(environment):
        raise TypeError(f"{environment!r} is not an environment; give {_KINDS}")
    if is_environment(environment):
        expect_no_other_vector(environment)
    return environment


def expect_enough(environment: Any, count: int, *, is_shared: bool) -> None:
    """Checks that a ready-made environment, or a list of functions, provides as many environments as a run needs.

    Args:
      is_shared: whether all environments belong to a single worker and are needed nowhere else.

    Raises:
      TypeError: each worker needs its own environment.
      ValueError: there are too many or too few environments.
    """
    if isinstance(environment, (list, tuple)):
        if len(environment) != count:
            raise ValueError(f"the list has {len(environment)} functions, but the run acts in {count} environments: {COUNTS}")
    elif is_environment(environment):
        rows = _rows_of(environment)
        if not is_shared or rows == 1 < count:
            raise TypeError(
                "several environments are needed, because each actor and the evaluator has its own; give a name, or a function from a "
                "seed to an environment, instead of one environment"
            )
        if rows != count:
            raise ValueError(f"{_faults.name_of(environment)} has {rows} rows, but the run acts in {count} environments: {COUNTS}")


def with_dm_env_interface(environment: Any, seed: int) -> Any:
    """Returns the environment with the given name, or a function's result for a seed, with dm_env's interface.

    Raises:
      TypeError: the result is not an environment.
      ValueError: no environment has this name.
    """
    environment = _resolved(environment)
    is_given = isinstance(environment, str) or is_environment(environment)
    if not is_given:
        environment = environment[0]() if isinstance(environment, (list, tuple)) else _called(environment, seed)
    if not isinstance(environment, str) and not (hasattr(environment, "reset") and hasattr(environment, "step")):
        raise TypeError(f"the function returned {environment!r}, which is not an environment")
    with _closed_on_error(environment, is_given=is_given):
        return _with_dm_env_interface(environment, seed)


def name_of(environment: Any) -> str:
    """Returns the name of an environment in messages and in saved runs."""
    if isinstance(environment, str):
        # Without the module that registers the environment, as in Gymnasium's specs.
        return environment.rpartition(":")[2]
    if isinstance(environment, (list, tuple)):
        return name_of(environment[0])
    identifier = getattr(getattr(environment, "spec", None), "id", None)
    if isinstance(identifier, str):
        return identifier
    return str(getattr(environment, "__qualname__", type(environment).__qualname__))


def _called(make: Any, seed: int) -> Any:
    """Calls a function with a seed, if it takes one.

    Raises:
      TypeError: the value is a class that cannot be called in this way.
    """
    seeding = _seeding(make)
    first, named = (seed,) if seeding == "first" else (), {"seed": seed} if seeding == "named" else {}
    if _is_class(make):
        _expect_callable(make, first, named)
    return make(*first, **named)


def _expect_callable(make: type, first: tuple[int, ...], named: dict[str, int]) -> None:
    try:
        inspect.signature(make).bind(*first, **named)
    except TypeError as error:
        raise TypeError(
            f"{make.__qualname__} is a class, which a run calls without arguments or with seed=, but that failed: {error}; give a "
            f"function from a seed: lambda seed: {make.__qualname__}(…)"
        ) from error


def _is_class(make: Any) -> bool:
    return isinstance(make, type) and callable(getattr(make, "reset", None)) and callable(getattr(make, "step", None))


def _seeding(make: Any) -> Literal["named", "first", "none"]:
    """Returns how a function takes a seed: as the argument ``seed``, or as its first argument if this is named ``seed``
    or required. An optional argument of another name, such as ``max_episode_steps`` of ``gymnasium.make``, is not a
    seed, nor is a class's first argument."""
    try:
        parameters = inspect.signature(make).parameters
    except ValueError:
        # Functions in C may have no signature.
        return "first"
    seed = parameters.get("seed")
    if seed is not None and seed.kind in (seed.POSITIONAL_OR_KEYWORD, seed.KEYWORD_ONLY) and _accepts_by_name(make):
        return "named"
    if seed is not None and next(iter(parameters)) == "seed" and seed.kind in (seed.POSITIONAL_OR_KEYWORD, seed.POSITIONAL_ONLY):
        return "first"
    if _is_class(make):
        return "none"
    return "first" if any(_has_to_be_given(parameter) for parameter in parameters.values()) else "none"


def _accepts_by_name(make: Any) -> bool:
    """Returns whether a function accepts ``seed=``. A decorator with ``functools.wraps`` has the signature of the
    original function, but may accept arguments only by position."""
    try:
        inspect.signature(make, follow_wrapped=False).bind_partial(seed=0)
    except ValueError:
        # A wrapper in C, such as that of `functools.cache`, has no signature of its own.
        return True
    except TypeError:
        return False
    return True


def _has_to_be_given(parameter: inspect.Parameter) -> bool:
    """Returns whether an argument must be passed by position, or, with ``*args``, is likely to be expected there."""
    is_required = parameter.default is parameter.empty
    return parameter.kind == parameter.VAR_POSITIONAL or (
        is_required and parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    )


def is_environment(value: Any) -> bool:
    return not isinstance(value, type) and any(hasattr(value, name) for name in ("observation_spec", "observation_space", "possible_agents"))


def _rows_of(environment: Any) -> int:
    if is_vector(environment):
        return int(environment.num_envs)
    return len(environment.possible_agents) if is_parallel(environment) else 1


def _part(environment: Any, seeds: Sequence[int]) -> Part:
    """Wraps an environment of any kind in its rows, with seeds for their first episodes."""
    if is_vector(environment):
        return Vector(environment, seeds)
    if is_parallel(environment):
        return Parallel(environment, seeds[0])
    return Single(_with_dm_env_interface(environment, seeds[0]))


@contextlib.contextmanager
def _closed_on_error(environment: Any, *, is_given: bool) -> Iterator[None]:
    """Closes an environment if it cannot be used, unless it was passed ready-made."""
    try:
        yield
    except BaseException:
        if not is_given:
            _faults.close(environment, _faults.name_of(environment))
        raise


def _with_dm_env_interface(environment: Any, seed: int) -> Any:
    if isinstance(environment, str):
        from relive.rl.environments import make

        return make(environment, seed=seed)
    return adapted(environment, seed=seed)


def _of_episodes(seed: int, generation: int) -> int:
    """Returns the seed of an environment's episodes, which differs for each generation of the worker."""
    return seed if not generation else int(np.random.SeedSequence([seed, generation]).generate_state(1)[0])
