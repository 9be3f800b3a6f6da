"""Names that dm-reverb's modules import from other modules.

Programs and their tests use these names (`reverb.client.pybind`, `mock.patch("reverb.server.portpicker")`). They are
resolved at their first use, so that no package is imported for them in advance. Names from packages that are not
installed are missing.
"""

import importlib
import importlib.util
import typing
from collections.abc import Callable
from typing import Any


# Modules of this package that need another package.
_NEEDS = {
    "reverb.cc.ops.gen_reverb_ops": "tensorflow",
    "reverb.platform.default.server_main_command_line_args": "absl",
}


def lend(
    module: dict[str, Any], of_typing: str = "", **sources: str
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Returns the functions `__getattr__` and `__dir__` for a module with names from other modules.

    Args:
      module: the module's own names.
      of_typing: names of the module `typing`.
      **sources: for each name, its module, or `module:attribute`.
    """
    sources.update({name: f"typing:{name}" for name in of_typing.split()})

    def get(name: str) -> Any:
        if name not in sources:
            raise AttributeError(f"module {module['__name__']!r} has no attribute {name!r}")
        return _found(module["__name__"], name, sources[name])

    def names() -> list[str]:
        return sorted({*module, *(name for name, source in sources.items() if _is_there(source))})

    return get, names


def _found(module: str, name: str, source: str) -> Any:
    path, _, attribute = source.partition(":")
    try:
        value = importlib.import_module(path)
    except ImportError as error:
        raise AttributeError(f"module {module!r} has no attribute {name!r}, since there is no {path!r}") from error
    for part in attribute.split(".") if attribute else []:
        value = getattr(value, part)
    return value


def _is_there(source: str) -> bool:
    module = source.partition(":")[0]
    package = _NEEDS.get(module, module).partition(".")[0]
    return package == "reverb" or importlib.util.find_spec(package) is not None
