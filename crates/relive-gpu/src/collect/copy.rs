//! Copies windows from tables into a batch, on CPUs.
#![expect(unsafe_code, reason = "rows of the tables are copied by address; each block says why it is sound")]

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use relive_threads::Pool;

use super::plan::{BatchPlan, ColumnPlan, RowPlan};
use super::window::{self, Span};
use crate::bytes::{narrow, wide};
use crate::memory::segment::Segment;

/// The minimum number of bytes in a part: waking another thread for less takes longer than copying.
const PART_BYTES: u64 = 96 << 10;
/// The number of parts per thread, chosen so that one delayed thread delays the job only briefly.
const PARTS_PER_THREAD: usize = 4;
/// The number of rows for which spans are kept at a time.
const BLOCK: usize = 64;
/// The number of bytes that are prefetched ahead of the copy: enough for all memory requests that can be in flight, but
/// few enough to stay in the cache.
const AHEAD_BYTES: usize = 8 << 10;
/// The largest number of bytes of a row that are prefetched; the processor itself prefetches the following ones.
const ROW_AHEAD_BYTES: usize = 2 << 10;
const CACHE_LINE: usize = 64;

/// The output of a collection.
pub(super) struct Target {
    /// The batch's memory, of the plan's size.
    pub(super) start: *mut u8,
    /// Valid steps per window and row, of the plan's size.
    pub(super) valid: *mut u32,
}

// SAFETY: the parts of a job write to disjoint ranges of rows.
unsafe impl Sync for Target {}
// SAFETY: this is the memory of a batch. Any thread may write to it, one at a time except for the parts of a job.
unsafe impl Send for Target {}

/// Copies all windows of all rows. Returns the number of bytes read from the tables.
///
/// The rows must be pinned; the target must match the plan and be used exclusively.
pub(super) fn copy(
    segment: &Segment,
    plan: &BatchPlan,
    rows: &[RowPlan],
    target: &Target,
    pool: &Pool,
) -> u64 {
    let copied = AtomicU64::new(0);
    let parts = parts(plan, rows.len(), pool.threads());
    let size = rows.len().div_ceil(parts.max(1));
    pool.run(parts, &|part| {
        let range = (part * size).min(rows.len())..((part + 1) * size).min(rows.len());
        let blocks = range.clone().step_by(BLOCK).map(|begin| begin..(begin + BLOCK).min(range.end));
        let bytes = blocks.map(|block| copy_block(segment, plan, rows, block, target)).sum();
        copied.fetch_add(bytes, Ordering::Relaxed);
    });
    copied.into_inner()
}

fn parts(plan: &BatchPlan, rows: usize, threads: usize) -> usize {
    let worth = narrow(wide(rows) * plan.row_bytes() / PART_BYTES).max(1);
    let most = if threads == 1 { 1 } else { threads * PARTS_PER_THREAD };
    worth.min(most).min(rows)
}

/// Copies all windows of a few rows, column by column. Most columns have the same window, so its spans are computed
/// only once.
fn copy_block(
    segment: &Segment,
    plan: &BatchPlan,
    rows: &[RowPlan],
    block: Range<usize>,
    target: &Target,
) -> u64 {
    let mut copied = 0;
    let mut spans = [Span { begin: 0, count: 0, at: 0 }; BLOCK];
    let mut found: Option<&ColumnPlan> = None;
    for (window, column) in plan.columns.iter().enumerate() {
        let alike = found.is_some_and(|other| {
            (other.offset, other.length, other.pad) == (column.offset, column.length, column.pad)
        });
        if !alike {
            for (span, row) in spans.iter_mut().zip(&rows[block.clone()]) {
                *span = window::span(row.step, row.length, column.offset, column.length, column.pad);
            }
            found = Some(column);
        }
        let (_, table) = segment.table(column.column);
        // SAFETY: the window's output starts there, with one place per row of the plan.
        let valid = unsafe { target.valid.add(window * narrow(plan.rows)) };
        let output = target.start.wrapping_add(narrow(column.output_at));
        copied += copy_column(column, table, &rows[block.clone()], &spans, output, valid);
    }
    copied
}

fn window_bytes(column: &ColumnPlan) -> usize {
    narrow(column.length * column.output_step_bytes)
}

/// Returns the number of rows that are prefetched ahead of the copy.
fn rows_ahead(column: &ColumnPlan) -> usize {
    let row_bytes = narrow(column.length * column.step_bytes);
    AHEAD_BYTES / row_bytes.clamp(CACHE_LINE, ROW_AHEAD_BYTES)
}

/// Copies one window of a few rows to their places in the column that starts at `output`.
fn copy_column(
    column: &ColumnPlan,
    table: *const u8,
    rows: &[RowPlan],
    spans: &[Span],
    output: *mut u8,
    valid: *mut u32,
) -> u64 {
    let mut copied = 0;
    let window_bytes = window_bytes(column);
    let ahead = rows_ahead(column).min(rows.len());
    for (row, span) in rows[..ahead].iter().zip(spans) {
        prefetch(column, table, row.row, span);
    }
    for (at, (row, span)) in rows.iter().zip(spans).enumerate() {
        if let Some(next) = rows.get(at + ahead) {
            prefetch(column, table, next.row, &spans[at + ahead]);
        }
        let place = narrow(row.at);
        // SAFETY: the plan's memory has a window for each of its rows, and only this part uses the window of this row.
        let window =
            unsafe { std::slice::from_raw_parts_mut(output.add(place * window_bytes), window_bytes) };
        // SAFETY: as above, with one place per row.
        unsafe { valid.add(place).write(u32::try_from(span.count).unwrap_or(u32::MAX)) };
        let bytes = narrow(span.count * column.step_bytes);
        let source = source(column, row.row, span.begin);
        // SAFETY: the steps are below the row's length, so they are within the table; the row is pinned, so nothing
        // writes to it.
        let steps = unsafe { std::slice::from_raw_parts(table.add(source), bytes) };
        if bytes == window_bytes && column.convert.is_none() {
            window.copy_from_slice(steps);
        } else {
            fill(column, window, narrow(span.at * column.output_step_bytes), steps);
        }
        copied += wide(bytes);
    }
    copied
}

fn source(column: &ColumnPlan, row: u64, step: u64) -> usize {
    narrow(row * column.stride + step * column.step_bytes)
}

/// Fills a window with padding, steps, and padding again.
pub(super) fn fill(column: &ColumnPlan, window: &mut [u8], at: usize, steps: &[u8]) {
    let bytes = steps.len() / narrow(column.step_bytes) * narrow(column.output_step_bytes);
    let (before, rest) = window.split_at_mut(at);
    let (middle, after) = rest.split_at_mut(bytes);
    match column.convert {
        None => middle.copy_from_slice(steps),
        Some(convert) => convert.run(steps, middle),
    }
    for padding in [before, after] {
        if !padding.is_empty() {
            pad(column.pad_element(), padding);
        }
    }
}

fn pad(element: &[u8], padding: &mut [u8]) {
    if element.iter().all(|&byte| byte == element[0]) {
        padding.fill(element[0]);
        return;
    }
    for place in padding.chunks_exact_mut(element.len()) {
        place.copy_from_slice(element);
    }
}

/// Prefetches a row's memory.
fn prefetch(column: &ColumnPlan, table: *const u8, row: u64, span: &Span) {
    let begin = table.wrapping_add(source(column, row, span.begin));
    let bytes = narrow(span.count * column.step_bytes).min(ROW_AHEAD_BYTES);
    relive_prefetch::prefetch_bytes(begin, bytes);
}
