"""The signature of the items that patterns create."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from relive import _patterns, nest, specs
from relive.specs import ArraySpec, Shape


def infer_signature(configs: Sequence[Any], step_spec: Any) -> Any:
    """Returns the signature of a table for the items that ``configs`` create, derived from the spec of a step.

    Args:
      configs: configurations with the same table and the same structure of patterns.
      step_spec: a nest of specs, see ``relive.specs.as_spec``.

    Returns:
      A nest of specs, each named by its path joined with ``/``. The leading dimension of a column is ``None`` if its
      length differs between the patterns. The specs are ``tf.TensorSpec`` if the step's specs are, else
      ``relive.ArraySpec``.

    Raises:
      TypeError: one of ``configs`` is not a configuration.
      ValueError: no configurations, several tables, several structures, or columns that differ between patterns in data
        type, rank or a dimension other than the leading one.
    """
    check_configs(configs)
    steps = nest.flatten(specs.as_spec(step_spec))
    of_tensorflow = any(specs.is_tensorflow_spec(leaf) for leaf in nest.flatten(step_spec))
    structure = _patterns.unpack_pattern(configs[0])
    paths = [path for path, _ in nest.flatten_with_path(structure)]
    columns = [
        _merge(path, [_spec_of(config.flat[index], steps) for config in configs], of_tensorflow)
        for index, path in enumerate(paths)
    ]
    signature = nest.unflatten_as(structure, columns)
    return nest.map_structure(_tensor_spec, signature) if of_tensorflow else signature


def check_configs(configs: Sequence[Any]) -> None:
    """Raises ``ValueError`` if there are no configurations, or if they differ in table or structure; ``TypeError`` if
    they are not configurations."""
    if configs is not None and not isinstance(configs, Iterable):
        raise TypeError(f"configs must be a list of configurations, got {configs!r}")
    # Existing tests compare the texts of the next three errors verbatim.
    if not configs:
        raise ValueError("At least one config must be provided.")
    for config in configs:
        if not hasattr(config, "pattern_structure"):
            raise TypeError(f"configs must be a list of configurations from create_config, but one is {config!r}")
    if any(config.pattern_structure != configs[0].pattern_structure for config in configs):
        raise ValueError("All configs must have exactly the same pattern_structure.")
    tables = sorted({config.table for config in configs})
    if len(tables) > 1:
        raise ValueError(f"All configs must target the same table but provided configs included {', '.join(tables)}.")
    if len({len(config.flat) for config in configs}) > 1:
        raise ValueError("all configurations must have the same number of columns")


def _spec_of(node: Any, steps: Sequence[ArraySpec]) -> ArraySpec:
    if not 0 <= node.flat_source_index < len(steps):
        raise IndexError(
            f"list index out of range: a pattern refers to column {node.flat_source_index} of a step of {len(steps)}"
        )
    spec = steps[node.flat_source_index]
    if not node.HasField("start") or spec.shape is None:
        return ArraySpec(spec.shape, spec.dtype)
    stride = node.step if node.HasField("step") else 1
    return ArraySpec((len(range(node.start, node.stop, stride)), *spec.shape), spec.dtype)


def _merge(path: nest.Path, columns: Sequence[ArraySpec], of_tensorflow: bool) -> ArraySpec:
    dtypes = [column.dtype for column in columns]
    if len(set(dtypes)) > 1:
        shown = [_shown(_tensor_spec(column).dtype if of_tensorflow else column.dtype) for column in columns]
        raise ValueError(f"Configs produce trajectories with multiple dtypes at {path}. Got [{', '.join(shown)}].")
    shape = columns[0].shape
    for column in columns[1:]:
        if not _same_trailing(shape, column.shape):
            shapes = [_tensor_spec(one).shape if of_tensorflow else one.shape for one in columns]
            raise ValueError(f"Configs produce trajectories with incompatible shapes at {path}. Got {shapes}.")
        shape = _common(shape, column.shape)
    return ArraySpec(shape, dtypes[0], nest.path_text(path))


def _same_trailing(first: Shape | None, second: Shape | None) -> bool:
    if first is None or second is None:
        return True
    return len(first) == len(second) and first[1:] == second[1:]


def _common(first: Shape | None, second: Shape | None) -> Shape | None:
    """Returns the narrowest shape that covers both shapes."""
    if first is None or second is None:
        return None
    return tuple(one if one == other else None for one, other in zip(first, second, strict=True))


def _shown(dtype: Any) -> str:
    return str(dtype.name) if not hasattr(dtype, "as_numpy_dtype") else f"tf.{dtype.name}"


def _tensor_spec(spec: ArraySpec) -> Any:
    from relive._tf.specs import tensor_spec

    return tensor_spec(spec)
