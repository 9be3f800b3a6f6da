"""Shared fixtures: servers that are stopped after a test, and clients over every transport."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

import relive

# Longer than any operation takes unless it hangs.
PATIENCE_S = 30.0

TRANSPORTS = ("in-process", "tcp", "unix", "shm")


def uniform_table(name: str = "table", **rules: object) -> relive.Table:
    """Returns a table with uniform sampling that can be sampled once it has an item."""
    arguments: dict[str, object] = {
        "sampler": relive.selectors.Uniform(),
        "remover": relive.selectors.Fifo(),
        "max_size": 1_000,
        "rate_limiter": relive.rate_limiters.MinSize(1),
    }
    return relive.Table(name=name, **{**arguments, **rules})  # type: ignore[arg-type]


@pytest.fixture
def one_thread() -> Iterator[None]:
    """One thread for PyTorch: more only slow down small networks."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def serve() -> Iterator[Callable[..., relive.Server]]:
    """Starts servers with the given tables; all are stopped at the end of the test."""
    servers: list[relive.Server] = []

    def start(*tables: relive.Table) -> relive.Server:
        servers.append(relive.Server(tables=list(tables) or [uniform_table()]))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


@pytest.fixture(params=TRANSPORTS)
def transport(request: pytest.FixtureRequest) -> str:
    """Every transport to a server."""
    return str(request.param)


@pytest.fixture
def connect(serve: Callable[..., relive.Server], transport: str) -> Callable[..., relive.Client]:
    """Creates clients of a new server with the given tables, over `transport`."""

    def start(*tables: relive.Table) -> relive.Client:
        return relive.Client(f"localhost:{serve(*tables).port}", transport=transport)

    return start
