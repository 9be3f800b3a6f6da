//! Tests that the columns of a batch contain the data of its samples.

use crate::common::{TestServer, dict, leaf};
use relive::{
    BatchOptions, Client, Column, DType, ErrorKind, Nest, SampleBatch, SelectorKind, TableConfig, Tensor,
    TrajectoryWriter, TrajectoryWriterOptions,
};

/// A table for each transport, since items are removed when they are read.
const TABLES: [&str; 4] = ["tcp", "unix", "shm", "in-process"];

async fn start() -> TestServer {
    let queue = |name: &str| TableConfig::new(name).sampler(SelectorKind::Fifo).max_times_sampled(1);
    TestServer::start(TABLES.map(queue)).await
}

/// Creates the same item in all tables.
async fn create(writer: &mut TrajectoryWriter, columns: Vec<Column>) {
    for table in TABLES {
        writer.create_item(table, 1.0, columns.clone()).await.unwrap();
    }
}

/// Returns the next batch of a client that does not prefetch, from the table that is named after the client's
/// transport.
async fn batch(client: &Client, size: usize) -> SampleBatch {
    let table = client.negotiate().await.unwrap().to_string();
    let mut batches = client.batches(&table, BatchOptions::new(size).prefetch(0)).unwrap();
    batches.next().await.unwrap().unwrap()
}

/// Returns the expected result of gathering: the samples' own tensors, concatenated.
fn expected(batch: &SampleBatch, column: usize) -> Vec<u8> {
    let tensors = batch.samples().iter().map(|sample| sample.columns().unwrap()[column].clone());
    tensors.flat_map(|tensor| tensor.bytes().unwrap().to_vec()).collect()
}

fn assert_gathers(batch: &SampleBatch) {
    for (number, column) in batch.columns().unwrap().iter().enumerate() {
        let one = batch.samples()[0].columns().unwrap()[number].clone();
        assert_eq!((column.dtype, column.sample_shape()), (one.dtype(), one.shape().clone()));
        if column.dtype == DType::String {
            let all: Vec<_> =
                batch.samples().iter().map(|sample| sample.columns().unwrap()[number].clone()).collect();
            let all: Vec<_> = all.iter().flat_map(|tensor| tensor.strings().unwrap().to_vec()).collect();
            assert_eq!(batch.strings(number).unwrap(), all);
            continue;
        }
        let mut out = vec![0xee; column.size_bytes(batch.len()).unwrap()];
        batch.gather_into(number, &mut out).unwrap();
        assert_eq!(out, expected(batch, number), "column {number}");
    }
}

#[tokio::test]
async fn every_dtype_is_gathered_locally_and_remotely() {
    let server = start().await;
    let mut writer =
        server.client().trajectory_writer(TrajectoryWriterOptions::new(3).chunk_length(2)).unwrap();
    for step in 0..9_u8 {
        let fixed = DType::ALL.iter().copied().filter(|d| !matches!(d, DType::String | DType::Bool));
        let mut leaves: Vec<Tensor> = fixed
            .map(|dtype| {
                let bytes: Vec<u8> =
                    (0..6 * dtype.size_bytes().unwrap()).map(|i| u8::try_from(i).unwrap() ^ step).collect();
                Tensor::new(dtype, [2, 3], bytes.into()).unwrap()
            })
            .collect();
        leaves.push(Tensor::from_bools(&[step % 2 == 0, true], [2]).unwrap());
        leaves.push(Tensor::from_strings([format!("{step}"), "x".repeat(step.into())], [2]).unwrap());
        leaves.push(Tensor::from_slice::<f32>(&[], [0]).unwrap());
        let count = leaves.len();
        writer.append(&Nest::List(leaves.into_iter().map(Nest::Leaf).collect())).unwrap();
        if step >= 2 {
            let history = writer.history();
            // Items are windows of three steps over chunks of two, and the newest step by itself.
            let windows = (0..count).map(|i| history.column_at(i).unwrap().slice(-3..).unwrap());
            let newest = (0..count).map(|i| history.column_at(i).unwrap().step(-1).unwrap());
            let columns: Vec<_> = windows.chain(newest).collect();
            create(&mut writer, columns).await;
        }
    }
    writer.close().await.unwrap();
    for client in server.every_client() {
        assert_gathers(&batch(&client, 6).await);
        assert_gathers(&batch(&client, 1).await);
    }
}

