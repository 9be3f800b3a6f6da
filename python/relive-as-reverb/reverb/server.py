"""Tables, and the server that contains them."""

import functools
from collections.abc import Sequence
from typing import Any

from relive import server as _relive
from relive.server import TableExtensionBase as TableExtensionBase

from reverb import _borrowed, _texts
from reverb.client import Client
from reverb.platform.default import checkpointers


class Table(_relive.Table):
    """A table. As in dm-reverb, tables that can never be sampled are accepted, and names that are ``bytes``."""

    _must_be_samplable = False

    @functools.wraps(_relive.Table.__init__)
    def __init__(self, name: str | bytes, *arguments: Any, **named: Any) -> None:
        super().__init__(_texts.name(name), *arguments, **named)

    @classmethod
    def _plain_class(cls) -> type["Table"]:
        return Table


class Server(_relive.Server):
    """Serves tables on a port of all addresses. Its checkpoints are in dm-reverb's format."""

    _usual_host = "*"

    def __init__(
        self,
        tables: Sequence[Table] | None = None,
        port: int | None = None,
        checkpointer: checkpointers.CheckpointerBase | None = None,
    ) -> None:
        if checkpointer is None:
            checkpointer = checkpointers.default_checkpointer()
        super().__init__(tables, port, checkpointer)

    @staticmethod
    def _client(address: str) -> Client:
        return Client(address)


__getattr__, __dir__ = _borrowed.lend(
    globals(),
    "Optional Sequence",
    abc="abc",
    annotations="__future__:annotations",
    client="reverb.client",
    collections="collections",
    item_selectors="reverb.item_selectors",
    logging="absl.logging",
    nested_structure_coder="tensorflow.python.saved_model.nested_structure_coder",
    portpicker="portpicker",
    pybind="reverb.pybind",
    rate_limiters="reverb.rate_limiters",
    reverb_types="reverb.reverb_types",
    tensor_spec="tensorflow.python.framework.tensor_spec",
    termcolor="termcolor",
    tree="tree",
)
