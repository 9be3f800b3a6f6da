"""dm-reverb's texts for Relive's errors, which programs and their tests compare.

An error keeps its class, which is dm-reverb's or a subclass of it. The text begins with dm-reverb's text. Relive's own
text follows, since it has more details: the available tables, the affected step, the remedy.
"""

import contextlib
import datetime
import functools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
from relive import errors, nest

# A pattern in Relive's text, and dm-reverb's text: a template for the match, or a function of the match.
Rule = tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]

# The time that an error waits for additional information.
_PATIENCE_SECONDS = 5.0

_F = TypeVar("_F", bound=Callable[..., Any])


def rule(pattern: str, words: str | Callable[[re.Match[str]], str]) -> Rule:
    return re.compile(pattern, re.DOTALL), words


UNKNOWN_TABLE = rule(r"Priority table \S+ was not found", r"\g<0>")
UNKNOWN_TABLE_OF_ITEM = rule(
    r"^(?:create_item: Priority table (\S+) was not found|the server has no table \"(.*?)\"; its tables)",
    lambda found: f"Unable to create item in table '{found[1] or found[2]}' since the table could not be found.",
)
PRIORITIES = (
    rule(r"priority \S+ is negative", "Priority must not be negative."),
    rule(r"priority is NaN, which", "Priority must not be NaN."),
    rule(r"priority is NaN", "`priority` must not be nan."),
)


def name(given: Any) -> Any:
    """Returns the text of a name that is ``bytes``, which dm-reverb accepts; anything else is returned unchanged."""
    return given.decode() if isinstance(given, bytes) else given


def number(given: Any) -> Any:
    """Returns the number of a bool, which dm-reverb accepts; anything else is returned unchanged."""
    return int(given) if isinstance(given, (bool, np.bool_)) else given


def arguments_of(call: str) -> Rule:
    """Returns the rule for arguments of a wrong type, for which dm-reverb's compiled half has only this text."""
    types = "incompatible function arguments|None in the place|must be real number|is not an instance of|an integer from 0|numbers are"
    return rule(types, f"{call}(): incompatible function arguments.")


def retold(error: Exception, rules: Sequence[Rule]) -> Exception:
    """Returns the error with dm-reverb's text before its own, if a rule matches; otherwise the error itself."""
    text = str(error)
    for pattern, words in rules:
        found = pattern.search(text)
        if found is not None:
            said = found.expand(words) if isinstance(words, str) else words(found)
            return said_first(error, said)
    return error


def said_first(error: Exception, words: str) -> Exception:
    """Returns an error with the same class, and a text that begins with ``words``."""
    text = str(error)
    # Other classes may need more arguments than a text.
    is_ours = isinstance(error, errors.ReverbError) or type(error) in (ValueError, TypeError, RuntimeError)
    if text.startswith(words) or not is_ours:
        return error
    rest = text.split(": ", 1)
    if len(rest) == 2 and rest[1].startswith(words):
        # Only the name of the call preceded `words`.
        return type(error)(rest[1])
    return type(error)(f"{words} ({text})")


def cause(told: Exception, error: Exception) -> Exception | None:
    """Returns the cause for ``raise told from``: an error must not be its own cause."""
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
    """Makes a function raise errors with dm-reverb's texts. This costs nothing as long as there are no errors."""

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
    """Adds the timeout of a call to its errors."""
    try:
        yield
    except errors.DeadlineExceededError as error:
        limit = datetime.timedelta(milliseconds=timeout_ms or 0)
        told = said_first(error, f"{call} call did not complete within provided timeout of {limit}")
        raise told from cause(told, error)


def known_tables(client: Any) -> dict[str, Any]:
    """Returns the server's tables for a text; empty if the server does not answer soon."""
    try:
        tables: dict[str, Any] = client.server_info(_PATIENCE_SECONDS)
    except errors.ReverbError:
        return {}
    return tables


def check_block_until(num_items: int) -> None:
    if num_items < 0:
        raise ValueError(f"block_until_num_items must be >= 0, got {num_items}")


# TensorFlow's names, which dm-reverb's texts use; other types have numpy's names.
_DTYPES = {"float16": "half", "float32": "float", "float64": "double"}


def dtype_text(dtype: Any) -> str:
    """Returns the name of a data type in dm-reverb's texts; the argument can also be its name in numpy or
    TensorFlow."""
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
    """Returns names, data types and shapes of columns in the form of dm-reverb's lists."""
    return ", ".join(f"{index}: {tensor_text(*tensor)}" for index, tensor in enumerate(tensors))


def signature_tensors(structure: Any) -> list[tuple[str, Any, Sequence[int | None] | None]]:
    """Returns the columns of a signature, with the names that dm-reverb's servers use."""
    return [
        ("/".join([str(part) for part in path] + ([spec.name] if spec.name else [])), spec.dtype, spec.shape)
        for path, spec in nest.flatten_with_path(structure)
    ]


def fits(wanted: tuple[str, Any, Sequence[int | None] | None], dtype: Any, shape: Sequence[int]) -> bool:
    """Returns whether a column of this data type and shape matches a signature's column."""
    _, wanted_dtype, wanted_shape = wanted
    if dtype_text(wanted_dtype) != dtype_text(dtype):
        return False
    if wanted_shape is None:
        return True
    return len(wanted_shape) == len(shape) and all(
        want is None or want == size for want, size in zip(wanted_shape, shape, strict=True)
    )
