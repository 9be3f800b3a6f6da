"""The specs of environments."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from relive import _foreign_specs, nest
from relive._numbers import whole
from relive.specs import ArraySpec, BoundedArraySpec, Shape, as_dtype, as_spec

_CHOICE_DTYPES = (np.dtype(np.int32), np.dtype(np.int64))

_SUPPORTED = (
    "supported are arrays of numbers with a fixed shape (gymnasium's Box, Discrete, MultiDiscrete and MultiBinary; dm_env's "
    "Array, BoundedArray and DiscreteArray; ArraySpec), and dicts, tuples and lists of them"
)


@dataclasses.dataclass(frozen=True, eq=False)
class DiscreteArraySpec(BoundedArraySpec):
    """One integer in ``range(num_values)``, as an int32 or an int64."""

    # The shape and the bounds follow from the number of values.
    shape: Shape | None = dataclasses.field(init=False)
    minimum: npt.NDArray[Any] = dataclasses.field(init=False)
    maximum: npt.NDArray[Any] = dataclasses.field(init=False)
    num_values: int = dataclasses.field(kw_only=True)

    def __init__(self, num_values: int, dtype: Any = np.int32, name: str | None = None) -> None:
        num_values = whole("num_values", num_values)
        if num_values < 1:
            raise ValueError(f"num_values must be at least 1, got {num_values}")
        dtype = as_dtype(dtype)
        if dtype not in _CHOICE_DTYPES:
            raise ValueError(f"a discrete array must have the data type int32 or int64, got {dtype}")
        if num_values - 1 > np.iinfo(dtype).max:
            raise ValueError(f"num_values is {num_values}, but {dtype} has no numbers up to {num_values - 1}")
        super().__init__((), dtype, 0, num_values - 1, name)
        object.__setattr__(self, "num_values", num_values)

    def __repr__(self) -> str:
        return f"DiscreteArraySpec(num_values={self.num_values}, dtype={self.dtype}, name={self.name!r})"

    def with_name(self, name: str | None) -> DiscreteArraySpec:
        """Returns a copy of the spec with the given name."""
        return DiscreteArraySpec(self.num_values, self.dtype, name)


class EnvironmentSpec(NamedTuple):
    """The specs of an environment. The specs of observations and actions may be nests."""

    observations: Any
    actions: Any
    rewards: Any
    discounts: Any


REWARDS = ArraySpec((), np.float64, "reward")
DISCOUNTS = BoundedArraySpec((), np.float64, 0.0, 1.0, "discount")


def make_environment_spec(environment: Any) -> EnvironmentSpec:
    """Returns the specs of an environment with Gymnasium's or dm_env's interface, as this package's own types.

    Raises:
      TypeError: the value is not an environment, has several agents, or has values that are not supported; the error
        names their path.
    """
    if hasattr(environment, "observation_spec") and hasattr(environment, "action_spec"):
        return EnvironmentSpec(
            normalized(environment.observation_spec(), "observation"),
            normalized(environment.action_spec(), "action"),
            _scalar(environment, "reward_spec", REWARDS),
            _scalar(environment, "discount_spec", DISCOUNTS),
        )
    expect_one_agent(environment)
    if hasattr(environment, "observation_space") and hasattr(environment, "action_space"):
        return EnvironmentSpec(
            normalized(environment.observation_space, "observation"),
            normalized(environment.action_space, "action"),
            REWARDS,
            DISCOUNTS,
        )
    raise TypeError(
        f"{environment!r} is not an environment: it has neither dm_env's observation_spec() and action_spec(), nor Gymnasium's "
        "observation_space and action_space"
    )


def expect_one_agent(environment: Any) -> None:
    """Checks that an environment is not a multi-agent environment of PettingZoo, whose spaces are functions of an agent.

    Raises:
      TypeError: the environment has several agents.
    """
    if hasattr(environment, "possible_agents") and callable(getattr(environment, "observation_space", None)):
        raise TypeError(
            f"{type(environment).__qualname__} has several agents ({len(environment.possible_agents)}), but only relive.rl.run and train() "
            "accept such a parallel environment, and evaluate in it if given evaluate_every; here, give an environment with one agent, "
            "such as one of Gymnasium that plays the other agents' turns"
        )


def difference(one: EnvironmentSpec, other: EnvironmentSpec) -> str:
    """Returns a text about the first part in which two specs differ."""
    for what, structure, others in zip(("observation", "action", "reward", "discount"), one, other, strict=True):
        leaves, leaves_of_other = dict(nest.flatten_with_path(structure)), dict(nest.flatten_with_path(others))
        if leaves.keys() != leaves_of_other.keys():
            parts, parts_of_other = ([nest.path_text(path) for path in found] for found in (leaves, leaves_of_other))
            return f"the {what} has the parts {parts} and {parts_of_other}"
        for path, leaf in leaves.items():
            if leaf != leaves_of_other[path]:
                place = f"{what} at {nest.path_text(path)!r}" if path else what
                return f"the {place} has {_difference(leaf, leaves_of_other[path])}"
    return "their structures have different types"


def _difference(leaf: ArraySpec, other: ArraySpec) -> str:
    for name in ("num_values", "shape", "dtype", "minimum", "maximum"):
        value, value_of_other = getattr(leaf, name, None), getattr(other, name, None)
        if value is None or value_of_other is None:
            continue
        if name in ("minimum", "maximum"):
            # Of large arrays, only the first element that differs.
            bounds, bounds_of_other = np.broadcast_arrays(value, value_of_other)
            differs = bounds != bounds_of_other
            if differs.any():
                return f"the {name} {bounds[differs][0]} and {bounds_of_other[differs][0]}"
            if value.shape != value_of_other.shape:
                return f"a {name} of the shape {value.shape} and of {value_of_other.shape}, with the same numbers"
        elif value != value_of_other:
            return f"the {name} {value} and {value_of_other}"
    return f"the spec {leaf!r} and {other!r}"


def normalized(structure: Any, what: str) -> Any:
    """Converts a nest of specs or spaces to ``ArraySpec``, ``BoundedArraySpec`` and ``DiscreteArraySpec``.

    Discrete actions are counted from 0, regardless of the space's ``start``. Observations are not changed, so those of a
    discrete space that does not start at 0 get a ``BoundedArraySpec``.

    Raises:
      TypeError: a leaf that is not supported; the error names its path.
    """

    is_observation = what.startswith("observation")

    def leaf(path: nest.Path, spec: Any) -> ArraySpec:
        place = f"{what} at {nest.path_text(path)!r}" if path else what
        try:
            found = _discrete(spec)
            if found is None or (is_observation and getattr(spec, "start", 0) != 0):
                found = as_spec(spec)
        except (TypeError, ValueError) as error:
            raise TypeError(f"{place}: {spec!r} is not supported: {_reason(error)}; {_SUPPORTED}") from error
        fixed = isinstance(found, ArraySpec) and found.shape is not None and None not in found.shape
        if not fixed or found.dtype.kind not in "fiub":
            raise TypeError(f"{place}: {spec!r} is not supported; {_SUPPORTED}")
        return found

    return nest.map_structure_with_path(leaf, _foreign_specs.without_spaces(structure))


def as_arrays(specs: Any, value: Any) -> Any:
    """Converts a value to arrays of the data types of its specs.

    Raises:
      TypeError: whole numbers are expected, but the conversion would change the given numbers.
    """
    if isinstance(specs, ArraySpec):
        # Fast paths: this runs for every step, and most environments have no nests, or only mappings.
        return converted(np.asarray(value), specs.dtype)
    if type(specs) is dict and isinstance(value, dict) and specs.keys() == value.keys():
        # The general case below names the whole path in its errors.
        with contextlib.suppress(ValueError):
            return {name: as_arrays(spec, value[name]) for name, spec in specs.items()}
    return nest.map_structure_up_to(as_arrays, specs, specs, value, names=("the specification", "the value"))


def converted(array: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Converts an array to a data type; floats may lose precision.

    Raises:
      TypeError: the data type is for whole numbers, and the conversion would change the given numbers.
    """
    if array.dtype == dtype:
        return array
    with np.errstate(invalid="ignore"):
        result = array.astype(dtype)
    if dtype.kind in "iub" and array.dtype.kind in "fiub" and not np.array_equal(result, array):
        changed = array[result != array].flat[0]
        raise TypeError(f"{array.dtype} numbers such as {changed} cannot be converted to {dtype}, the expected data type, without changing "
                        "them")
    return result


