"""Fixtures: servers of both kinds, started on demand and stopped after each test."""

from __future__ import annotations

import pathlib

import pytest

from support.our_client import OurClient
from support.servers import ReliveServers, ReverbServers


def pytest_addoption(parser):
    parser.addoption("--relive", type=pathlib.Path, help="the server binary `relive`")
    parser.addoption("--our-client", type=pathlib.Path, help="the driver of our client, `relive-interop`")
    parser.addoption("--only", choices=["reverb", "relive"], help="run against one kind of server")


def pytest_generate_tests(metafunc):
    if "kind" in metafunc.fixturenames:
        only = metafunc.config.getoption("--only")
        metafunc.parametrize("kind", [only] if only else ["reverb", "relive"], scope="session")


@pytest.fixture(scope="session")
def reverb_servers():
    servers = ReverbServers()
    yield servers
    servers.close()


@pytest.fixture(scope="session")
def relive_servers(pytestconfig):
    binary = pytestconfig.getoption("--relive")
    assert binary, "name the server binary with --relive PATH, or run `cargo xtask interop`"
    servers = ReliveServers(binary.resolve())
    yield servers
    servers.close()


def _starter(servers):
    """A function that starts servers, and the list of what it started."""
    running = []

    def start(*tables):
        running.append(servers.start(*tables))
        return running[-1]

    return start, running


def _stop(running):
    for server in running:
        server.stop()


@pytest.fixture
def start(kind, request):
    """Starts a server of either kind: for what both must do."""
    start, running = _starter(request.getfixturevalue(f"{kind}_servers"))
    yield start
    _stop(running)


@pytest.fixture
def start_relive(request):
    """Starts our server: for what dm-reverb does wrong and ours must do right."""
    if request.config.getoption("--only") == "reverb":
        pytest.skip("for our server alone")
    start, running = _starter(request.getfixturevalue("relive_servers"))
    yield start
    _stop(running)


@pytest.fixture
def connect(pytestconfig):
    """Makes Rust clients of a server."""
    binary = pytestconfig.getoption("--our-client")
    assert binary, "name the driver of our client with --our-client=PATH, or run `cargo xtask interop`"
    clients = []

    def connect(server, **options) -> OurClient:
        clients.append(OurClient(binary.resolve(), server.address, **options))
        return clients[-1]

    yield connect
    for client in clients:
        client.close()
