//! Sends batches as frames.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use relive_batch::{Batch, BatchColumn, BatchError, StoredColumn};
use relive_engine::limits::MAX_COPIED_BYTES;
use relive_engine::{CopiedSamples, TableHandle, Undelivered};
use relive_table::{MAX_ROWS_AT_ONCE, Sampled, SampledRow};
use relive_tensor::{CodecSet, ColumnLayout};
use relive_transport::{FrameWriter, Frames};
use relive_wire::bulk::{ALIGNMENT, BatchInfo, FrameHeader, FrameKind, InfoLayout, aligned};
use relive_wire::limits::MAX_BULK_BODY_BYTES;
use relive_wire::sample::Packer;
use relive_wire::v1::{self, BatchColumn as BatchColumnHead, BatchHead, ShareMemory};
use relive_wire::{Message, dtype, structure};
use tonic::Status;

use super::failure::Failure;
use super::slots::{Slot, Slots};
use crate::limits::{MAX_BATCH_BYTES, MAX_KEPT_BATCH_BYTES, MIN_STORED_PART_BYTES, SAMPLES_FRAME_BYTES};
use crate::services::{StructureTracker, status};
use crate::traffic::{Load, StreamBudget};

/// Sends batches over a connection.
#[derive(Debug)]
pub(super) struct Sender {
    /// Memory shared with the client, if the client requested it.
    slots: Option<Slots>,
    /// The buffer for batches that are not in shared memory. It is reused, because allocating new memory takes as long
    /// as filling it.
    data: Vec<u8>,
    /// Frames of batches in shared memory that are sent together.
    held: HeldFrames,
    /// The samples that were taken for the client and have not been sent.
    undelivered: Undelivered,
    budget: StreamBudget,
    structure_tracker: StructureTracker,
}

/// Frames that have not been sent yet, the number of samples in their batches, and the total size of their batches in
/// bytes.
#[derive(Debug, Default)]
struct HeldFrames {
    frames: Vec<u8>,
    samples: usize,
    batch_bytes: usize,
}

/// While more batches are requested, frames are held until their batches have this many bytes in total. Each
/// transmission wakes the client's thread, which costs as much as copying 24 kB. Holding more frames would only delay
/// the first batch.
const MAX_HELD_BYTES: usize = 64 << 10;

/// A batch, and the layout of its data.
struct Plan {
    batch: Batch,
    place: Placement,
}

/// The layout of a batch's data, and the head that describes it.
#[derive(Debug)]
struct Placement {
    head: BatchHead,
    columns: Vec<Range<usize>>,
    len: usize,
}

/// Batches of small items, which the table copies to their destinations.
#[derive(Debug)]
pub(super) struct Rows {
    layouts: Arc<[ColumnLayout]>,
    place: Placement,
}

impl Sender {
    /// Creates a sender of samples from `table`.
    pub(super) fn new(table: &TableHandle, slots: Option<Slots>, budget: StreamBudget) -> Self {
        Self {
            slots,
            data: Vec::new(),
            held: HeldFrames::default(),
            undelivered: table.undelivered(0),
            budget,
            structure_tracker: StructureTracker::default(),
        }
    }

    /// Records samples that were taken for the client. If the connection ends before they are sent, they are counted as
    /// undelivered.
    pub(super) fn record_taken(&mut self, samples: usize) {
        self.undelivered.add(samples);
    }

    /// Returns the structure of `table`'s items, if the client has not received the structure yet.
    fn take_update(&mut self, table: &TableHandle) -> Option<v1::ItemStructure> {
        self.structure_tracker.take_update(table).map(|structure| structure::of_items(structure.as_deref()))
    }

    /// Abandons a piece of shared memory that the client keeps. Returns whether the client had it.
    pub(super) fn abandon(&mut self, slot: u32) -> bool {
        self.slots.as_mut().is_some_and(|slots| slots.abandon(slot))
    }

    /// Takes back a piece of shared memory. Returns whether the client had it.
    pub(super) fn give_back(&mut self, slot: u32) -> bool {
        self.slots.as_mut().is_some_and(|slots| slots.give_back(slot))
    }

