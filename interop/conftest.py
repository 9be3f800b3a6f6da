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


def _starting(launch):
    """Yields a function that starts servers like `launch`, and stops all of them at the end."""
    running = []

    def start(*arguments):
        running.append(launch(*arguments))
        return running[-1]

    yield start
    for server in running:
        server.stop()


def _relive(request):
    if request.config.getoption("--only") == "reverb":
        pytest.skip("for our server alone")
    return request.getfixturevalue("relive_servers")


@pytest.fixture
def start(kind, request):
    """Starts a server of either kind, for behavior that both must have."""
    yield from _starting(request.getfixturevalue(f"{kind}_servers").start)


@pytest.fixture
def start_relive(request):
    """Starts Relive's server, for behavior that is wrong in dm-reverb and must be right in Relive."""
    yield from _starting(_relive(request).start)


@pytest.fixture
def start_toml(request):
    """Starts Relive's server from the text of a TOML file."""
    servers = _relive(request)
    yield from _starting(lambda text: servers.start_text(text, "toml"))


@pytest.fixture
def connect(pytestconfig):
    """Creates Rust clients for a server."""
    binary = pytestconfig.getoption("--our-client")
    assert binary, "name the driver of our client with --our-client=PATH, or run `cargo xtask interop`"
    clients = []

    def connect(server, **options) -> OurClient:
        clients.append(OurClient(binary.resolve(), server.address, **options))
        return clients[-1]

    yield connect
    for client in clients:
        client.close()
