"""Runs programs that import `reverb` on the first package with that name on the path.

With `--reverb=dm`, this must be dm-reverb: the run proves that the tests are correct. With `--reverb=relive`, it must
be the stand-in: the run proves that the programs behave in the same way on Relive.
"""

from __future__ import annotations

import pathlib

import pytest
import reverb

_IS_STANDIN = "relive-as-reverb" in str(pathlib.Path(reverb.__file__))


def pytest_addoption(parser):
    parser.addoption("--reverb", choices=["dm", "relive"], required=True, help="which package must be found")


def pytest_configure(config):
    wanted = config.getoption("--reverb")
    if (wanted == "relive") != _IS_STANDIN:
        raise pytest.UsageError(f"--reverb={wanted}, but the module `reverb` is {reverb.__file__}")
    if not _IS_STANDIN:
        _accept_what_acme_passes()


def _accept_what_acme_passes():
    """Acme 0.4.0 was written for an older dm-reverb with one more argument for writers."""
    original = reverb.Client.trajectory_writer

    def trajectory_writer(self, *arguments, get_signature_timeout_ms=None, **named):
        return original(self, *arguments, **named)

    reverb.Client.trajectory_writer = trajectory_writer


@pytest.fixture
def is_standin():
    """Returns whether the package is the stand-in, for behavior that the stand-in improves deliberately."""
    return _IS_STANDIN


@pytest.fixture
def serve():
    """Starts servers with tables in this process, and returns clients for them."""
    servers = []

    def serve(*tables):
        servers.append(reverb.Server(list(tables)))
        return reverb.Client(f"localhost:{servers[-1].port}")

    yield serve
    for server in servers:
        server.stop()