    /// Sends a batch of samples from `table`. Returns its size in bytes.
    pub(super) async fn send(
        &mut self,
        frames: &Frames,
        table: &TableHandle,
        samples: Vec<Sampled>,
    ) -> Result<u64, Failure> {
        let mut plan = match Plan::new(samples) {
            Ok(plan) if plan.place.len as u64 > MAX_BATCH_BYTES => {
                return self.send_individually(frames, table, plan.batch.samples()).await;
            }
            Ok(plan) => plan,
            Err(samples) => return self.send_individually(frames, table, &samples).await,
        };
        let len = plan.place.len as u64;
        let load = self.budget.take(len).await;
        plan.place.head.structure = self.take_update(table);
        match self.slot(plan.place.len) {
            Some(slot) => self.send_shared(frames, plan, slot).await?,
            None => {
                let samples = plan.place.head.samples as usize;
                self.send_inline(&counting(frames, &load), plan).await?;
                self.undelivered.delivered(samples);
            }
        }
        load.arrived();
        Ok(len)
    }

    /// Sends samples one by one, as over gRPC. Clients on the bulk path support every codec.
    pub(super) async fn send_individually(
        &mut self,
        frames: &Frames,
        table: &TableHandle,
        samples: &[Sampled],
    ) -> Result<u64, Failure> {
        let (mut rest, mut sent) = (samples, 0);
        while !rest.is_empty() {
            let (together, after, bytes) = first_part(rest, SAMPLES_FRAME_BYTES);
            rest = after;
            let load = self.budget.take(bytes).await;
            let mut packer = Packer::for_readers_of(CodecSet::ALL);
            if let Some(structure) = self.structure_tracker.take_update(table) {
                packer.put_structure(structure.as_deref());
            }
            for sampled in together {
                packer.push(table.name(), sampled).map_err(|error| status::of_unreadable(&error))?;
            }
            let parts: Vec<_> = packer.finish().into_iter().flat_map(|message| message.parts).collect();
            let body = body_of(&parts)?;
            counting(frames, &load).send_frame(FrameKind::Samples, &[], &body).await?;
            self.undelivered.delivered(together.len());
            load.arrived();
            sent += body.len() as u64;
        }
        Ok(sent)
    }

    /// Allocates shared memory. Returns `None` if the batch must be sent through the socket.
    fn slot(&mut self, len: usize) -> Option<Slot> {
        let slot = self.slots.as_mut()?.take(len);
        slot.unwrap_or_else(|error| {
            tracing::debug!(%error, len, "cannot create shared memory for a client");
            None
        })
    }

    /// Sends a batch that `table` copies, if the table can copy one immediately, and returns the batch's size in bytes.
    /// Otherwise, the table may have taken samples instead. If `more` batches are requested, a small batch may be held
    /// until [`send_held`](Self::send_held).
    pub(super) async fn send_rows(
        &mut self,
        frames: &Frames,
        table: &TableHandle,
        rows: &Rows,
        more: bool,
    ) -> Result<Result<u64, Vec<Sampled>>, Failure> {
        let (len, samples) = (rows.place.len, rows.place.head.samples as usize);
        let load = match poll_fn(|cx| Poll::Ready(self.budget.poll_take(len as u64, cx))).await {
            Poll::Ready(load) => load,
            Poll::Pending => {
                self.send_held(frames).await?;
                self.budget.take(len as u64).await
            }
        };
        let mut slot = self.slot(len);
        let data = match &mut slot {
            Some(slot) => slot.memory.bytes_mut(),
            None => self.data(len),
        };
        let mut places = rows.place.cut(data);
        let infos = match table.sample_rows(&rows.layouts, samples, &mut places) {
            CopiedSamples::Rows(infos) => {
                self.undelivered.add(samples);
                infos
            }
            CopiedSamples::Items(items) => {
                if let Some((slot, slots)) = slot.zip(self.slots.as_mut()) {
                    slots.put_back(slot);
                }
                return Ok(Err(items));
            }
        };
        let data = match &mut slot {
            Some(slot) => slot.memory.bytes_mut(),
            None => self.data(len),
        };
        InfoLayout::of(samples).write(infos.iter().map(info_of_row), data);
        let mut head = rows.place.head.clone();
        head.structure = self.take_update(table);
        match slot {
            Some(slot) => {
                self.lend(frames, head, slot).await?;
                if !more || self.held.batch_bytes >= MAX_HELD_BYTES {
                    self.send_held(frames).await?;
                }
            }
            None => {
                self.send_held(frames).await?;
                let parts = [self.data.get(..len).unwrap_or_default()];
                let writer = counting(frames, &load);
                writer.send_parts(FrameKind::Batch, &head.encode_to_vec(), &parts).await?;
                self.undelivered.delivered(samples);
            }
        }
        load.arrived();
        Ok(Ok(len as u64))
    }