#[tokio::test]
async fn columns_that_share_chunks_are_gathered_together() {
    let server = start().await;
    let mut writer =
        server.client().trajectory_writer(TrajectoryWriterOptions::new(8).chunk_length(5)).unwrap();
    for step in 0..40_i64 {
        writer.append(&leaf(step)).unwrap();
        if step >= 5 {
            let all = writer.history();
            let column = all.column("").unwrap();
            let items = vec![column.rows(&[-5, -4, -3]).unwrap(), column.slice(-4..-1).unwrap()];
            create(&mut writer, items).await;
        }
    }
    writer.close().await.unwrap();
    for client in server.every_client() {
        let batch = batch(&client, 32).await;
        let (mut before, mut after) = (vec![0; 32 * 24], vec![0; 32 * 24]);
        batch.gather_columns_into([(1, &mut after[..]), (0, &mut before[..])]).unwrap();
        assert_eq!((before, after), (expected(&batch, 0), expected(&batch, 1)));
    }
}

#[tokio::test]
async fn partial_uncompressed_chunks_are_gathered() {
    let server = start().await;
    let options = || TrajectoryWriterOptions::new(6);
    for length in [1, 3, 4] {
        let mut writer = server.client().trajectory_writer(options().chunk_length(length)).unwrap();
        for step in 0..12_u64 {
            let flags: Vec<bool> = (0..40).map(|at| (step * 7 + at) % 3 == 0).collect();
            let flags = Nest::Leaf(Tensor::from_bools(&flags, [40]).unwrap());
            writer.append(&dict(&[("noise", Nest::Leaf(noise(step, 100))), ("flags", flags)])).unwrap();
            if step > 0 {
                let history = writer.history();
                let both = history.column("noise").unwrap().slice(-2..).unwrap();
                let one = history.column("flags").unwrap().slice(-2..-1).unwrap();
                create(&mut writer, vec![both, one]).await;
            }
        }
        writer.close().await.unwrap();
    }
    for client in server.every_client() {
        assert_gathers(&batch(&client, 33).await);
    }
}

#[tokio::test]
async fn large_batches_are_split_over_threads() {
    let server = start().await;
    let mut writer = server.client().trajectory_writer(TrajectoryWriterOptions::new(2)).unwrap();
    for item in 0..40_u32 {
        let values: Vec<u32> = (0..30_000).map(|i| i * 7919 + item).collect();
        writer.append(&Nest::Leaf(Tensor::from_slice(&values, [30_000]).unwrap())).unwrap();
        let window = if item == 0 { -1.. } else { -2.. };
        let column = writer.history().column("").unwrap().slice(window).unwrap();
        create(&mut writer, vec![column]).await;
    }
    writer.close().await.unwrap();
    for client in server.every_client() {
        let all = batch(&client, 40).await.into_samples();
        // The first item has one row; the others have two.
        let batch = SampleBatch::new(all[1..].to_vec());
        assert_gathers(&batch);
    }
}

async fn ragged(server: &TestServer) {
    let mut writer = server.client().trajectory_writer(TrajectoryWriterOptions::new(4)).unwrap();
    for step in 0..3_i16 {
        let name = Tensor::from_strings([format!("{step}")], [1]).unwrap();
        writer.append(&dict(&[("a", leaf(step + 1)), ("s", Nest::Leaf(name))])).unwrap();
        let history = writer.history();
        let columns = vec![
            history.column_at(0).unwrap().slice(..).unwrap(),
            history.column_at(1).unwrap().slice(..).unwrap(),
        ];
        create(&mut writer, columns).await;
    }
    writer.close().await.unwrap();
}

