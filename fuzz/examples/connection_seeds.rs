//! Writes the initial inputs of the corpora of whole connections.

use std::path::Path;
use std::{fs, io};

use relive_wire::Message;
use relive_wire::bulk::{FrameHeader, FrameKind, MAGIC};
use relive_wire::reverb::flat_trajectory::{ChunkSlice, Column};
use relive_wire::reverb::{
    FlatTrajectory, InsertStreamRequest, MutatePrioritiesRequest, PrioritizedItem, ResetRequest,
    SampleStreamRequest, Timeout,
};
use relive_wire::v1::{AskBatches, OpenSampler};

#[path = "../src/connection.rs"]
mod connection;
#[path = "../src/grpc_connection.rs"]
mod grpc_connection;

use connection::{FULL, QUEUE, step};
use grpc_connection::{CALLS, Deed};

fn main() -> io::Result<()> {
    for (name, frames) in bulk() {
        for (way, how) in [(0xff, "reading"), (0x0c, "in_pieces")] {
            let bytes: Vec<u8> =
                [way].into_iter().chain(MAGIC.iter().copied()).chain(frames.clone()).collect();
            write("connection", &format!("{name}_{how}"), &bytes)?;
        }
    }
    for (name, deeds) in grpc() {
        for way in 0..2 {
            write("grpc_connection", &format!("{name}_{way}"), &[&[way], deeds.as_slice()].concat())?;
        }
    }
    Ok(())
}

fn frame(kind: FrameKind, head: &[u8], body: &[u8]) -> Vec<u8> {
    let header = FrameHeader::new(kind, head.len(), body.len()).expect("a small frame").encode();
    [&header, head, body].concat()
}

/// [`step`] as a gRPC request.
fn step_by_message(table: &str, key: u64) -> InsertStreamRequest {
    let slice = ChunkSlice { chunk_key: key, offset: 0, length: 1, index: 0 };
    let column = Column { chunk_slices: vec![slice], squeeze: false };
    let item = PrioritizedItem {
        key,
        table: table.to_owned(),
        priority: 1.0,
        flat_trajectory: Some(FlatTrajectory { columns: vec![column] }),
        ..PrioritizedItem::default()
    };
    InsertStreamRequest { chunks: step(table, key).chunks, items: vec![item], keep_chunk_keys: Vec::new() }
}

/// Connections on the bulk path.
fn bulk() -> Vec<(&'static str, Vec<u8>)> {
    let open_writer = frame(FrameKind::OpenWriter, &[], &[]);
    let insert = |table, key| frame(FrameKind::Insert, &[], &step(table, key).encode_to_vec());
    let end = frame(FrameKind::End, &[], &[]);
    let open = |table: &str, shared_memory| {
        let table = table.to_owned();
        let open = OpenSampler {
            table,
            batch_size: 2,
            window_bytes: 1 << 16,
            shared_memory,
            ..OpenSampler::default()
        };
        frame(FrameKind::OpenSampler, &open.encode_to_vec(), &[])
    };
    let ask = |batches, free_slots| {
        let ask = AskBatches { batches, taken_bytes: 64, free_slots, ..AskBatches::default() };
        frame(FrameKind::Ask, &ask.encode_to_vec(), &[])
    };
    let into_queue: Vec<u8> = (10..14).flat_map(|key| insert(QUEUE, key)).collect();
    vec![
        ("writer", [open_writer.clone(), insert(FULL, 7), insert(FULL, 8), end.clone()].concat()),
        ("waiting_writer", [open_writer, into_queue, end].concat()),
        ("sampler", [open(FULL, false), ask(2, vec![]), ask(1, vec![])].concat()),
        ("sharing_sampler", [open(FULL, true), ask(2, vec![]), ask(1, vec![1, 2])].concat()),
        ("waiting_sampler", [open(QUEUE, false), ask(1, vec![])].concat()),
    ]
}

/// Streams of gRPC.
fn grpc() -> Vec<(&'static str, Vec<u8>)> {
    let call = |name: &str| {
        let at = CALLS.iter().position(|call| call.ends_with(name)).expect("a call");
        vec![Deed::Open as u8, u8::try_from(at).expect("few calls")]
    };
    let led = |deed: Deed, stream: u8, bytes: &[u8]| {
        let length = u16::try_from(bytes.len()).expect("a small message").to_le_bytes();
        [&[deed as u8, stream], length.as_slice(), bytes].concat()
    };
    let message = |stream, message: Vec<u8>| led(Deed::Message, stream, &message);
    let end = |stream| vec![Deed::End as u8, stream];
    let wait = vec![Deed::Wait as u8];
    let insert = |stream, table, key| message(stream, step_by_message(table, key).encode_to_vec());
    let samples = |stream, table: &str, num_samples| {
        let rate_limiter_timeout = Some(Timeout { milliseconds: 5 });
        let table = table.to_owned();
        let request = SampleStreamRequest { table, num_samples, rate_limiter_timeout, ..Default::default() };
        message(stream, request.encode_to_vec())
    };
    let reset = ResetRequest { table: FULL.to_owned() }.encode_to_vec();
    let delete =
        MutatePrioritiesRequest { table: FULL.to_owned(), delete_keys: vec![1], ..Default::default() };
    let describe: Vec<u8> = (0..)
        .zip(["ServerInfo", "Describe", "Negotiate", "InitializeConnection"])
        .flat_map(|(at, name)| [call(name), message(at, vec![]), end(at)].concat())
        .collect();
    vec![
        (
            "insert",
            [call("InsertStream"), insert(0, FULL, 7), wait.clone(), insert(0, FULL, 8), end(0)].concat(),
        ),
        (
            "insert_and_wait",
            [
                call("InsertStream"),
                (10..14).flat_map(|key| insert(0, QUEUE, key)).collect(),
                wait.clone(),
                end(0),
            ]
            .concat(),
        ),
        (
            "sample",
            [call("SampleStream"), samples(0, FULL, 5), wait.clone(), samples(0, FULL, 1), end(0)].concat(),
        ),
        (
            "sample_in_vain",
            [call("SampleStream"), samples(0, QUEUE, 5), wait.clone(), vec![Deed::Reset as u8, 0]].concat(),
        ),
        (
            "both",
            [
                call("InsertStream"),
                call("SampleStream"),
                samples(1, QUEUE, 2),
                insert(0, QUEUE, 7),
                wait,
                insert(0, QUEUE, 8),
                end(0),
                end(1),
            ]
            .concat(),
        ),
        (
            "change",
            [
                call("MutatePriorities"),
                message(0, delete.encode_to_vec()),
                end(0),
                call("Reset"),
                message(1, reset),
                end(1),
            ]
            .concat(),
        ),
        ("describe", describe),
        (
            "half_a_message",
            [call("InsertStream"), led(Deed::Data, 0, &[0, 0, 0, 1, 0, 10, 7]), end(0)].concat(),
        ),
    ]
}

fn write(target: &str, name: &str, data: &[u8]) -> io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    fs::create_dir_all(&folder)?;
    fs::write(folder.join(name), data)
}