    async fn send_shared(&mut self, frames: &Frames, plan: Plan, mut slot: Slot) -> Result<(), Failure> {
        plan.write(slot.memory.bytes_mut(), |_| true)?;
        self.lend(frames, plan.place.head, slot).await?;
        self.send_held(frames).await
    }

    /// Returns whether frames are held.
    pub(super) fn holds(&self) -> bool {
        !self.held.frames.is_empty()
    }

    /// Sends the frames that are held.
    pub(super) async fn send_held(&mut self, frames: &Frames) -> Result<(), Failure> {
        if self.holds() {
            frames.send(&mut [IoSlice::new(&self.held.frames)]).await?;
            self.undelivered.delivered(std::mem::take(&mut self.held.samples));
            self.held.frames.clear();
            self.held.batch_bytes = 0;
        }
        Ok(())
    }

    /// Makes a batch in shared memory available to the client, and holds its frame.
    async fn lend(&mut self, frames: &Frames, mut head: BatchHead, mut slot: Slot) -> Result<(), Failure> {
        head.slot = Some(slot.number);
        if let Some(descriptor) = slot.descriptor.take() {
            announce(frames, &slot, &descriptor).await?;
        }
        if let Some(slots) = &mut self.slots {
            slots.lend(slot);
            head.dropped_slots = slots.take_dropped();
        }
        let header = FrameHeader::new(FrameKind::Batch, head.encoded_len(), 0).map_err(io::Error::other)?;
        let held = &mut self.held;
        held.frames.extend_from_slice(&header.encode());
        head.encode(&mut held.frames).map_err(io::Error::other)?;
        held.samples += head.samples as usize;
        held.batch_bytes += usize::try_from(head.data_bytes).unwrap_or(usize::MAX);
        Ok(())
    }

    /// Returns the connection's own memory.
    fn data(&mut self, len: usize) -> &mut [u8] {
        if self.data.len() < len {
            // The memory is zeroed, because zeroed pages use no memory until they are written. The places of columns
            // that are sent directly from the store are never written.
            self.data = vec![0; len];
        }
        self.data.get_mut(..len).unwrap_or_default()
    }

    async fn send_inline(&mut self, writer: &FrameWriter, plan: Plan) -> Result<(), Failure> {
        let stored = plan.stored_columns();
        let data = self.data(plan.place.len);
        plan.write(data, |column| stored.iter().all(|(other, _)| *other != column))?;
        let head = plan.place.head.encode_to_vec();
        writer.send_parts(FrameKind::Batch, &head, &plan.body(data, &stored)).await?;
        if self.data.len() > MAX_KEPT_BATCH_BYTES {
            self.data = Vec::new();
        }
        Ok(())
    }
}

/// Sends a frame, and counts the bytes that the client has taken.
fn counting(frames: &Frames, load: &Load) -> FrameWriter {
    frames.writer().counting(Arc::clone(load.moved()))
}

/// Returns the body of a frame that consists of `parts`. A larger body than a frame may have is refused before it is
/// copied, so that the client receives the reason; it would otherwise reconnect and take the next samples.
fn body_of(parts: &[Bytes]) -> Result<Vec<u8>, Status> {
    let bytes: usize = parts.iter().map(Bytes::len).sum();
    if bytes > MAX_BULK_BODY_BYTES {
        return Err(Status::out_of_range(format!(
            "the samples of one frame have {bytes} bytes; the limit is {MAX_BULK_BODY_BYTES}; use smaller items"
        )));
    }
    Ok(parts.concat())
}

/// Splits off the samples that fill one frame of `full_bytes`, at least one sample. Returns these samples, the
/// remaining ones, and the total size of the first part's chunks.
fn first_part(samples: &[Sampled], full_bytes: u64) -> (&[Sampled], &[Sampled], u64) {
    let (mut count, mut bytes) = (0, 0);
    for sampled in samples {
        if bytes >= full_bytes {
            break;
        }
        count += 1;
        bytes += sampled.item.trajectory.encoded_size_bytes();
    }
    let (first, others) = samples.split_at(count);
    (first, others, bytes)
}

