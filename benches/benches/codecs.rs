//! Measures codecs and column chunks: encoding, the server's check of every chunk, and decoding.

use std::hint::black_box;
use std::time::Duration;

use criterion::{
    BenchmarkGroup, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main, measurement,
};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use relive_tensor::codec::delta;
use relive_tensor::{Chunk, Codec, DType, SequenceRange, Shape, Tensor, encode_chunk};

const RANGE: SequenceRange = SequenceRange { episode_id: 1, start: 0, end: 0, sparse: false };

type Group<'a> = BenchmarkGroup<'a, measurement::WallTime>;

/// Returns the floats of a random walk, which are hardly compressible, like most observations.
fn floats(count: usize) -> Vec<u8> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    (0..count).flat_map(|_| (f64::from(rng.next_u32()) / 1e9).to_le_bytes().into_iter().skip(4)).collect()
}

/// Returns an image with flat areas and noisy edges, as in games.
fn picture(len: usize) -> Vec<u8> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(2);
    let mut bytes = Vec::with_capacity(len);
    while bytes.len() < len {
        let [run, value, noise, _] = rng.next_u32().to_le_bytes();
        bytes.extend(std::iter::repeat_n(value & 0xf0, usize::from(run)));
        bytes.extend([noise, value, noise]);
    }
    bytes.truncate(len);
    bytes
}

fn cases() -> [(&'static str, Vec<u8>); 4] {
    [
        ("floats_400B", floats(100)),
        ("floats_40kB", floats(10_000)),
        ("picture_28kB", picture(84 * 84 * 4)),
        ("picture_400kB", picture(400_000)),
    ]
}

fn settle(group: &mut Group<'_>) {
    group
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(800))
        .sample_size(20);
}

fn payload(codec: Codec, data: &[u8]) -> Vec<u8> {
    let mut payload = Vec::new();
    codec.encode(data, &mut payload).expect("small data");
    payload
}

/// Each name also states the compressed size as a share of the original size.
fn codecs(c: &mut Criterion) {
    for (name, data) in cases() {
        let mut group = c.benchmark_group(format!("codec/{name}"));
        settle(&mut group);
        group.throughput(Throughput::Bytes(data.len() as u64));
        for codec in Codec::ALL {
            let payload = payload(codec, &data);
            let name = format!("{codec}, {:.1} %", payload.len() as f64 * 100.0 / data.len() as f64);
            let mut out = Vec::new();
            group.bench_function(BenchmarkId::new("encode", &name), |b| {
                b.iter(|| {
                    out.clear();
                    codec.encode(black_box(&data), &mut out)
                });
            });
            group.bench_function(BenchmarkId::new("validate", &name), |b| {
                b.iter(|| codec.validate(black_box(&payload), data.len()));
            });
            group.bench_function(BenchmarkId::new("decode", &name), |b| {
                b.iter(|| codec.decode(black_box(&payload), data.len()));
            });
        }
    }
}

fn deltas(c: &mut Criterion) {
    let mut group = c.benchmark_group("delta");
    settle(&mut group);
    for (name, dtype, shape) in [
        ("uint8_8x7056", DType::UInt8, Shape::from([8, 7056])),
        ("int32_64x100", DType::Int32, Shape::from([64, 100])),
        ("int64_1000x1", DType::Int64, Shape::from([1000, 1])),
    ] {
        let len = shape.num_elements().expect("small") * dtype.size_bytes().map_or(0, |size| size as u64);
        let mut data = vec![7; usize::try_from(len).expect("small")];
        group.throughput(Throughput::Bytes(len));
        group.bench_function(BenchmarkId::new("encode", name), |b| {
            b.iter(|| delta::encode(dtype, &shape, black_box(&mut data)));
        });
        group.bench_function(BenchmarkId::new("decode", name), |b| {
            b.iter(|| delta::decode(dtype, &shape, black_box(&mut data)));
        });
    }
}

fn chunks(c: &mut Criterion) {
    for (name, data) in cases() {
        let mut group = c.benchmark_group(format!("chunk/{name}"));
        settle(&mut group);
        group.throughput(Throughput::Bytes(data.len() as u64));
        let shape = [1, u32::try_from(data.len()).expect("small")];
        let tensor = Tensor::new(DType::UInt8, shape, data.into()).expect("one row");
        let parts =
            encode_chunk(1, RANGE, std::slice::from_ref(&tensor), false, Codec::Snappy).expect("small");
        let chunk = Chunk::new(parts.clone()).expect("valid");
        group.bench_function("new", |b| {
            b.iter_batched(|| parts.clone(), Chunk::new, criterion::BatchSize::SmallInput);
        });
        group.bench_function("decode_column", |b| b.iter(|| black_box(&chunk).decode_column(0)));
        let mut place = vec![0; tensor.num_elements()];
        group.bench_function("decode_column_into", |b| {
            b.iter(|| black_box(&chunk).decode_column_into(0, &mut place));
        });
    }
}

criterion_group!(benches, codecs, deltas, chunks);
criterion_main!(benches);