#[tokio::test]
async fn samples_of_different_lengths_are_detected_and_padded() {
    let server = start().await;
    ragged(&server).await;
    for client in server.every_client() {
        let batch = batch(&client, 3).await;
        let key = batch.samples()[1].info().key;
        for error in [batch.columns().unwrap_err(), batch.gather_into(0, &mut [0; 6]).unwrap_err()] {
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            let text = format!(
                "in column 0: item {key} of table {:?} has 2 rows, but those before it have 1",
                batch.samples()[1].table()
            );
            assert!(error.to_string().contains(&text), "{error}");
            assert!(error.to_string().contains("in Rust with columns_padded()"), "{error}");
        }
        assert_eq!(batch.rows_per_sample(0).unwrap(), [1, 2, 3]);
        let padded = batch.columns_padded().unwrap();
        assert_eq!((padded[0].rows, padded[0].dtype), (Some(3), DType::Int16));
        let (mut out, mut mask) = (vec![0xee; 3 * 4 * 2], vec![0xee; 3 * 4]);
        batch.gather_padded_into(0, 4, &mut out, Some(&mut mask)).unwrap();
        let values: Vec<i16> = out.chunks(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]])).collect();
        assert_eq!(values, [1, 0, 0, 0, 1, 2, 0, 0, 1, 2, 3, 0]);
        assert_eq!(mask, [1, 0, 0, 0, 1, 1, 0, 0, 1, 1, 1, 0]);
        let mut without_mask = vec![0xee; 3 * 4 * 2];
        batch.gather_padded_into(0, 4, &mut without_mask, None).unwrap();
        assert_eq!(without_mask, out);
        assert_eq!(batch.strings(1).unwrap(), ["0", "0", "1", "0", "1", "2"]);

        let short = batch.gather_padded_into(0, 2, &mut [0; 12], Some(&mut [0; 6])).unwrap_err();
        let key = batch.samples()[2].info().key;
        assert!(
            short.to_string().contains(&format!("item {key} has 3 rows, but there is room for 2")),
            "{short}"
        );
        let mask = batch.gather_padded_into(0, 3, &mut [0; 18], Some(&mut [0; 8])).unwrap_err();
        assert!(mask.to_string().contains("the mask of column 0 must have 9 bytes, got 8"), "{mask}");
    }
}

/// 65,536 rows of zero bytes may be padded, but not one more: no other limit applies to the count in a server's
/// message.
#[tokio::test]
async fn rows_of_no_bytes_are_bounded_where_batches_are_padded() {
    let server = start().await;
    for rows in [65_536, 65_537] {
        let options = TrajectoryWriterOptions::new(rows).chunk_length(rows);
        let mut writer = server.client().trajectory_writer(options).unwrap();
        let empty = Tensor::new(DType::UInt8, [rows, 0], Vec::new().into()).unwrap();
        writer.append_sequence(&Nest::Leaf(empty)).unwrap();
        let column = writer.history().column("").unwrap().slice(..).unwrap();
        create(&mut writer, vec![column]).await;
        writer.close().await.unwrap();
    }
    for client in server.every_client() {
        let allowed = batch(&client, 1).await;
        assert_eq!(allowed.columns_padded().unwrap()[0].rows, Some(65_536));
        allowed.gather_padded_into(0, 65_536, &mut [], None).unwrap();
        let error = batch(&client, 1).await.columns_padded().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ResourceExhausted);
        let text = "column 0 has 65537 rows of empty cells; at most 65536 can be padded";
        assert!(error.to_string().contains(text), "{error}");
    }
}

#[tokio::test]
async fn wrong_destinations_and_columns() {
    let server = start().await;
    ragged(&server).await;
    for client in server.every_client() {
        let batch = batch(&client, 1).await;
        for (error, text) in [
            (batch.gather_into(0, &mut [0; 3]), "the destination of column 0 must have 2 bytes, got 3"),
            (batch.gather_into(2, &mut []), "there is no column 2; the samples have 2"),
            (batch.gather_into(1, &mut []), "column 1 has dtype string"),
            (batch.strings(0).map(drop), "column 0 has dtype int16, not string"),
            (batch.strings(9).map(drop), "there is no column 9"),
            (batch.rows_per_sample(2).map(drop), "there is no column 2"),
        ] {
            let error = error.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            assert!(error.to_string().contains(text), "{error}");
        }
    }
    let empty = SampleBatch::new(Vec::new());
    assert!(empty.is_empty() && empty.columns().unwrap().is_empty());
}