/// Sends the descriptor of a piece of shared memory.
async fn announce(frames: &Frames, slot: &Slot, descriptor: &OwnedFd) -> io::Result<()> {
    let head = ShareMemory { slot: slot.number, bytes: slot.memory.len() as u64 }.encode_to_vec();
    let header = FrameHeader::new(FrameKind::Share, head.len(), 0);
    let mut frame = header.map_err(io::Error::other)?.encode().to_vec();
    frame.extend_from_slice(&head);
    frames.writer().send_with(&frame, descriptor.as_fd()).await
}

impl Rows {
    /// Returns batches of `samples` items with the layout of the newest item of `table`, or `None` if the table's
    /// items, or that many of them at once, cannot be copied.
    pub(super) fn of(table: &TableHandle, samples: usize) -> Option<Self> {
        let layouts = table.row_columns()?;
        let columns: Vec<BatchColumn> = layouts.iter().cloned().map(BatchColumn::even).collect();
        let place = Placement::of(&columns, samples)?;
        let fits = place.len <= MAX_COPIED_BYTES && samples <= MAX_ROWS_AT_ONCE;
        fits.then_some(Self { layouts, place })
    }
}

impl Placement {
    /// Returns `None` for columns that do not form arrays.
    fn of(columns: &[BatchColumn], count: usize) -> Option<Self> {
        let mut len = InfoLayout::of(count).size_bytes();
        let (mut ranges, mut described) =
            (Vec::with_capacity(columns.len()), Vec::with_capacity(columns.len()));
        for column in columns {
            let bytes = column.size_bytes(count)?;
            let ColumnLayout { dtype, rows, cell_shape } = &column.layout;
            let rows_offset = column.lengths.is_some().then_some(len as u64);
            if rows_offset.is_some() {
                len = aligned(len + count * size_of::<u32>());
            }
            described.push(BatchColumnHead {
                dtype: dtype::to_wire(*dtype) as i32,
                squeeze: rows.is_none(),
                cell_shape: cell_shape.dims().to_vec(),
                rows: if rows_offset.is_some() { 0 } else { rows.unwrap_or(1) },
                rows_offset,
                offset: len as u64,
                bytes: bytes as u64,
            });
            ranges.push(len..len.saturating_add(bytes));
            len = len.saturating_add(bytes).checked_next_multiple_of(ALIGNMENT).unwrap_or(usize::MAX);
        }
        let samples = u32::try_from(count).unwrap_or(u32::MAX);
        let head = BatchHead { samples, columns: described, data_bytes: len as u64, ..BatchHead::default() };
        Some(Self { head, columns: ranges, len })
    }

    /// Splits `data` into one slice for each column.
    fn cut<'d>(&self, data: &'d mut [u8]) -> Vec<&'d mut [u8]> {
        let (mut places, mut rest, mut passed) = (Vec::with_capacity(self.columns.len()), data, 0);
        for range in &self.columns {
            let (_, after) = rest.split_at_mut_checked(range.start - passed).unwrap_or_default();
            let (place, after) = after.split_at_mut_checked(range.len()).unwrap_or_default();
            places.push(place);
            (rest, passed) = (after, range.end);
        }
        places
    }
}

impl Plan {
    /// Returns the plan, or returns the samples if they do not form arrays.
    fn new(samples: Vec<Sampled>) -> Result<Self, Vec<Sampled>> {
        let batch = Batch::new(samples).map_err(|(_, samples)| samples)?;
        match Placement::of(batch.columns(), batch.samples().len()) {
            Some(place) => Ok(Self { batch, place }),
            None => Err(batch.into_samples()),
        }
    }

    /// Returns the columns that can be sent from the store, with their numbers.
    fn stored_columns(&self) -> Vec<(usize, StoredColumn<'_>)> {
        let stored = |column| Some((column, self.batch.stored_column(column, MIN_STORED_PART_BYTES)?));
        (0..self.place.columns.len()).filter_map(stored).collect()
    }

