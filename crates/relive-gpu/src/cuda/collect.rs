//! Collection on a device: one kernel for all columns, and copy engines for long rows.

use std::ops::RangeInclusive;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytemuck::{Pod, Zeroable};

use super::device::{Device, Kernel};
use super::driver::{Copy, DevicePtr, Stream};
use super::event::DeviceEvent;
use super::memory::{DeviceBuffer, HostBuffer};
use super::plan::{ColumnPlan, Rows, code};
use super::registration::MAX_REGISTRATION_BYTES;
use crate::collect::Pad;
use crate::{Convert, Result};

/// The number of bytes of output per work item of a warp, as in `kernels/collect.cu`.
const PIECE: u64 = 8192;

/// The number of blocks of a collection, unless the caller limits it. Each occupies a multiprocessor.
const BLOCKS: RangeInclusive<u64> = 4..=16;

/// The number of warps in a block of a large collection.
const WARPS_PER_BLOCK: u64 = 32;

/// The number of bytes that a warp reads ahead before it uses the first of them, as in `kernels/collect.cu`.
const BYTES_PER_WARP: u64 = 2048;

/// The number of bytes in flight that saturates the bus, with a margin for waits between rows.
const BYTES_IN_FLIGHT: u64 = 256 << 10;

/// Initial number of bytes for the lists of a collection.
const LIST_BYTES: u64 = 1 << 16;

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Column {
    source: u64,
    row_stride: u64,
    step_bytes: u64,
    offset: i64,
    length: u64,
    pad_head: u64,
    pad: [u64; 2],
    out: u64,
    out_row_bytes: u64,
    out_step_bytes: u64,
    from: u64,
    to: u64,
    scale: f64,
    first_piece: u64,
    pieces_per_row: u64,
    pad_only: u64,
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Collect {
    columns: u64,
    column_count: u64,
    indices: u64,
    steps: u64,
    lengths: u64,
    rows: u64,
    pieces: u64,
}

/// Memory for the lists of one collection: where the host writes them, and where the kernel reads them.
#[derive(Debug)]
struct Slot {
    staged: HostBuffer,
    lists: DeviceBuffer,
    /// An event that has passed when neither buffer is in use.
    used: DeviceEvent,
}

impl Slot {
    fn new(device: &Device) -> Result<Self> {
        let (staged, lists) = (HostBuffer::new(device, LIST_BYTES)?, DeviceBuffer::new(device, LIST_BYTES)?);
        Ok(Self { staged, lists, used: DeviceEvent::new(device)? })
    }

    /// Makes room for the given number of bytes. The slot must not be in use.
    fn reserve(&mut self, device: &Device, bytes: u64) -> Result<()> {
        if self.staged.bytes() < bytes {
            self.staged = HostBuffer::new(device, bytes.next_power_of_two())?;
        }
        if self.lists.bytes() < bytes {
            self.lists = DeviceBuffer::new(device, bytes.next_power_of_two())?;
        }
        Ok(())
    }
}

/// Bytes that become part of the collected tensors' memory, and their address on the device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tail<'a> {
    /// The bytes, one part after another.
    pub(super) parts: &'a [&'a [u8]],
    pub(super) to: DevicePtr,
}

impl Tail<'_> {
    fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.len() as u64).sum()
    }
}

/// Collects rows of columns into tensors on a device.
#[derive(Debug)]
pub struct Collector {
    device: Device,
    /// The slots that are not being written. Their number is the largest number of collections that were in flight at
    /// the same time.
    slots: Mutex<Vec<Slot>>,
    /// `None` means as many blocks as saturate the bus.
    blocks: Option<u32>,
    copy_engine_from: u64,
}

impl Collector {
    /// Creates a collector that uses the kernel for all columns.
    ///
    /// # Errors
    /// The device has no memory for the lists.
    pub fn new(device: &Device) -> Result<Self> {
        let slots = Mutex::new(vec![Slot::new(device)?]);
        Ok(Self { device: device.clone(), slots, blocks: None, copy_engine_from: u64::MAX })
    }

    /// Limits the number of blocks. Each block occupies a multiprocessor, which is then not available for training. By
    /// default, there are as many blocks as saturate the bus: 4 for long rows, up to 16 for short ones.
    #[must_use]
    pub fn with_blocks(mut self, blocks: u32) -> Self {
        self.blocks = Some(blocks.max(1));
        self
    }