def array_spec(shape: Sequence[int], dtype: Any, name: str | None) -> ArraySpec:
    """Builds a spec from the values that the extension passes."""
    return ArraySpec(shape, dtype, name)


def bounded_spec(
    shape: Sequence[int], dtype: Any, minimum: npt.ArrayLike, maximum: npt.ArrayLike, name: str | None
) -> BoundedArraySpec:
    """Builds a spec from the values that the extension passes: each bound is one number, or one per element."""

    def shaped(bound: npt.ArrayLike) -> npt.NDArray[Any]:
        flat = np.asarray(bound)
        if np.dtype(dtype).kind in "iu":
            flat = _within(flat, np.iinfo(dtype))
        return flat.reshape(()) if flat.size == 1 else flat.reshape(tuple(shape))

    return BoundedArraySpec(shape, dtype, shaped(minimum), shaped(maximum), name)


def _within(bounds: npt.NDArray[Any], limits: np.iinfo[Any]) -> npt.NDArray[Any]:
    """Returns integer bounds, although the extension passes floats, which may be infinite or rounded beyond the type."""
    whole = [limits.min if bound <= limits.min else limits.max if bound >= limits.max else int(bound) for bound in bounds.ravel().tolist()]
    return np.array(whole, limits.dtype).reshape(bounds.shape)


