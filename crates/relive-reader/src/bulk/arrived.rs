//! A batch that a server has gathered, as described by its header.

use std::sync::Arc;

use relive_batch::{BatchColumn, BatchMemory, Gathered, GatheredColumn, SampleInfo};
use relive_connection::{Error, ErrorKind, Result};
use relive_table::Timestamp;
use relive_wire::WireError;
use relive_wire::bulk::{BatchView, ColumnView, InfoLayout};

/// Returns the batch of `table` that `view` describes and whose data is in `memory`.
///
/// # Errors
/// `Protocol` if the header and the data contradict each other.
pub(super) fn arrived(table: Arc<str>, view: &BatchView, memory: BatchMemory) -> Result<Gathered> {
    let data = memory.bytes().get(..view.data_bytes).ok_or_else(|| {
        let text = format!("sample: a batch of {} bytes is larger than its shared memory", view.data_bytes);
        Error::new(ErrorKind::Protocol, text)
    })?;
    let layout = InfoLayout::of(view.samples);
    let inserted_at = layout.read(data).map(|info| Timestamp::from_nanos(info.inserted_at)).collect();
    let infos = layout.read(data).map(|info| SampleInfo {
        key: info.key,
        probability: info.probability,
        table_size: info.table_size,
        priority: info.priority,
        times_sampled: info.times_sampled,
        rate_limited: info.rate_limited,
    });
    let infos = infos.collect();
    let columns = view.columns.iter().map(|column| gathered(column, view.samples, data));
    let columns = columns.collect::<std::result::Result<Arc<[_]>, _>>().map_err(|error| {
        Error::new(ErrorKind::Protocol, format!("sample: cannot read the server's batch: {error}"))
    })?;
    Ok(Gathered::new(table, infos, inserted_at, columns, memory))
}

fn gathered(
    view: &ColumnView,
    samples: usize,
    data: &[u8],
) -> std::result::Result<GatheredColumn, WireError> {
    let lengths = view.rows_of_each(samples, data)?;
    let most = lengths.as_ref().and_then(|lengths| lengths.iter().copied().max());
    let layout = most.map_or_else(|| view.layout.clone(), |most| view.layout.with_rows(most));
    // Even if the length of each sample is sent, all samples may have the same length.
    let lengths = lengths.filter(|lengths| lengths.iter().any(|&rows| Some(rows) != most));
    Ok(GatheredColumn { column: BatchColumn { layout, lengths }, at: view.data_at.clone() })
}
