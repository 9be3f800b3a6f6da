//! Windows of rows in another machine's memory, written into a batch as they arrive.
#![expect(unsafe_code, reason = "rows of a batch are written by address; the block says why it is sound")]

use std::ops::Range;

use super::copy::{Target, fill};
use super::plan::{BatchPlan, ColumnPlan, RowPlan};
use super::window::{Span, span};
use crate::bytes::narrow;
use crate::error::{Error, Result};
use crate::peers::messages::{MAX_ANSWER_BYTES, MAX_ANSWER_PIECES, RowRequest, WindowRequest};
use crate::peers::{Body, Lease, PendingAnswer};

/// Rows of a batch that are on another machine, with the parameters of their requests and their destination. One
/// request covers as many rows as the limits on an answer's bytes and pieces allow.
pub(super) struct Remote<'a> {
    lease: &'a Lease,
    plan: &'a BatchPlan,
    windows: Vec<WindowRequest>,
    rows: Vec<(RowPlan, RowRequest)>,
    /// The number of rows requested so far.
    next: usize,
}

/// The maximum number of windows of rows in one request. Tests need several requests for a small batch.
const PIECES: usize = if cfg!(test) { 16 } else { MAX_ANSWER_PIECES };

/// A request in flight, and its rows.
pub(super) struct InFlight {
    pending: PendingAnswer,
    part: Part,
}

/// The rows of one request, and the number of bytes of the answer.
struct Part {
    rows: Range<usize>,
    bytes: u64,
}

impl<'a> Remote<'a> {
    pub(super) fn new(lease: &'a Lease, plan: &'a BatchPlan, rows: Vec<(RowPlan, RowRequest)>) -> Self {
        let pending = |column: &ColumnPlan| WindowRequest {
            column: column.column,
            offset: column.offset,
            length: column.length,
        };
        let windows = plan.columns.iter().map(pending).collect();
        Self { lease, plan, windows, rows, next: 0 }
    }

    /// Requests the first rows. Returns `None` if there are none.
    pub(super) async fn ask(&mut self) -> Result<Option<InFlight>> {
        let Some((part, rows)) = self.next_part()? else { return Ok(None) };
        let pending = self.lease.read(&self.windows, &rows).await?;
        Ok(Some(InFlight { pending, part }))
    }

    /// Returns the next rows to request, or `None` if all rows have been requested.
    fn next_part(&mut self) -> Result<Option<(Part, Vec<RowRequest>)>> {
        let first = self.next;
        let (mut count, mut bytes) = (0, 0);
        let most = (PIECES / self.windows.len().max(1)).max(1);
        for (row, _) in self.rows[first..].iter().take(most) {
            let more: u64 = self.plan.columns.iter().map(|column| span_bytes(column, row)).sum();
            if count > 0 && bytes + more > MAX_ANSWER_BYTES {
                break;
            }
            if more > MAX_ANSWER_BYTES {
                return Err(Error::invalid(format!(
                    "a row of {} has {more} bytes; the limit over a network is {MAX_ANSWER_BYTES}; shorten the windows",
                    self.lease.what()
                )));
            }
            (count, bytes) = (count + 1, bytes + more);
        }
        if count == 0 {
            return Ok(None);
        }
        self.next = first + count;
        let requests = self.rows[first..self.next].iter().map(|(_, request)| *request).collect();
        Ok(Some((Part { rows: first..self.next, bytes }, requests)))
    }

    /// Writes the rows of the given request, and then of all following requests, into the batch. Returns the number of
    /// received bytes.
    pub(super) async fn receive(&mut self, first: Option<InFlight>, target: &mut Target) -> Result<u64> {
        let Some(InFlight { mut pending, mut part }) = first else { return Ok(0) };
        let mut bytes = 0;
        loop {
            self.take(&mut pending, &part, target).await?;
            bytes += part.bytes;
            let Some((next, rows)) = self.next_part()? else { return Ok(bytes) };
            pending.read_more(&self.windows, &rows).await?;
            part = next;
        }
    }

    async fn take(&self, pending: &mut PendingAnswer, part: &Part, target: &mut Target) -> Result<()> {
        let rows = &self.rows[part.rows.clone()];
        let mut body = pending.rows(part.bytes).await?;
        let mut scratch = Vec::new();
        for (window, column) in self.plan.columns.iter().enumerate() {
            for (row, _) in rows {
                let span = span_of(column, row);
                let place = place_of(target, self.plan, window, row, &span);
                one(column, &span, place, &mut body, &mut scratch).await?;
            }
        }
        Ok(())
    }
}

/// Reads the steps of one window.
async fn one(
    column: &ColumnPlan,
    span: &Span,
    place: &mut [u8],
    body: &mut Body<'_>,
    scratch: &mut Vec<u8>,
) -> Result<()> {
    let bytes = narrow(span.count * column.step_bytes);
    if bytes == place.len() && column.convert.is_none() {
        return body.read(place).await;
    }
    scratch.resize(bytes, 0);
    body.read(scratch).await?;
    fill(column, place, narrow(span.at * column.output_step_bytes), scratch);
    Ok(())
}

fn span_of(column: &ColumnPlan, row: &RowPlan) -> Span {
    span(row.step, row.length, column.offset, column.length, column.pad)
}

fn span_bytes(column: &ColumnPlan, row: &RowPlan) -> u64 {
    span_of(column, row).count * column.step_bytes
}

/// Returns a row's place in a window, and records its valid steps.
fn place_of<'a>(
    target: &'a mut Target,
    plan: &BatchPlan,
    window: usize,
    row: &RowPlan,
    span: &Span,
) -> &'a mut [u8] {
    let column = &plan.columns[window];
    let bytes = narrow(column.length * column.output_step_bytes);
    let at = narrow(row.at);
    assert!(row.at < plan.rows, "row {at} of a batch of {} rows", plan.rows);
    // SAFETY: the target matches the plan, which has a place for each of its rows in each window, and is borrowed
    // exclusively.
    unsafe {
        let valid = target.valid.add(window * narrow(plan.rows) + at);
        valid.write(u32::try_from(span.count).unwrap_or(u32::MAX));
        std::slice::from_raw_parts_mut(target.start.add(narrow(column.output_at) + at * bytes), bytes)
    }
}
