"""Checkpoints: both servers can resume from each other's checkpoints."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import subprocess

import numpy as np
import pytest
import reverb
import tensorflow as tf

from support import steps, tables, wait
from support.servers import ReliveServers, ServerFailed
from support.tables import table

KINDS = ("reverb", "relive")

IN_OUR_FORMAT = ("--no-checkpoint-at-shutdown",)

# The server writes dm-reverb's format, keeps as many checkpoints as dm-reverb, and writes none without a request.
LIKE_REVERB = ("--checkpoint-format", "reverb", "--checkpoint-keep", "1", "--no-checkpoint-at-shutdown")


class ReverbHere:
    """A dm-reverb server in this process, with an optional folder of checkpoints."""

    def __init__(self, protos, root: pathlib.Path) -> None:
        checkpointer = reverb.platform.checkpointers_lib.DefaultCheckpointer(str(root))
        self._server = reverb.Server([_reverb_table(proto) for proto in protos], port=None, checkpointer=checkpointer)

    def client(self) -> reverb.Client:
        return reverb.Client(f"localhost:{self._server.port}")

    def stop(self) -> None:
        self._server.stop()


def _reverb_table(proto) -> reverb.Table:
    from reverb.server_executable import server_from_proto

    [made] = server_from_proto.tables_from_proto([proto])
    return made.replace(signature=SIGNATURE) if proto.HasField("signature") else made


@pytest.fixture
def start(request):
    """Starts a server of a kind with tables and a folder of checkpoints."""
    only = request.config.getoption("--only")
    running = []

    def start(kind: str, protos, root: pathlib.Path, arguments=LIKE_REVERB):
        if only not in (None, kind):
            pytest.skip(f"for {only} alone")
        if kind == "reverb":
            running.append(ReverbHere(protos, root))
        else:
            servers: ReliveServers = request.getfixturevalue("relive_servers")
            running.append(servers.start(*protos, arguments=("--checkpoint-dir", str(root), *arguments)))
        return running[-1]

    yield start
    for server in running:
        server.stop()


SIGNATURE = {"reward": tf.TensorSpec([None], tf.float32, "r"), "text": tf.TensorSpec([], tf.string)}


def all_tables():
    return [
        table("plain", signature=SIGNATURE),
        table("prioritized", sampler=tables.prioritized(0.5), remover=tables.min_heap(), max_size=4),
        table("heap", sampler=tables.max_heap(), remover=tables.lifo(), max_times_sampled=7),
        table("legacy", sampler=tables.lifo(), limiter=tables.ratio(1.0, 1, -1e6, 1e6)),
        table("empty", sampler=tables.uniform(), remover=tables.prioritized(-0.5)),
    ]


def fill(client: reverb.Client) -> None:
    with client.trajectory_writer(num_keep_alive_refs=8) as writer:
        for column in ("reward", "text"):
            writer.configure((column,), num_keep_alive_refs=8, max_chunk_length=3)
        for step in range(8):
            writer.append({"reward": np.float32(step), "text": f"schritt {step} ö"})
            if step >= 3:
                history = writer.history
                item = {"reward": history["reward"][-4:], "text": history["text"][-1]}
                for name in ("plain", "prioritized", "heap"):
                    writer.create_item(name, 1.0 + step, item)
    with client.writer(max_sequence_length=5, delta_encoded=True, chunk_length=2) as writer:
        for step in range(6):
            writer.append([np.full([2, 3], step * 50, np.uint8), np.asarray(step % 2 == 0), np.complex64(step - 1j)])
            if step >= 2:
                writer.create_item("legacy", 3, 0.5 * step)
    for name in ("plain", "plain", "heap", "prioritized"):
        steps.samples(client, name)
    key = steps.samples(client, "legacy")[0].info.key
    client.mutate_priorities("legacy", updates={key: 9.25})
    client.mutate_priorities("heap", deletes=[steps.samples(client, "heap")[0].info.key])


def told(client: reverb.Client):
    """Returns a server's information about its tables, without the times of the tables' workers."""
    return {name: dataclasses.replace(info, table_worker_time=None) for name, info in client.server_info().items()}


def drain(client: reverb.Client, name: str):
    """Returns every item of a table, in the table's order; each item is deleted once it is read."""
    found = []
    for _ in range(client.server_info()[name].current_size):
        [sample] = steps.samples(client, name)
        info = sample.info
        columns = [(np.asarray(value).dtype.str, np.asarray(value).tolist()) for value in tf.nest.flatten(sample.data)]
        found.append((info.key, info.priority, info.times_sampled, columns))
        client.mutate_priorities(name, deletes=[info.key])
    return found


