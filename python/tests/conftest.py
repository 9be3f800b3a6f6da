"""What tests share: servers that stop, and clients by every way there is."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

import relive

# Longer than anything takes unless it hangs.
PATIENCE_S = 30.0

TRANSPORTS = ("in-process", "tcp", "unix", "shm")


def uniform_table(name: str = "table", **rules: object) -> relive.Table:
    """A table of uniform sampling that opens with its first item."""
    arguments: dict[str, object] = {
        "sampler": relive.selectors.Uniform(),
        "remover": relive.selectors.Fifo(),
        "max_size": 1_000,
        "rate_limiter": relive.rate_limiters.MinSize(1),
    }
    return relive.Table(name=name, **{**arguments, **rules})  # type: ignore[arg-type]


@pytest.fixture
def serve() -> Iterator[Callable[..., relive.Server]]:
    """Starts servers of the tables given; all stop at the end of the test."""
    servers: list[relive.Server] = []

    def start(*tables: relive.Table) -> relive.Server:
        servers.append(relive.Server(tables=list(tables) or [uniform_table()]))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


@pytest.fixture(params=TRANSPORTS)
def transport(request: pytest.FixtureRequest) -> str:
    """Every way to a server."""
    return str(request.param)


@pytest.fixture
def connect(serve: Callable[..., relive.Server], transport: str) -> Callable[..., relive.Client]:
    """A client of a fresh server with the tables given, by the way of `transport`."""

    def start(*tables: relive.Table) -> relive.Client:
        return relive.Client(f"localhost:{serve(*tables).port}", transport=transport)

    return start
