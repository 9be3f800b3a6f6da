//! Writes the initial inputs of every corpus, from the fixtures of the tests of `relive-wire` and `relive-checkpoint`.

use std::path::{Path, PathBuf};
use std::{fs, io};

use relive_tensor::{Codec, DType, Nest, Signature, Tensor, TensorSpec};
use relive_wire::bulk::{FrameHeader, FrameKind, InfoLayout, aligned};
use relive_wire::item_run::RunSlice;
use relive_wire::reverb::sample_stream_response::SampleEntry;
use relive_wire::reverb::{ChunkData, InsertStreamRequest, SampleInfo, SampleStreamResponse};
use relive_wire::v1::{BatchColumn, BatchHead, InsertItems, ItemRun};
use relive_wire::{Message, chunk, signature};

const FIXTURES: [&str; 7] = [
    "insert_chunks_of_four",
    "insert_client_insert",
    "insert_dtypes",
    "insert_legacy",
    "insert_legacy_delta",
    "insert_partial_steps",
    "insert_strings",
];

fn main() -> io::Result<()> {
    let home = Path::new(env!("CARGO_MANIFEST_DIR"));
    for fixture in FIXTURES {
        let file = home.join("../crates/relive-wire/tests/fixtures").join(fixture).with_extension("bin");
        for (number, message) in messages(&fs::read(file)?).enumerate() {
            let name = format!("{fixture}_{number}");
            write("insert_request", &name, message)?;
            let request = InsertStreamRequest::decode(message)?;
            for (column, chunk) in request.chunks.iter().enumerate() {
                write("chunk_message", &format!("{name}_{column}"), chunk)?;
                write_payloads(&format!("{name}_{column}"), chunk)?;
                write_recoded(&format!("{name}_{column}"), chunk)?;
            }
            write("insert_items", &name, &in_columns(&request).encode_to_vec())?;
            write("sample_response", &name, &as_response(request).encode_to_vec())?;
        }
    }
    write("bulk_frame", "batch", &batch(2, &[3, 3])?)?;
    write("bulk_frame", "batch_of_another_size", &batch(3, &[3, 3])?)?;
    write("bulk_frame", "ragged_batch", &batch(2, &[1, 4])?)?;
    write_checkpoint(&home.join("../crates/relive-checkpoint/tests/fixtures/own"))?;
    write("signature", "structures", &signature::to_wire(&structures()).encode_to_vec())
}

/// A frame with a batch of two samples: one column with `row` bytes per row, and one whose samples have `rows` rows.
fn batch(row: u32, rows: &[u32; 2]) -> io::Result<Vec<u8>> {
    let infos = InfoLayout::of(rows.len()).size_bytes();
    let mut data = vec![7; infos];
    data.extend([1, 2, 3, 4]);
    data.resize(aligned(data.len()), 0);
    let (rows_offset, ragged) = (data.len() as u64, aligned(data.len() + 8));
    data.extend(rows.iter().flat_map(|rows| rows.to_le_bytes()));
    data.resize(ragged, 0);
    data.resize(ragged + 4 * rows.iter().sum::<u32>() as usize, 9);
    let plain = BatchColumn {
        dtype: 4,
        cell_shape: vec![row],
        rows: 1,
        offset: infos as u64,
        bytes: 4,
        ..Default::default()
    };
    let is_uniform = rows[0] == rows[1];
    let second = BatchColumn {
        dtype: 1,
        rows: if is_uniform { rows[0] } else { 0 },
        rows_offset: (!is_uniform).then_some(rows_offset),
        offset: ragged as u64,
        bytes: 4 * u64::from(rows[0] + rows[1]),
        ..Default::default()
    };
    let head = BatchHead {
        samples: 2,
        table_size: 9,
        columns: vec![plain, second],
        data_bytes: data.len() as u64,
        ..Default::default()
    };
    let head = head.encode_to_vec();
    let header = FrameHeader::new(FrameKind::Batch, head.len(), data.len()).map_err(io::Error::other)?;
    Ok([&header.encode(), head.as_slice(), &data].concat())
}

/// The parts of a checkpoint and of its only segment; `checkpoint.rs` describes their format.
fn write_checkpoint(root: &Path) -> io::Result<()> {
    let mut parts = Vec::new();
    for segment in fs::read_dir(root.join("segments"))? {
        let segment = fs::read(segment?.path())?;
        let mut records = segment.get(32..).unwrap_or_default();
        while let Some((head, rest)) = records.split_first_chunk::<8>() {
            let (content, rest) = rest.split_at(number(head, 0)?);
            put_part(&mut parts, 0, 0, 0, content);
            records = rest;
        }
    }
    let file = fs::read(root.join("checkpoint-0000000001.relive"))?;
    let (mut blocks, mut has_chunks) = (file.get(16..file.len() - 24).unwrap_or_default(), false);
    while let Some((head, rest)) = blocks.split_first_chunk::<40>() {
        let (stored, rest) = rest.split_at(number(head, 28)?);
        blocks = rest;
        let is_zstd = number(head, 20)? == 1;
        let decoded =
            if is_zstd { Codec::Zstd.decode(stored, number(head, 24)?) } else { Ok(stored.to_vec()) };
        let content = decoded.map_err(io::Error::other)?;
        match head[4] {
            2 if has_chunks => {}
            2 => {
                put_part(&mut parts, 4, 0, 0, &[]);
                has_chunks = true;
            }
            kind => put_part(&mut parts, kind, head[12], number(head, 16)?, &content),
        }
    }
    write("checkpoint", "fixture", &parts)
}