    /// Returns the batch in order: pieces of `data`, with stored columns inserted at their places.
    fn body<'a>(&self, data: &'a [u8], stored: &'a [(usize, StoredColumn<'_>)]) -> Vec<&'a [u8]> {
        let (mut parts, mut passed) = (Vec::new(), 0);
        for (column, plain) in stored {
            let Some(range) = self.place.columns.get(*column) else { continue };
            parts.push(data.get(passed..range.start).unwrap_or_default());
            parts.extend(plain.parts());
            passed = range.end;
        }
        parts.push(data.get(passed..).unwrap_or_default());
        parts
    }

    /// Writes the head and the wanted columns of the batch into memory that is at least as large as the batch.
    fn write(&self, data: &mut [u8], is_wanted: impl Fn(usize) -> bool) -> Result<(), Failure> {
        let infos = self.batch.samples().iter().map(|sampled| BatchInfo {
            key: sampled.item.key,
            probability: sampled.probability,
            priority: sampled.priority,
            table_size: sampled.table_size,
            inserted_at: sampled.item.inserted_at.as_nanos(),
            times_sampled: sampled.times_sampled,
            rate_limited: sampled.rate_limited,
        });
        InfoLayout::of(infos.len()).write(infos, data);
        for (head, column) in self.place.head.columns.iter().zip(self.batch.columns()) {
            let start = head.rows_offset.and_then(|offset| usize::try_from(offset).ok());
            let Some((start, lengths)) = start.zip(column.lengths.as_ref()) else { continue };
            let numbers = data.get_mut(start..).unwrap_or_default().as_chunks_mut().0.iter_mut();
            numbers.zip(lengths).for_each(|(place, rows)| *place = rows.to_le_bytes());
        }
        let targets = self.place.cut(data).into_iter().enumerate();
        let targets = targets.filter(|(column, _)| is_wanted(*column));
        self.batch.gather_into(targets).map_err(|error| damaged(&error))
    }
}

fn info_of_row(row: &SampledRow) -> BatchInfo {
    BatchInfo {
        key: row.key,
        probability: row.probability,
        priority: row.priority,
        table_size: row.table_size,
        inserted_at: row.inserted_at.as_nanos(),
        times_sampled: row.times_sampled,
        rate_limited: false,
    }
}

fn damaged(error: &BatchError) -> Failure {
    Status::data_loss(error.to_string()).into()
}

#[cfg(test)]
mod tests {
    use relive_table::{ItemData, Timestamp};
    use relive_tensor::ResidenceGuard;
    use relive_testkit::data::{chunk, trajectory};

    use super::*;

    fn sampled(key: u64, rows: u16) -> Sampled {
        let trajectory = trajectory(&[chunk(key, 1, 0, rows)]);
        Sampled {
            item: Arc::new(ItemData { trajectory, key, sequence: key, inserted_at: Timestamp::EPOCH }),
            priority: 1.0,
            probability: 1.0,
            table_size: 1,
            times_sampled: 1,
            rate_limited: false,
            residence_guard: ResidenceGuard::default(),
        }
    }

    #[test]
    fn a_body_that_no_frame_can_carry_is_refused_with_a_reason() {
        let block = Bytes::from(vec![0; 64 << 20]);
        let refused = body_of(&vec![block; 65]).unwrap_err();
        assert_eq!(refused.code(), tonic::Code::OutOfRange);
        assert!(refused.message().contains("4362076160 bytes; the limit is 4294967296"), "{refused}");
        assert_eq!(body_of(&[Bytes::from_static(b"ab"), Bytes::from_static(b"c")]).unwrap(), b"abc");
    }

    /// Returns the numbers of items in the first part and in the rest, and the number of bytes in the first part.
    fn part(samples: &[Sampled], full_bytes: u64) -> (usize, usize, u64) {
        let (first, others, bytes) = first_part(samples, full_bytes);
        (first.len(), others.len(), bytes)
    }

    #[test]
    fn memory_is_reserved_only_for_the_samples_of_a_part() {
        let samples = [sampled(1, 10), sampled(2, 1_000)];
        let [small, large] = [0, 1].map(|it: usize| samples[it].item.trajectory.encoded_size_bytes());
        assert!(small > 0 && large > small);
        assert_eq!(part(&samples, 1), (1, 1, small), "one is more than enough");
        assert_eq!(part(&samples, small), (1, 1, small), "the first fills it");
        assert_eq!(part(&samples, small + 1), (2, 0, small + large), "there was room for a byte");
        assert_eq!(part(&samples[1..], u64::MAX), (1, 0, large));
        assert_eq!(part(&[], 1), (0, 0, 0));
    }
}