    /// Uses the copy engines, in one batch, for columns without a cast whose rows have at least this many bytes. This
    /// is faster for long rows and uses no multiprocessors, but needs one request per row.
    #[must_use]
    pub fn with_copy_engine_from(mut self, row_bytes: u64) -> Self {
        self.copy_engine_from = row_bytes;
        self
    }

    /// Collects the rows of all columns, as part of the stream: the tensors are complete once the stream has reached
    /// this point.
    ///
    /// # Safety
    /// The plans' addresses must refer to memory that the device can read (and write, for output tensors) and that
    /// stays valid until the stream has passed this point.
    ///
    /// # Errors
    /// A plan or a row is out of range, in which case nothing was done; or the device fails.
    pub unsafe fn collect(&self, columns: &[ColumnPlan], rows: Rows<'_>, stream: Stream) -> Result<()> {
        // SAFETY: the caller's contract; there is no tail.
        unsafe { self.collect_with(columns, rows, Tail { parts: &[], to: DevicePtr(0) }, stream) }
    }

    /// Like [`collect`](Self::collect), but also copies the tail to its address, which must be valid as well.
    ///
    /// # Safety
    /// Same as [`collect`](Self::collect).
    pub(super) unsafe fn collect_with(
        &self,
        columns: &[ColumnPlan],
        rows: Rows<'_>,
        tail: Tail<'_>,
        stream: Stream,
    ) -> Result<()> {
        rows.check(columns)?;
        if (rows.indices.is_empty() || columns.is_empty()) && tail.bytes() == 0 {
            return Ok(());
        }
        let has_batches = self.device.driver().has_batches(stream);
        let by_engine = |column: &&ColumnPlan| {
            has_batches && column.convert.is_none() && column.out_row_bytes() >= self.copy_engine_from
        };
        let copied: Vec<&ColumnPlan> = columns.iter().filter(by_engine).collect();
        let table = table(columns, rows, |column| by_engine(&column));
        // SAFETY: the caller's contract.
        unsafe { self.launch(&table, rows, tail, stream)? };
        let copies: Vec<Copy> = copied.iter().flat_map(|column| copies(column, rows)).collect();
        if copies.is_empty() {
            return Ok(());
        }
        // SAFETY: the caller's contract.
        unsafe { self.device.driver().copy(&copies, stream) }
    }

    /// Copies the lists and the tail to the device, and runs the kernel, if it has columns.
    ///
    /// # Safety
    /// Same as [`collect`](Self::collect).
    unsafe fn launch(&self, table: &[Column], rows: Rows<'_>, tail: Tail<'_>, stream: Stream) -> Result<()> {
        if table.is_empty() && tail.bytes() == 0 {
            return Ok(());
        }
        let count = rows.indices.len() as u64;
        let columns_bytes = size_of_val(table) as u64;
        let begins = [0, 1, 2, 3].map(|list| columns_bytes + list * count * 8);
        let [.., tail_at] = begins;
        let mut slot = self.free_slot()?;
        slot.reserve(&self.device, tail_at + tail.bytes())?;
        slot.staged.write(0, table);
        slot.staged.write(begins[0], rows.indices);
        slot.staged.write(begins[1], rows.steps);
        slot.staged.write(begins[2], rows.lengths);
        let mut at = tail_at;
        for part in tail.parts {
            slot.staged.write(at, part);
            at += part.len() as u64;
        }
        // SAFETY: the caller's contract; the slot is not reused before the event.
        let launched = unsafe { self.launch_from(&slot, table, begins, tail, stream) };
        let recorded = slot.used.record(stream);
        self.all_slots().push(slot);
        launched.and(recorded)
    }

    /// # Safety
    /// Same as [`collect`](Self::collect). The slot must contain the lists, and stay unchanged until the stream has
    /// passed this point.
    unsafe fn launch_from(
        &self,
        slot: &Slot,
        table: &[Column],
        begins: [u64; 4],
        tail: Tail<'_>,
        stream: Stream,
    ) -> Result<()> {
        let driver = self.device.driver();
        let [.., tail_at] = begins;
        if tail.bytes() > 0 {
            let (to, from) = (tail.to.0, slot.staged.address() + tail_at);
            // SAFETY: the caller's contract.
            unsafe { driver.copy(&[Copy { to, from, bytes: tail.bytes() }], stream)? };
        }
        let rows = (begins[1] - begins[0]) / 8;
        let Some(last) = table.last().filter(|_| rows > 0) else { return Ok(()) };
        let columns = slot.lists.address().0;
        // SAFETY: both buffers have this many bytes.
        unsafe { driver.copy(&[Copy { to: columns, from: slot.staged.address(), bytes: tail_at }], stream)? };
        let pieces = last.first_piece + last.pieces_per_row * rows;
        let [indices, steps, lengths, _] = begins.map(|begin| columns + begin);
        let column_count = table.len() as u64;
        let parameter = Collect { columns, column_count, indices, steps, lengths, rows, pieces };
        // SAFETY: the caller's contract.
        unsafe {
            self.device.launch(Kernel::Collect, pieces, self.blocks(table, rows, pieces), stream, &parameter)
        }
    }