#[tokio::test]
async fn incompatible_samples_are_named() {
    let server = start().await;
    let wide = Tensor::from_slice(&[1_i64, 2], [2]).unwrap();
    for step in [leaf(1_i64), leaf(1_i32), Nest::Leaf(wide), Nest::List(vec![leaf(1_i64), leaf(1_i64)])] {
        let mut writer = server.client().trajectory_writer(TrajectoryWriterOptions::new(1)).unwrap();
        writer.append(&step).unwrap();
        let history = writer.history();
        let columns: Vec<_> =
            (0..history.paths().count()).map(|i| history.column_at(i).unwrap().slice(..).unwrap()).collect();
        create(&mut writer, columns).await;
        writer.close().await.unwrap();
    }
    for client in server.every_client() {
        let samples = batch(&client, 4).await.into_samples();
        for (other, text) in [
            (1, "has rows of int32[], but those before it have rows of int64[]"),
            (2, "has rows of int64[2], but those before it have rows of int64[]"),
            (3, "has 2 columns, but those before it have 1 columns"),
        ] {
            let batch = SampleBatch::new(vec![samples[0].clone(), samples[other].clone()]);
            let error = batch.columns().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            let key = samples[other].info().key;
            assert!(error.to_string().contains(&format!("item {key} of table")), "{error}");
            assert!(error.to_string().contains(text), "{error}");
        }
    }
}

/// Returns numbers that do not compress; each seed gives a different array.
fn noise(seed: u64, len: u32) -> Tensor {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let numbers: Vec<u64> = (0..len).map(|_| next()).collect();
    Tensor::from_slice(&numbers, [len]).unwrap()
}

fn large_step(number: u64) -> [(&'static str, Tensor); 4] {
    [
        ("even", Tensor::from_slice(&[number; 1000], [1000]).unwrap()),
        ("flags", Tensor::from_bools(&[number.is_multiple_of(2); 5000], [5000]).unwrap()),
        ("noise", noise(number, 1000)),
        ("number", Tensor::scalar(number)),
    ]
}

#[tokio::test]
async fn large_incompressible_rows_are_read_in_place() {
    let server = start().await;
    for chunk_length in [1, 3] {
        let options = TrajectoryWriterOptions::new(6).chunk_length(chunk_length);
        let mut writer = server.client().trajectory_writer(options).unwrap();
        for number in 0..24 {
            let step = large_step(number).map(|(name, tensor)| (name, Nest::Leaf(tensor)));
            writer.append(&dict(&step)).unwrap();
            if number % 4 == 3 {
                // Every other item is one step longer, so that a batch of two is ragged.
                let steps = -2 - i64::try_from(number / 4 % 2).unwrap()..-1;
                let history = writer.history();
                let column = |name| history.column(name).unwrap().slice(steps.clone()).unwrap();
                let columns = ["even", "flags", "noise", "number"].map(column).into();
                create(&mut writer, columns).await;
            }
        }
        writer.close().await.unwrap();
        for client in server.every_client() {
            for first in [0, 8, 16] {
                let batch = batch(&client, 2).await;
                let steps: Vec<u64> = [first + 2, first + 5, first + 6].into();
                for (column, name) in (0..).zip(["even", "flags", "noise", "number"]) {
                    assert_eq!(batch.rows_per_sample(column).unwrap(), [1, 2]);
                    let of_step = |number| large_step(number).into_iter().find(|(other, _)| *other == name);
                    let rows: Vec<Vec<u8>> = steps
                        .iter()
                        .map(|&step| of_step(step).unwrap().1.bytes().unwrap().to_vec())
                        .collect();
                    let row_bytes = rows[0].len();
                    let (mut out, mut mask) = (vec![0xee; 4 * row_bytes], [0xee; 4]);
                    batch.gather_padded_into(column, 2, &mut out, Some(&mut mask)).unwrap();
                    assert_eq!(mask, [1, 0, 1, 1]);
                    let expected = [rows[0].clone(), vec![0; row_bytes], rows[1].clone(), rows[2].clone()];
                    assert_eq!(out, expected.concat(), "column {name} from step {first} on");
                }
            }
        }
    }
}
