//! One connection from another machine.
#![expect(
    unsafe_code,
    reason = "steps of pinned rows are sent from where they lie; the block says why it is sound"
)]

use std::collections::HashMap;
use std::io::{self, IoSlice};
use std::time::Duration;

use relive_transport::{Frames, ReadError, Socket, is_same_token};
use relive_wire::bulk::{FrameHeader, FrameKind};
use tokio::time::timeout;

use crate::bytes::narrow;
use crate::collect::{Pad, span};
use crate::error::{Error, Result};
use crate::peers::messages::{
    Described, GREETING_BYTES, MAGIC, MAX_ANSWER_BYTES, MAX_ANSWER_PIECES, MAX_HEAD_BYTES, MAX_REQUEST_BYTES,
    PinHead, PinnedRowInfo, RowRequest, VERSION, WindowRequest, encode_error, u64s,
};
use crate::store::{Pinned, Reader, Trajectory};

/// How long a connection may take to send its greeting.
const GREETING_PATIENCE: Duration = Duration::from_secs(10);
/// How long a client may stall while it receives an answer, because its pins prevent rows from being replaced. In this
/// time, it must receive at least [`BYTES`].
const STALL_PATIENCE: Duration = Duration::from_secs(60);
/// The maximum number of pieces sent in one call, which is a limit of Linux.
const PIECES: usize = 1024;
/// The maximum number of bytes sent in one call: few enough that a slow network transmits them within
/// [`STALL_PATIENCE`], and many enough that calls cost nothing in comparison.
const BYTES: usize = 1 << 20;
/// The number of rows that are pinned at once, before other connections are served.
const PINS_AT_ONCE: usize = 1 << 14;
/// The maximum number of pins of one connection: one for each row of each lease, and one for each lease. Their lists
/// take at most about 190 MiB.
const MAX_PINS: usize = 1 << 20;

/// The reason why a connection ends.
enum End {
    /// The connection broke, or the other side closed it.
    Broken,
    /// The request is invalid; the error is sent to the other side.
    Refused(Error),
}

impl From<io::Error> for End {
    fn from(_: io::Error) -> Self {
        Self::Broken
    }
}

impl From<ReadError> for End {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Io(_) => Self::Broken,
            ReadError::Frame(error) => Self::Refused(Error::corrupt(error.to_string())),
        }
    }
}

/// A client's pins.
struct ClientPins<'a> {
    reader: &'a Reader,
    leases: HashMap<u64, Pinned>,
    /// Pinned rows by index, and the number of pins of each.
    rows: HashMap<u64, (Trajectory, usize)>,
    /// The number of pins of all leases; see [`MAX_PINS`].
    pins: usize,
}

/// Serves a connection until it ends, then releases its pins.
pub(super) async fn session(socket: Socket, token: Option<&str>, reader: &Reader) {
    let mut frames = Frames::new(socket);
    frames.limit_heads(MAX_HEAD_BYTES);
    let mut pins = ClientPins { reader, leases: HashMap::new(), rows: HashMap::new(), pins: 0 };
    let end = match timeout(GREETING_PATIENCE, greet(&mut frames, token, reader)).await {
        Err(_) => return,
        Ok(Ok(())) => serve(&mut frames, &mut pins).await,
        Ok(Err(end)) => Err(end),
    };
    drop(pins);
    if let Err(End::Refused(error)) = end {
        // The other side may be gone.
        drop(timeout(STALL_PATIENCE, refuse(&frames, &error)).await);
    }
}

