"""dm-reverb's texts for Relive's errors: programs and their tests compare them.

The class of an error stays, which is dm-reverb's or a subclass of it. The text begins with dm-reverb's, and Relive's
own comes after it, since it says more: which tables there are, which step it was, what to do.
"""

import contextlib
import datetime
import functools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
from relive import errors, nest

# A pattern in Relive's text, and what dm-reverb says: a template for what matched, or a function of the match.
Rule = tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]

# How long an error waits for what it tells beside.
_PATIENCE_SECONDS = 5.0

_F = TypeVar("_F", bound=Callable[..., Any])


def rule(pattern: str, words: str | Callable[[re.Match[str]], str]) -> Rule:
    return re.compile(pattern, re.DOTALL), words


UNKNOWN_TABLE = rule(r"Priority table \S+ was not found", r"\g<0>")
UNKNOWN_TABLE_OF_ITEM = rule(
    r"^create_item: Priority table (\S+) was not found",
    r"Unable to create item in table '\1' since the table could not be found.",
)
PRIORITIES = (
    rule(r"priority \S+ is negative", "Priority must not be negative."),
    rule(r"priority is NaN, which", "Priority must not be NaN."),
    rule(r"priority is NaN", "`priority` must not be nan."),
)


def arguments_of(call: str) -> Rule:
    """For arguments of a wrong type, of which dm-reverb's compiled half says no more than that."""
    types = "incompatible function arguments|None in the place|must be real number|is not an instance of|an integer from 0|numbers are"
    return rule(types, f"{call}(): incompatible function arguments.")


def retold(error: Exception, rules: Sequence[Rule]) -> Exception:
    """The error with dm-reverb's text before its own, if one of the rules knows it; else the error itself."""
    text = str(error)
    for pattern, words in rules:
        found = pattern.search(text)
        if found is not None:
            said = found.expand(words) if isinstance(words, str) else words(found)
            return said_first(error, said)
    return error


def said_first(error: Exception, words: str) -> Exception:
    """An error of the same class whose text begins with ``words``."""
    text = str(error)
    # Others may be made of more than a text.
    is_ours = isinstance(error, errors.ReverbError) or type(error) in (ValueError, TypeError, RuntimeError)
    if text.startswith(words) or not is_ours:
        return error
    rest = text.split(": ", 1)
    if len(rest) == 2 and rest[1].startswith(words):
        # Only the name of the call stood before it.
        return type(error)(rest[1])
    return type(error)(f"{words} ({text})")


def cause(told: Exception, error: Exception) -> Exception | None:
    """For ``raise told from``: nothing is its own cause."""
    return None if told is error else error


@contextlib.contextmanager
def telling(*rules: Rule) -> Iterator[None]:
    """Raises errors with dm-reverb's texts."""
    try:
        yield
    except (ValueError, TypeError, RuntimeError, errors.ReverbError) as error:
        told = retold(error, rules)
        if told is error:
            raise
        raise told from error


def tells(*rules: Rule) -> Callable[[_F], _F]:
    """Makes a function raise errors with dm-reverb's texts. It costs nothing as long as there are none."""

    def decorate(function: _F) -> _F:
        @functools.wraps(function)
        def telling_function(*arguments: Any, **named: Any) -> Any:
            try:
                return function(*arguments, **named)
            except (ValueError, TypeError, RuntimeError, errors.ReverbError) as error:
                told = retold(error, rules)
                if told is error:
                    raise
                raise told from error

        return telling_function  # type: ignore[return-value]

    return decorate


@contextlib.contextmanager
def deadline(call: str, timeout_ms: int | None) -> Iterator[None]:
    """Tells how long a call was given."""
    try:
        yield
    except errors.DeadlineExceededError as error:
        limit = datetime.timedelta(milliseconds=timeout_ms or 0)
        told = said_first(error, f"{call} call did not complete within provided timeout of {limit}")
        raise told from cause(told, error)


def known_tables(client: Any) -> dict[str, Any]:
    """The tables of the server, for a text; none if it does not answer soon."""
    try:
        tables: dict[str, Any] = client.server_info(_PATIENCE_SECONDS)
    except errors.ReverbError:
        return {}
    return tables


def check_block_until(num_items: int) -> None:
    if num_items < 0:
        raise ValueError(f"block_until_num_items must be >= 0, got {num_items}")


# TensorFlow's names, which dm-reverb's texts have; other types are called as numpy calls them.
_DTYPES = {"float16": "half", "float32": "float", "float64": "double"}


def dtype_text(dtype: Any) -> str:
    """A data type, or its name in numpy or TensorFlow, as dm-reverb's texts call it."""
    if isinstance(dtype, str):
        return _DTYPES.get(dtype, dtype)
    dtype = np.dtype(dtype)
    return "string" if dtype.kind in "OSU" else _DTYPES.get(dtype.name, dtype.name)


def shape_text(shape: Sequence[int | None] | None) -> str:
    if shape is None:
        return "<unknown>"
    return "[" + ",".join("?" if size is None else str(size) for size in shape) + "]"


def tensor_text(name: str, dtype: Any, shape: Sequence[int | None] | None) -> str:
    return f"Tensor<name: '{name}', dtype: {dtype_text(dtype)}, shape: {shape_text(shape)}>"


def listed(tensors: Sequence[tuple[str, Any, Sequence[int | None] | None]]) -> str:
    """Names, data types and shapes of columns as dm-reverb lists them."""
    return ", ".join(f"{index}: {tensor_text(*tensor)}" for index, tensor in enumerate(tensors))


def signature_tensors(structure: Any) -> list[tuple[str, Any, Sequence[int | None] | None]]:
    """The columns of a signature by the names that dm-reverb's servers give them."""
    return [
        ("/".join([str(part) for part in path] + ([spec.name] if spec.name else [])), spec.dtype, spec.shape)
        for path, spec in nest.flatten_with_path(structure)
    ]


def fits(wanted: tuple[str, Any, Sequence[int | None] | None], dtype: Any, shape: Sequence[int]) -> bool:
    """Whether a column of this data type and shape is what a signature wants."""
    _, wanted_dtype, wanted_shape = wanted
    if dtype_text(wanted_dtype) != dtype_text(dtype):
        return False
    if wanted_shape is None:
        return True
    return len(wanted_shape) == len(shape) and all(
        want is None or want == size for want, size in zip(wanted_shape, shape, strict=True)
    )