def discrete_spec(num_values: int, dtype: Any, name: str | None) -> DiscreteArraySpec:
    """Builds a spec from the values that the extension passes."""
    return DiscreteArraySpec(num_values, dtype, name)


def for_extension(spec: EnvironmentSpec) -> tuple[Any, Any, Any, Any]:
    """Returns the specs in the extension's form, in which each bound is one number, or one per element."""

    def flat(leaf: ArraySpec) -> ArraySpec:
        if isinstance(leaf, DiscreteArraySpec) or not isinstance(leaf, BoundedArraySpec):
            return leaf
        shape = tuple(size or 0 for size in leaf.shape or ())
        bounds = [bound if bound.size == 1 else np.broadcast_to(bound, shape) for bound in (leaf.minimum, leaf.maximum)]
        return BoundedArraySpec(leaf.shape, leaf.dtype, bounds[0], bounds[1], leaf.name)

    observations, actions, rewards, discounts = (nest.map_structure(flat, part) for part in spec)
    return observations, actions, rewards, discounts


def _discrete(spec: Any) -> DiscreteArraySpec | None:
    """Returns the discrete spec for a spec of dm_env or a space of Gymnasium, if it is discrete."""
    if isinstance(spec, DiscreteArraySpec):
        return spec
    count = getattr(spec, "num_values", None)
    if count is None and type(spec).__name__ == "Discrete":
        count = getattr(spec, "n", None)
    if count is None:
        return None
    dtype = np.dtype(spec.dtype)
    return DiscreteArraySpec(int(count), dtype if dtype in _CHOICE_DTYPES else np.int64, getattr(spec, "name", None))


def _scalar(environment: Any, method: str, default: ArraySpec) -> Any:
    spec = getattr(environment, method, None)
    if spec is None:
        return default
    found = normalized(spec(), method.removesuffix("_spec"))
    if not isinstance(found, ArraySpec) or found.shape != ():
        raise TypeError(f"{method}() returned {found!r}, but only environments with one number as their {method[:-5]} are supported")
    return found


def _reason(error: Exception) -> str:
    return str(error.__cause__ or error)
