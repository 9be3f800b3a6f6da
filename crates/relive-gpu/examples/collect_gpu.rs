//! Measures collection by a GPU from the host's memory: `collect_gpu GIB` prints one line of JSON for each row length,
//! batch size and copy method, with the time of a single collection and the time per collection in a sequence of many.
//! From the results, you can read the row length above which copy engines are faster, and pass it to
//! `Collector::with_copy_engine_from`.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "its rows are the result")]
#![expect(unsafe_code, reason = "memory of the host that a GPU reads")]

use std::time::{Duration, Instant};

use relive_gpu::cuda::{Collector, ColumnPlan, Device, DeviceBuffer, DeviceStream, HostRegistration, Rows};
use relive_gpu::{Pad, Result};

const TIME: Duration = Duration::from_millis(100);

/// Larger batches are not measured.
const MAX_BATCH_BYTES: u64 = 4 << 30;

fn main() -> Result<()> {
    let gib: u64 = std::env::args().nth(1).and_then(|argument| argument.parse().ok()).unwrap_or(4);
    if let Err(reason) = Device::available() {
        eprintln!("nothing is measured: {reason}");
        return Ok(());
    }
    let device = Device::open(0)?;
    let bytes = gib << 30;
    // Uses nonzero numbers, so that memory is allocated for every page.
    let words = vec![0x0102_0304_0506_0708_u128; usize::try_from(bytes / 16).unwrap_or(usize::MAX)];
    let address = words.as_ptr() as u64;
    let begin = Instant::now();
    // SAFETY: the registration owns the memory, whose address does not change when the vector moves.
    let store = unsafe { HostRegistration::new(&device, address, bytes, Box::new(words)) }?;
    println!("{{\"what\": \"register\", \"gib\": {gib}, \"seconds\": {:.3}}}", begin.elapsed().as_secs_f64());
    let out = DeviceBuffer::new(&device, MAX_BATCH_BYTES)?;
    for row_bytes in [64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20] {
        for rows in [32, 512, 4_096, 65_536] {
            if row_bytes * rows <= MAX_BATCH_BYTES {
                measure(&device, &store, &out, row_bytes, rows)?;
            }
        }
    }
    Ok(())
}

/// A way to collect: collectors that share the rows evenly, each in its own stream.
struct Way {
    name: &'static str,
    blocks: u32,
    parts: Vec<(Collector, DeviceStream)>,
}

impl Way {
    /// Returns the ways to collect rows of this length. Without padding, copying does not use blocks.
    fn all(device: &Device, row_bytes: u64) -> Result<Vec<Self>> {
        let part = |blocks, engine_from| -> Result<(Collector, DeviceStream)> {
            let collector = Collector::new(device)?.with_blocks(blocks).with_copy_engine_from(engine_from);
            Ok((collector, DeviceStream::new(device)?))
        };
        let kernel = |blocks| part(blocks, u64::MAX);
        let mut ways = Vec::new();
        for blocks in [4, 8, 16, 32] {
            ways.push(Self { name: "kernel", blocks, parts: vec![kernel(blocks)?] });
        }
        if row_bytes >= 16 << 10 {
            ways.push(Self { name: "copy engine", blocks: 0, parts: vec![part(1, 0)?] });
        }
        if row_bytes >= 256 << 10 {
            ways.push(Self { name: "two copy engines", blocks: 0, parts: vec![part(1, 0)?, part(1, 0)?] });
            ways.push(Self {
                name: "kernel and copy engine",
                blocks: 4,
                parts: vec![kernel(4)?, part(1, 0)?],
            });
        }
        Ok(ways)
    }

    /// Starts the collection of all rows.
    fn collect(&self, column: &ColumnPlan, rows: Rows<'_>) -> Result<()> {
        let each = rows.indices.len().div_ceil(self.parts.len());
        for (number, (collector, stream)) in self.parts.iter().enumerate() {
            let range = number * each..rows.indices.len().min((number + 1) * each);
            let out = column.out + (range.start as u64) * column.out_row_bytes();
            let rows = Rows {
                indices: &rows.indices[range.clone()],
                steps: &rows.steps[range.clone()],
                lengths: &rows.lengths[range],
            };
            // SAFETY: the store and the output are large enough, and stay valid until the streams have been waited for.
            unsafe { collector.collect(&[ColumnPlan { out, ..*column }], rows, stream.handle())? };
        }
        Ok(())
    }

    fn finish(&self, device: &Device) -> Result<()> {
        self.parts.iter().try_for_each(|(_, stream)| device.synchronize(stream.handle()))
    }
}

fn measure(
    device: &Device,
    store: &HostRegistration,
    out: &DeviceBuffer,
    row_bytes: u64,
    rows: u64,
) -> Result<()> {
    let store_rows = store.bytes() / row_bytes;
    let column = ColumnPlan {
        source: store.on_device().0,
        store_rows,
        row_stride: row_bytes,
        step_bytes: row_bytes,
        offset: 0,
        length: 1,
        pad: Pad::Tail,
        padding: [0; 16],
        convert: None,
        out: out.address().0,
    };
    let mut indices: Vec<u64> =
        (0..rows).map(|row| (row + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) % store_rows).collect();
    indices.sort_unstable();
    let count = indices.len();
    let (steps, lengths) = (vec![0; count], vec![1; count]);
    let list = Rows { indices: &indices, steps: &steps, lengths: &lengths };
    for way in Way::all(device, row_bytes)? {
        way.collect(&column, list)?;
        way.finish(device)?;
        let start = Instant::now();
        way.collect(&column, list)?;
        way.finish(device)?;
        let alone = start.elapsed().as_secs_f64();
        // The host prepares the next collection during a collection, as it does in training.
        let (start, mut count) = (Instant::now(), 0);
        while start.elapsed() < TIME || count < 4 {
            way.collect(&column, list)?;
            count += 1;
        }
        way.finish(device)?;
        let each = start.elapsed().as_secs_f64() / f64::from(count);
        #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
        let rate = (row_bytes * rows) as f64 / each / 1e9;
        println!(
            "{{\"way\": \"{}\", \"blocks\": {}, \"row_bytes\": {row_bytes}, \"rows\": {rows}, \"alone_ms\": {:.3}, \
             \"ms\": {:.3}, \"gb_per_s\": {rate:.2}}}",
            way.name,
            way.blocks,
            alone * 1e3,
            each * 1e3
        );
    }
    Ok(())
}
