"""Checkpoints in a bucket of a local S3 server, which `cargo xtask test` starts."""

from __future__ import annotations

import os
import uuid

import pytest

import relive

pytestmark = pytest.mark.skipif(
    "RELIVE_TEST_S3" not in os.environ, reason="there is no S3 server; `cargo xtask test` starts one"
)


@pytest.fixture
def url() -> str:
    return f"{os.environ['RELIVE_TEST_S3']}/python/{uuid.uuid4().hex}"


def serve(url: str) -> relive.Server:
    table = relive.Table.queue("steps", max_size=100)
    return relive.Server([table], checkpointer=relive.checkpointers.DefaultCheckpointer(url, keep=2))


def test_a_server_resumes_from_its_bucket(url: str) -> None:
    with serve(url) as server:
        client = server.localhost_client()
        for step in range(3):
            client.insert([float(step)], {"steps": 1.0})
        assert client.checkpoint() == f"{url}/checkpoint-0000000001.relive"
        client.insert([3.0], {"steps": 1.0})
        assert client.checkpoint() == f"{url}/checkpoint-0000000002.relive"
    with serve(url) as server:
        client = server.localhost_client()
        assert client.server_info()["steps"].current_size == 4
        samples = client.sample("steps", num_samples=4)
        assert [float(sample[0].data[0]) for sample in samples] == [0.0, 1.0, 2.0, 3.0]


def test_a_second_server_is_refused_with_the_owner_of_the_bucket(url: str) -> None:
    with serve(url), pytest.raises(relive.errors.ReverbError, match=f"process {os.getpid()} .*writes its checkpoints here"):
        serve(url)


def test_a_missing_bucket_is_named() -> None:
    with pytest.raises(relive.errors.ReverbError, match="there is no bucket `relive-nowhere`: create it first"):
        serve("s3://relive-nowhere/run")