    /// Returns the maximum number of blocks. Short pieces need more warps to keep the same number of bytes in flight.
    fn blocks(&self, table: &[Column], rows: u64, pieces: u64) -> u32 {
        if let Some(blocks) = self.blocks {
            return blocks;
        }
        let bytes = table.iter().map(|column| column.out_row_bytes * rows).fold(0, u64::saturating_add);
        let bytes_per_warp = (bytes / pieces.max(1)).clamp(1, BYTES_PER_WARP);
        let blocks = BYTES_IN_FLIGHT / (bytes_per_warp * WARPS_PER_BLOCK);
        u32::try_from(blocks.clamp(*BLOCKS.start(), *BLOCKS.end())).unwrap_or(u32::MAX)
    }

    /// Takes a slot that no earlier collection uses, on any stream.
    fn free_slot(&self) -> Result<Slot> {
        let mut slots = self.all_slots();
        for position in 0..slots.len() {
            if slots[position].used.has_passed()? {
                return Ok(slots.swap_remove(position));
            }
        }
        Slot::new(&self.device)
    }

    fn all_slots(&self) -> MutexGuard<'_, Vec<Slot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.all_slots().drain(..).for_each(|slot| _ = slot.used.wait_for_end());
    }
}

/// Returns the kernel's columns. For columns that the copy engines copy, the kernel only writes the padding; those
/// without padding are left out.
fn table(columns: &[ColumnPlan], rows: Rows<'_>, by_engine: impl Fn(&ColumnPlan) -> bool) -> Vec<Column> {
    let mut table = Vec::with_capacity(columns.len());
    let mut first_piece = 0;
    for column in columns {
        let pad_only = by_engine(column);
        if pad_only && is_full(column, rows) {
            continue;
        }
        let (from, to, scale) = column
            .convert
            .map_or((None, None, 1.0), |Convert { from, to, scale }| (code(from), code(to), scale));
        let pad = column.padding.as_chunks::<8>().0;
        let pieces_per_row = column.out_row_bytes().div_ceil(PIECE);
        table.push(Column {
            source: column.source,
            row_stride: column.row_stride,
            step_bytes: column.step_bytes,
            offset: column.offset,
            length: column.length,
            pad_head: u64::from(column.pad == Pad::Head),
            pad: [u64::from_le_bytes(pad[0]), u64::from_le_bytes(pad[1])],
            out: column.out,
            out_row_bytes: column.out_row_bytes(),
            out_step_bytes: column.out_step_bytes(),
            // 0 means no conversion.
            from: from.unwrap_or(0),
            to: to.unwrap_or(0),
            scale: f64::from(scale),
            first_piece,
            pieces_per_row,
            pad_only: u64::from(pad_only),
        });
        first_piece += pieces_per_row * rows.indices.len() as u64;
    }
    table
}

fn is_full(column: &ColumnPlan, rows: Rows<'_>) -> bool {
    rows.iter().all(|((_, step), available)| column.span(*step, *available).count == column.length)
}

/// Returns the copies of all rows. The driver refuses a copy from two registrations, so a row that continues in the
/// next registered piece of its column is copied in two parts.
fn copies(column: &ColumnPlan, rows: Rows<'_>) -> Vec<Copy> {
    let mut copies = Vec::with_capacity(rows.indices.len());
    for (row, ((index, step), available)) in (0..).zip(rows.iter()) {
        let steps = column.span(*step, *available);
        if steps.count > 0 {
            let mut to: u64 = column.out + row * column.out_row_bytes() + steps.at * column.step_bytes;
            let begin = index * column.row_stride + steps.begin * column.step_bytes;
            let end = begin + steps.count * column.step_bytes;
            let mut at = begin;
            while at < end {
                let end_of_piece = (at / MAX_REGISTRATION_BYTES + 1) * MAX_REGISTRATION_BYTES;
                let bytes = end.min(end_of_piece) - at;
                copies.push(Copy { to, from: column.source + at, bytes });
                (at, to) = (at + bytes, to + bytes);
            }
        }
    }
    copies
}
