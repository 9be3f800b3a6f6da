"""Tables and the server that holds them."""

from relive.server import Server as Server
from relive.server import Table as Table