/// Reads a number of four bytes.
fn number(head: &[u8], at: usize) -> io::Result<usize> {
    let bytes = head.get(at..).and_then(|rest| rest.first_chunk()).ok_or(io::ErrorKind::UnexpectedEof)?;
    usize::try_from(u32::from_le_bytes(*bytes)).map_err(io::Error::other)
}

fn put_part(parts: &mut Vec<u8>, kind: u8, subject: u8, count: usize, content: &[u8]) {
    let low = |number: usize| [number.to_le_bytes()[0], number.to_le_bytes()[1]];
    parts.extend([kind, subject]);
    parts.extend(low(count));
    parts.extend(low(content.len()));
    parts.extend_from_slice(content);
}

/// Returns the messages of a fixture, each of which is preceded by its length in four bytes.
fn messages(mut rest: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (length, after) = rest.split_first_chunk()?;
        let (message, after) = after.split_at(usize::try_from(u32::from_le_bytes(*length)).ok()?);
        rest = after;
        Some(message)
    })
}

/// Writes the chunk, encoded with each codec that dm-reverb does not support.
fn write_recoded(name: &str, message: &[u8]) -> io::Result<()> {
    let chunk = chunk::decode(message).map_err(io::Error::other)?;
    for codec in [Codec::Raw, Codec::Lz4, Codec::Zstd] {
        let recoded = chunk.recoded(codec).map_err(io::Error::other)?;
        write("chunk_message", &format!("{name}_{codec}"), &chunk::encode(&recoded))?;
    }
    Ok(())
}

/// Writes payloads of strings as they are, and payloads of fixed-size types with every codec.
fn write_payloads(name: &str, chunk: &[u8]) -> io::Result<()> {
    let message = ChunkData::decode(chunk)?;
    for (column, tensor) in message.data.unwrap_or_default().tensors.iter().enumerate() {
        let dims = tensor.tensor_shape.clone().unwrap_or_default().dim;
        let elements = dims.iter().map(|dim| dim.size).product::<i64>();
        let dtype = relive_wire::dtype::from_wire(tensor.dtype.into()).unwrap_or(DType::UInt8);
        let expected = elements.unsigned_abs() * dtype.size_bytes().unwrap_or(1) as u64;
        let [low, high, ..] = expected.to_le_bytes();
        let name = format!("{name}_{column}");
        if dtype == DType::String {
            write("codecs", &name, &[&[4, low, high], tensor.tensor_content.as_ref()].concat())?;
            continue;
        }
        let raw = Codec::Snappy.decode(&tensor.tensor_content, usize::from(u16::from_le_bytes([low, high])));
        let raw = raw.map_err(io::Error::other)?;
        for (kind, codec) in (0_u8..).zip(Codec::ALL) {
            let mut file = vec![kind, low, high];
            codec.encode(&raw, &mut file).map_err(io::Error::other)?;
            write("codecs", &format!("{name}_{codec}"), &file)?;
        }
    }
    Ok(())
}

/// Converts a request to the format of the bulk path.
fn in_columns(request: &InsertStreamRequest) -> InsertItems {
    let mut runs = Vec::<ItemRun>::new();
    for item in &request.items {
        let columns = || item.flat_trajectory.iter().flat_map(|flat| &flat.columns);
        let squeeze = || columns().map(|column| column.squeeze);
        if !runs.last().is_some_and(|run| run.takes(&item.table, squeeze())) {
            runs.push(ItemRun::new(&item.table, squeeze()));
        }
        let Some(run) = runs.last_mut() else { continue };
        run.begin_item(item.key, item.priority);
        for column in columns() {
            run.push_column(column.chunk_slices.iter().map(|slice| RunSlice {
                chunk_key: slice.chunk_key,
                index: slice.index.unsigned_abs(),
                offset: slice.offset.unsigned_abs(),
                length: slice.length.unsigned_abs(),
            }));
        }
    }
    InsertItems { runs, chunks: request.chunks.clone(), keep_chunk_keys: request.keep_chunk_keys.clone() }
}

/// Converts the items of a request to samples of two entries each.
fn as_response(request: InsertStreamRequest) -> SampleStreamResponse {
    let mut entries = Vec::new();
    for item in request.items {
        let (first, rest) = request.chunks.split_at(request.chunks.len() / 2);
        let info = Some(SampleInfo { item: Some(item), ..SampleInfo::default() });
        entries.push(SampleEntry { info, data: first.to_vec(), end_of_sequence: false });
        entries.push(SampleEntry { info: None, data: rest.to_vec(), end_of_sequence: true });
    }
    SampleStreamResponse { entries, ..SampleStreamResponse::default() }
}

/// Returns one of each kind of structure and leaf.
fn structures() -> Signature {
    let spec =
        |dtype, shape, bounds| Nest::Leaf(TensorSpec { name: "leaf".to_owned(), shape, dtype, bounds });
    let bounds = (Tensor::scalar(-1.5_f32), Tensor::scalar(2.5_f32));
    let fields = vec![
        ("list".to_owned(), Nest::List(vec![spec(DType::Float32, Some(vec![None, Some(3)]), Some(bounds))])),
        ("tuple".to_owned(), Nest::Tuple(vec![spec(DType::String, None, None), Nest::None])),
    ];
    let named = Nest::NamedTuple { name: "Step".to_owned(), fields };
    Nest::Dict(
        [("step".to_owned(), named), ("flag".to_owned(), spec(DType::Bool, Some(vec![]), None))].into(),
    )
}

fn write(target: &str, name: &str, data: &[u8]) -> io::Result<()> {
    let folder: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    fs::create_dir_all(&folder)?;
    fs::write(folder.join(name), data)
}
