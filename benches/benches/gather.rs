//! Measures trajectories: building them on insert, and gathering their columns for a reader.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use relive_tensor::{
    Chunk, Codec, DType, SequenceRange, Slice, Tensor, Trajectory, TrajectoryBuilder, encode_chunk,
};

/// A way of cutting an item's columns into chunks.
#[derive(Clone, Copy)]
struct Layout {
    name: &'static str,
    columns: u32,
    /// The number of chunks of each column.
    chunks: u32,
    /// The number of rows of each chunk.
    rows: u32,
    cell_bytes: u32,
    codec: Codec,
    /// The number of rows left out at each end of a column.
    margin: u32,
}

const LAYOUTS: [Layout; 6] = [
    Layout {
        name: "one_step_400B",
        columns: 1,
        chunks: 1,
        rows: 1,
        cell_bytes: 400,
        codec: Codec::Snappy,
        margin: 0,
    },
    Layout {
        name: "five_steps_of_five_columns",
        columns: 5,
        chunks: 5,
        rows: 1,
        cell_bytes: 16,
        codec: Codec::Snappy,
        margin: 0,
    },
    Layout {
        name: "sequence_80x1kB_in_8",
        columns: 1,
        chunks: 8,
        rows: 10,
        cell_bytes: 1000,
        codec: Codec::Snappy,
        margin: 0,
    },
    Layout {
        name: "sequence_cut_at_both_ends",
        columns: 1,
        chunks: 8,
        rows: 10,
        cell_bytes: 1000,
        codec: Codec::Snappy,
        margin: 4,
    },
    Layout {
        name: "sequence_raw",
        columns: 1,
        chunks: 8,
        rows: 10,
        cell_bytes: 1000,
        codec: Codec::Raw,
        margin: 0,
    },
    Layout {
        name: "four_frames_28kB",
        columns: 1,
        chunks: 4,
        rows: 1,
        cell_bytes: 7056,
        codec: Codec::Snappy,
        margin: 0,
    },
];

fn chunks(layout: Layout) -> Vec<Arc<Chunk>> {
    let range = SequenceRange { episode_id: 1, start: 0, end: 0, sparse: false };
    let make = |key: u32| {
        let len = usize::try_from(layout.rows * layout.cell_bytes).expect("small");
        // One half is noise, the other half zeros.
        let noise =
            |i: usize| if i % 256 < 128 { (i.wrapping_mul(2_654_435_761) >> 11).to_le_bytes()[0] } else { 0 };
        let data: Vec<u8> = (0..len).map(noise).collect();
        let tensor =
            Tensor::new(DType::UInt8, [layout.rows, layout.cell_bytes], data.into()).expect("as many");
        let parts = encode_chunk(u64::from(key), range, &[tensor], false, layout.codec).expect("small");
        Arc::new(Chunk::new(parts).expect("valid"))
    };
    (0..layout.columns * layout.chunks).map(make).collect()
}

fn build(layout: Layout, chunks: &[Arc<Chunk>]) -> Trajectory {
    let mut builder = TrajectoryBuilder::new();
    let mut chunks = chunks.iter();
    for _ in 0..layout.columns {
        builder.begin_column(false);
        for (number, chunk) in (0..layout.chunks).zip(&mut chunks) {
            let chunk = builder.chunk(Arc::clone(chunk));
            let offset = if number == 0 { layout.margin } else { 0 };
            let end = if number + 1 == layout.chunks { layout.rows - layout.margin } else { layout.rows };
            builder.slice(Slice { chunk, offset, length: end - offset, index: 0 });
        }
    }
    builder.build().expect("all slices are there")
}

fn gather(c: &mut Criterion) {
    for layout in LAYOUTS {
        let mut group = c.benchmark_group(format!("gather/{}", layout.name));
        group
            .warm_up_time(Duration::from_millis(200))
            .measurement_time(Duration::from_millis(800))
            .sample_size(20);
        let chunks = chunks(layout);
        group.bench_function("build", |b| b.iter(|| build(layout, black_box(&chunks))));
        let trajectory = build(layout, &chunks);
        let columns = trajectory.decode().expect("valid");
        group.throughput(Throughput::Bytes(columns.iter().map(Tensor::size_bytes).sum()));
        group.bench_function("decode", |b| b.iter(|| black_box(&trajectory).decode()));
    }
}

criterion_group!(benches, gather);
criterion_main!(benches);