@pytest.mark.parametrize("loader", KINDS)
@pytest.mark.parametrize("writer", KINDS)
def test_either_server_loads_what_either_wrote(start, tmp_path, writer, loader):
    server = start(writer, all_tables(), tmp_path)
    client = server.client()
    fill(client)
    path = pathlib.Path(client.checkpoint())
    assert path.parent == tmp_path and (path / "DONE").exists()
    before = told(client)
    expected = {name: drain(client, name) for name in ("plain", "heap", "legacy")}
    server.stop()

    again = start(loader, all_tables(), tmp_path).client()
    assert told(again) == before
    assert {name: drain(again, name) for name in ("plain", "heap", "legacy")} == expected
    assert sorted(item[1] for item in drain(again, "prioritized")) == [5.0, 6.0, 7.0, 8.0]


@pytest.fixture
def tool(pytestconfig):
    """Runs `relive checkpoint`, which must succeed; returns its output."""
    binary = pytestconfig.getoption("--relive")

    def run(*arguments) -> str:
        command = [str(binary.resolve()), "checkpoint", *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stderr) == (0, ""), done
        return done.stdout

    return run


@pytest.mark.parametrize("writer,loader", [("reverb", "relive"), ("relive", "reverb"), ("reverb", "reverb")])
def test_either_server_resumes_from_converted_checkpoints(start, tool, tmp_path, writer, loader):
    server = start(writer, all_tables(), tmp_path / "written", IN_OUR_FORMAT)
    client = server.client()
    fill(client)
    path = pathlib.Path(client.checkpoint())
    before = told(client)
    expected = {name: drain(client, name) for name in ("plain", "heap", "legacy")}
    server.stop()

    source = path
    if writer == loader:
        # Converts the checkpoint there and back.
        tool("convert", source, tmp_path / "between", "--format", "relive")
        source = tmp_path / "between"
    tool("convert", source, tmp_path / "converted", "--format", loader)
    again = start(loader, all_tables(), tmp_path / "converted", IN_OUR_FORMAT).client()
    assert told(again) == before
    assert {name: drain(again, name) for name in ("plain", "heap", "legacy")} == expected
    assert sorted(item[1] for item in drain(again, "prioritized")) == [5.0, 6.0, 7.0, 8.0]


def test_a_limiter_resumes_from_a_converted_checkpoint(start, tool, tmp_path):
    queue = [tables.queue("queue", 3)]
    server = start("relive", queue, tmp_path / "written", IN_OUR_FORMAT)
    client = server.client()
    steps.write(client, "queue", 1, 2, 3)
    assert steps.values(client, "queue") == [1]
    client.checkpoint()
    server.stop()
    tool("convert", tmp_path / "written", tmp_path / "converted", "--format", "reverb")
    again = start("reverb", queue, tmp_path / "converted").client()
    steps.write(again, "queue", 4)
    blocked = wait.Background(lambda: steps.write(again, "queue", 5))
    assert blocked.is_blocked()
    assert steps.values(again, "queue", 2) == [2, 3]
    blocked.result()
    assert steps.drained(again, "queue") == [4, 5]


