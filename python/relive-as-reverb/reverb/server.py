"""Tables and the server that holds them."""

from collections.abc import Sequence

from relive import server as _relive
from relive.server import Table as Table
from relive.server import TableExtensionBase as TableExtensionBase

from reverb.client import Client
from reverb.platform.default import checkpointers


class Server(_relive.Server):
    """Serves tables on a port. Its checkpoints are in dm-reverb's format."""

    def __init__(
        self,
        tables: Sequence[Table] | None = None,
        port: int | None = None,
        checkpointer: checkpointers.CheckpointerBase | None = None,
    ) -> None:
        if checkpointer is None:
            checkpointer = checkpointers.default_checkpointer()
        super().__init__(tables, port, checkpointer)

    def localhost_client(self) -> Client:
        return Client(f"localhost:{self.port}")
