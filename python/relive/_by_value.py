"""Sending the functions and classes of a notebook to processes that :mod:`multiprocessing` starts.

Such a process cannot import the ``__main__`` of a notebook, an interactive session or ``python -c``, which has no file.
What these define is sent by value, with the package cloudpickle, which Gymnasium requires.
"""

from __future__ import annotations

import importlib
import io
import pickle
import sys
import types
from typing import Any


def sendable(value: Any) -> Any:
    """Checks that a value can be pickled, and returns it as an argument for a process, which receives the value itself.

    Raises:
      Exception: the value cannot be pickled.
      PicklingError: a notebook defines a part of the value, and cloudpickle is not installed; or Python reads the program
        from its standard input, so that no process can start.
    """
    main = sys.modules["__main__"]
    if getattr(main, "__file__", None) == "<stdin>":
        raise pickle.PicklingError("Python reads this program from its standard input, which other processes cannot read again; put it in a file")
    if _has_file(main):
        pickle.dumps(value)
        return value
    finder = _Finder()
    try:
        finder.dump(value)
    except Exception:
        if finder.found is None:
            raise
    if finder.found is None:
        return value
    try:
        import cloudpickle  # type: ignore[import-untyped]  # noqa: F401
    except ImportError:
        raise pickle.PicklingError(
            f"{finder.found.__qualname__} is defined in a notebook or an interactive session, from which other processes cannot import "
            "it; move it to a module, install the package cloudpickle, or use on='threads'"
        ) from None
    by_value = ByValue(value, "cloudpickle")
    pickle.dumps(by_value)
    return by_value


def _has_file(main: types.ModuleType) -> bool:
    """Returns whether a process that :mod:`multiprocessing` starts can import this ``__main__``."""
    return getattr(main, "__spec__", None) is not None or getattr(main, "__file__", None) is not None


class _Finder(pickle.Pickler):
    """A pickler that finds the first function or class of ``__main__`` in a value."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), pickle.HIGHEST_PROTOCOL)
        self.found: Any = None

    def persistent_id(self, value: Any) -> None:
        """Is called with each part of the value."""
        if self.found is None and isinstance(value, (types.FunctionType, type)) and value.__module__ == "__main__":
            self.found = value


class ByValue:
    """A value that is pickled by value and unpickled as the original, with the module ``cloudpickle`` or Ray's form of it,
    which support more types than Python's pickle."""

    def __init__(self, value: Any, module: str) -> None:
        self._value, self._module = value, module

    def __reduce__(self) -> tuple[Any, tuple[bytes]]:
        return pickle.loads, (importlib.import_module(self._module).dumps(self._value),)