async fn greet(frames: &mut Frames, token: Option<&str>, reader: &Reader) -> Result<(), End> {
    let mut greeting = [0; GREETING_BYTES];
    frames.read_body(&mut greeting).await?;
    let (magic, version) = greeting.split_at(MAGIC.len());
    if magic != MAGIC {
        return Err(End::Broken);
    }
    if version != VERSION.to_le_bytes() {
        let theirs = version.iter().rev().fold(0_u64, |number, &byte| number << 8 | u64::from(byte));
        let text = format!(
            "it uses version {VERSION}, but this process uses version {theirs}; use the same version of Relive"
        );
        return Err(End::Refused(Error::unavailable(text)));
    }
    let Some((header, head)) = frames.next().await? else { return Err(End::Broken) };
    if header.kind != FrameKind::OpenRows || header.body_len() > 0 {
        return Err(out_of_place(&header));
    }
    if !token.is_none_or(|token| is_same_token(&head, token.as_bytes())) {
        let what =
            if head.is_empty() { "it requires a token, but got none" } else { "it does not know the token" };
        return Err(End::Refused(Error::unavailable(what)));
    }
    let shard = reader.shard();
    let (schema, capacity) = (reader.schema().clone(), reader.capacity());
    let described = Described { schema, capacity, rank: shard.rank(), ranks: shard.ranks() };
    frames.send_frame(FrameKind::RowsOpened, &described.encode(), &[]).await?;
    Ok(())
}

fn out_of_place(header: &FrameHeader) -> End {
    End::Refused(Error::invalid(format!("unexpected frame of kind {:?}", header.kind)))
}

async fn refuse(frames: &Frames, error: &Error) -> io::Result<()> {
    frames.send_frame(FrameKind::RowsRefused, &encode_error(error), &[]).await
}

async fn serve(frames: &mut Frames, pins: &mut ClientPins<'_>) -> Result<(), End> {
    while let Some((header, head)) = frames.next().await? {
        if header.body_len() > MAX_REQUEST_BYTES {
            let text = format!("a request of {} bytes; the limit is {MAX_REQUEST_BYTES}", header.body_len());
            return Err(End::Refused(Error::invalid(text)));
        }
        let body = frames.read_bytes(header.body_len()).await?;
        let done = match header.kind {
            FrameKind::PinRows => pin(frames, pins, &head, &body).await?,
            FrameKind::ReadRows => read(frames, pins, &head, &body).await?,
            FrameKind::ReleaseRows => pins.release(&head),
            _ => return Err(out_of_place(&header)),
        };
        if let Err(error) = done {
            sent(refuse(frames, &error)).await?;
        }
    }
    Ok(())
}

async fn pin(
    frames: &Frames,
    pins: &mut ClientPins<'_>,
    head: &[u8],
    body: &[u8],
) -> Result<Result<()>, End> {
    let rows_info = match pins.pin(head, body).await {
        Ok(rows_info) => PinnedRowInfo::encode_all(&rows_info),
        Err(error) => return Ok(Err(error)),
    };
    sent(frames.send_frame(FrameKind::PinnedRows, &[], &rows_info)).await?;
    Ok(Ok(()))
}

async fn read(frames: &Frames, pins: &ClientPins<'_>, head: &[u8], body: &[u8]) -> Result<Result<()>, End> {
    let (windows, rows, bytes) = match pins.decode_read(head, body) {
        Ok(request) => request,
        Err(error) => return Ok(Err(error)),
    };
    let header = FrameHeader::new(FrameKind::Rows, 0, narrow(bytes)).map_err(io::Error::other)?;
    sent(frames.send(&mut [IoSlice::new(&header.encode())])).await?;
    let pieces = windows.len() * rows.len();
    let (mut at, mut calls) = (0..pieces, Calls::default());
    loop {
        let piece = |at: usize| pins.steps(&windows[at / rows.len()], &rows[at % rows.len()]);
        let mut now = calls.next(|| at.next().map(piece));
        if now.is_empty() {
            break;
        }
        sent(frames.send(&mut now)).await?;
        // Sending pieces without bytes never waits, so other connections would starve.
        tokio::task::yield_now().await;
        crate::kill::kill_point!("rows half sent");
    }
    Ok(Ok(()))
}

/// Divides the pieces of an answer into calls.
#[derive(Default)]
struct Calls<'a> {
    /// The part of the last piece for which the previous call had no room.
    rest: &'a [u8],
}