def test_a_checkpoint_folder_of_dm_reverb_is_loaded(start, tool, tmp_path):
    server = start("reverb", all_tables(), tmp_path)
    fill(server.client())
    theirs = server.client().checkpoint()
    before = told(server.client())
    server.stop()
    shown = json.loads(tool("inspect", theirs, "--json"))
    assert {table["name"]: table["items"] for table in shown["tables"]} == {
        name: info.current_size for name, info in before.items()
    }
    assert "whole" in tool("verify", theirs)

    server = start("relive", all_tables(), tmp_path, IN_OUR_FORMAT)
    assert told(server.client()) == before
    ours = server.client().checkpoint()
    assert ours.endswith(".relive") and pathlib.Path(theirs, "DONE").exists()
    server.stop()
    listed = json.loads(tool("ls", tmp_path, "--json"))["checkpoints"]
    assert [(one["location"], one["format"]) for one in listed] == [(theirs, "reverb"), (ours, "relive")]
    tool("prune", tmp_path, "--keep", 1)
    assert told(start("relive", all_tables(), tmp_path, IN_OUR_FORMAT).client()) == before


@pytest.mark.parametrize("loader", KINDS)
@pytest.mark.parametrize("writer", KINDS)
def test_limiters_resume_where_they_stopped(start, tmp_path, writer, loader):
    queue = [tables.queue("queue", 3)]
    server = start(writer, queue, tmp_path)
    client = server.client()
    steps.write(client, "queue", 1, 2, 3)
    assert steps.values(client, "queue") == [1]
    client.checkpoint()
    server.stop()

    again = start(loader, queue, tmp_path).client()
    steps.write(again, "queue", 4)
    blocked = wait.Background(lambda: steps.write(again, "queue", 5))
    assert blocked.is_blocked()
    assert steps.values(again, "queue", 2) == [2, 3]
    blocked.result()
    assert steps.drained(again, "queue") == [4, 5]


@pytest.mark.parametrize("loader", KINDS)
@pytest.mark.parametrize("writer", KINDS)
def test_the_configuration_of_the_checkpoint_applies(start, tmp_path, writer, loader):
    server = start(writer, [table("replay", max_size=7, sampler=tables.lifo())], tmp_path)
    steps.write(server.client(), "replay", 1, 2)
    server.client().checkpoint()
    server.stop()
    other = [table("replay", max_size=1, sampler=tables.fifo(), limiter=tables.min_size(9)), table("new")]
    client = start(loader, other, tmp_path).client()
    info = client.server_info()
    assert (info["replay"].max_size, info["replay"].current_size, info["new"].current_size) == (7, 2, 0)
    assert steps.values(client, "replay") == [2]


@pytest.mark.parametrize("writer", KINDS)
def test_only_the_newest_checkpoint_stays(start, tmp_path, writer):
    client = start(writer, [table()], tmp_path).client()
    paths = []
    for value in range(3):
        steps.write(client, "replay", value)
        paths.append(client.checkpoint())
    assert [str(path) for path in tmp_path.iterdir()] == paths[-1:]


def test_foreign_files_are_never_touched(start, tmp_path):
    (tmp_path / "zzz").mkdir()
    (tmp_path / "zzz" / "notes").write_text("mine")
    server = start("relive", [table()], tmp_path)
    client = server.client()
    for value in range(2):
        steps.write(client, "replay", value)
        assert pathlib.Path(client.checkpoint()).is_dir()
    assert (tmp_path / "zzz" / "notes").read_text() == "mine"
    server.stop()
    assert start("relive", [table()], tmp_path).client().server_info()["replay"].current_size == 2


@pytest.mark.parametrize("writer", KINDS)
@pytest.mark.parametrize("file", ["tables", "items", "chunks"])
def test_a_damaged_checkpoint_does_not_start_an_empty_server(start, tmp_path, writer, file):
    server = start(writer, [table()], tmp_path)
    steps.write(server.client(), "replay", 1, 2, 3)
    path = pathlib.Path(server.client().checkpoint(), f"{file}.tfrecord")
    server.stop()
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(ServerFailed, match=f"cannot load the newest checkpoint: .*{file}.tfrecord"):
        start("relive", [table()], tmp_path)


def test_without_a_folder_a_checkpoint_is_a_value_error(start_relive):
    with pytest.raises(ValueError, match="no checkpointer is configured"):
        start_relive(table()).client().checkpoint()
