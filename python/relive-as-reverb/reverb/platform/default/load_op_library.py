"""Errors of compiled modules that cannot be loaded."""

from typing import NoReturn

from reverb import _borrowed

UNDEFINED_SYMBOL_ERROR_MESSAGE = """
A compiled module was built for another version of TensorFlow than the one that is installed. Relive has none that is linked with
TensorFlow; look for the package that the error below names.
"""


def reraise_wrapped_error(error: Exception) -> NoReturn:
    """Raises ``error``; for an undefined symbol, raises an ``ImportError`` with an explanation instead."""
    if "undefined symbol" in str(error).lower():
        raise ImportError(f"{UNDEFINED_SYMBOL_ERROR_MESSAGE}\nOriginal error:\n{error}") from error
    raise error


__getattr__, __dir__ = _borrowed.lend(globals(), six="six", sys="sys", tf="tensorflow")