impl<'a> Calls<'a> {
    /// Returns what the next call sends; nothing after the last piece.
    fn next(&mut self, mut next_piece: impl FnMut() -> Option<&'a [u8]>) -> Vec<IoSlice<'a>> {
        let (mut now, mut left) = (Vec::new(), BYTES);
        while now.len() < PIECES && left > 0 {
            let piece = if self.rest.is_empty() { next_piece() } else { Some(self.rest) };
            let Some(piece) = piece else { break };
            let (first, rest) = piece.split_at(piece.len().min(left));
            now.push(IoSlice::new(first));
            (left, self.rest) = (left - first.len(), rest);
        }
        now
    }
}

async fn sent(send: impl Future<Output = io::Result<()>>) -> io::Result<()> {
    timeout(STALL_PATIENCE, send).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// A row, and the step for which a request needs windows.
#[derive(Clone, Copy)]
struct RequestedRow {
    local: u64,
    step: u64,
    length: u64,
}

impl ClientPins<'_> {
    async fn pin(&mut self, head: &[u8], body: &[u8]) -> Result<Vec<PinnedRowInfo>> {
        let head = PinHead::decode(head, "the request")?;
        let indices = u64s(body, "the request")?;
        let more = indices.len() + 1;
        if self.pins + more > MAX_PINS {
            return Err(Error::invalid(format!(
                "{} trajectories in addition to the connection's {} pins; the limit is {MAX_PINS}; drop batches and loaders",
                indices.len(),
                self.pins
            )));
        }
        if self.leases.contains_key(&head.lease) {
            return Err(Error::invalid(format!("lease {} already exists", head.lease)));
        }
        let mut pinned = self.reader.pin_all(&[], false)?.0;
        let mut rows_info = Vec::with_capacity(indices.len());
        for some in indices.chunks(PINS_AT_ONCE) {
            if let Err(error) = self.pin_some(some, head.is_sample, &mut pinned, &mut rows_info) {
                self.forget(&pinned);
                return Err(error);
            }
            tokio::task::yield_now().await;
        }
        self.pins += pinned.rows().len() + 1;
        self.leases.insert(head.lease, pinned);
        Ok(rows_info)
    }

    fn pin_some(
        &mut self,
        indices: &[u64],
        is_sample: bool,
        pinned: &mut Pinned,
        rows_info: &mut Vec<PinnedRowInfo>,
    ) -> Result<()> {
        let (now, missing) = self.reader.pin_all(indices, is_sample)?;
        let first = pinned.rows().len();
        pinned.append(now)?;
        let mut missing = missing.into_iter().peekable();
        let mut rows = pinned.rows()[first..].iter();
        for position in 0..indices.len() {
            let is_missing = missing.next_if_eq(&position).is_some();
            let Some(&row) = (if is_missing { None } else { rows.next() }) else {
                rows_info.push(PinnedRowInfo::NONE);
                continue;
            };
            let Trajectory { generation, length, inserted, sampled, weight, .. } = row;
            rows_info.push(PinnedRowInfo { generation, length, inserted, sampled, weight });
            self.rows.entry(row.index).or_insert((row, 0)).1 += 1;
        }
        Ok(())
    }

    /// Makes rows unreadable once they are no longer pinned.
    fn forget(&mut self, pinned: &Pinned) {
        for row in pinned.rows() {
            if let Some((_, count)) = self.rows.get_mut(&row.index) {
                *count -= 1;
                if *count == 0 {
                    self.rows.remove(&row.index);
                }
            }
        }
    }

    /// Releases a lease. A lease that is unknown here was abandoned during its creation.
    fn release(&mut self, head: &[u8]) -> Result<()> {
        let &[lease] = &u64s(head, "the request")?[..] else {
            return Err(Error::corrupt("a release of other than one lease"));
        };
        if let Some(pinned) = self.leases.remove(&lease) {
            self.pins -= pinned.rows().len() + 1;
            self.forget(&pinned);
        }
        Ok(())
    }

    /// Returns the contents of a request, and the number of bytes of its answer.
    fn decode_read(&self, head: &[u8], body: &[u8]) -> Result<(Vec<WindowRequest>, Vec<RequestedRow>, u64)> {
        let schema = self.reader.schema();
        let windows = WindowRequest::decode_all(head, schema.columns().len(), "the request")?;
        let request = RowRequest::decode_all(body, "the request")?;
        let pieces = windows.len().max(1).saturating_mul(request.len());
        if pieces > MAX_ANSWER_PIECES {
            return Err(Error::invalid(format!(
                "{} windows of {} trajectories are {pieces} pieces; the limit of a request is {MAX_ANSWER_PIECES}; request fewer at a time",
                windows.len(),
                request.len()
            )));
        }
        let rows =
            request.iter().map(|row| self.requested_row(row)).collect::<Result<Vec<RequestedRow>>>()?;
        let mut bytes = 0_u64;
        for window in &windows {
            let step = schema.step_bytes(window.column);
            for row in &rows {
                let count = span(row.step, row.length, window.offset, window.length, Pad::Head).count;
                bytes = bytes.saturating_add(count.saturating_mul(step));
            }
        }
        if bytes > MAX_ANSWER_BYTES {
            return Err(Error::invalid(format!(
                "an answer of {bytes} bytes; the limit is {MAX_ANSWER_BYTES}; request fewer steps at a time"
            )));
        }
        Ok((windows, rows, bytes))
    }

    fn requested_row(&self, request: &RowRequest) -> Result<RequestedRow> {
        let pins = self.rows.get(&request.index).map(|(row, _)| row);
        let Some(row) = pins.filter(|row| row.generation == request.generation && request.step <= row.length)
        else {
            return Err(Error::not_found(format!(
                "step {} of trajectory {} of generation {}, which the connection has not pinned, or which has fewer steps",
                request.step, request.index, request.generation
            )));
        };
        let local = self.reader.shard().local(row.index)?;
        Ok(RequestedRow { local, step: request.step, length: row.length })
    }

    /// Returns the steps of a window, in place.
    fn steps(&self, window: &WindowRequest, row: &RequestedRow) -> &[u8] {
        let found = span(row.step, row.length, window.offset, window.length, Pad::Head);
        let step = self.reader.schema().step_bytes(window.column);
        let (start, _) = self.reader.segment().row(window.column, row.local);
        // SAFETY: the steps are below the row's length, so they are within the table, which the reader keeps alive. The
        // row is pinned while the slice is borrowed, so nothing writes to it.
        unsafe {
            std::slice::from_raw_parts(start.add(narrow(found.begin * step)), narrow(found.count * step))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The time limit of a call is a limit on the time without progress, so a call must not have many bytes.
        #[test]
        fn calls_have_few_bytes_and_together_all_of_them(
            sizes in proptest::collection::vec(prop_oneof![0_usize..4, 0_usize..3_000_000], 0..8),
            small in 0_usize..2_500,
        ) {
            let block: Vec<u8> = (0..3_000_000_u32).map(|at| u8::try_from(at % 251).unwrap()).collect();
            let sizes: Vec<usize> = sizes.into_iter().chain(std::iter::repeat_n(3, small)).collect();
            let pieces: Vec<&[u8]> = sizes.iter().map(|&size| &block[..size]).collect();
            let mut sent = Vec::new();
            let (mut next, mut calls) = (pieces.iter().copied(), Calls::default());
            loop {
                let call = calls.next(|| next.next());
                if call.is_empty() {
                    break;
                }
                prop_assert!(call.len() <= PIECES);
                prop_assert!(call.iter().map(|piece| piece.len()).sum::<usize>() <= BYTES);
                call.iter().for_each(|piece| sent.extend_from_slice(piece));
            }
            prop_assert!(sent == pieces.concat());
        }
    }
}
