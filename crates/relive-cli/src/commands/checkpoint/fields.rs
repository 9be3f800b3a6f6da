//! The fields of a checkpoint in documents for programs. `docs/cli.md` lists them.

use relive_checkpoint::{CheckpointInfo, CheckpointSummary, Loss};
use serde::Serialize;

#[derive(Serialize)]
pub(super) struct InfoFields<'a> {
    location: &'a str,
    format: &'static str,
    written_at_s: Option<f64>,
    own_bytes: u64,
    #[serde(flatten)]
    summary: Option<SummaryFields<'a>>,
    error: Option<String>,
}

#[derive(Serialize)]
pub(super) struct SummaryFields<'a> {
    software: Option<&'a str>,
    num_tables: u64,
    items: u64,
    chunks: Option<u64>,
    chunk_bytes: Option<u64>,
    total_bytes: u64,
}

#[derive(Serialize)]
pub(super) struct LossFields<'a> {
    file: &'a str,
    offset: u64,
    table: Option<&'a str>,
    items: u64,
    reason: &'a str,
}

pub(super) fn info_fields(info: &CheckpointInfo) -> InfoFields<'_> {
    InfoFields {
        location: &info.location,
        format: info.format.name(),
        written_at_s: info.written_at.map(|time| time.as_nanos() as f64 / 1e9),
        own_bytes: info.size_bytes,
        summary: info.summary.as_ref().ok().map(summary_fields),
        error: info.summary.as_ref().err().map(ToString::to_string),
    }
}

pub(super) fn summary_fields(summary: &CheckpointSummary) -> SummaryFields<'_> {
    SummaryFields {
        software: summary.software.as_deref(),
        num_tables: summary.tables.len() as u64,
        items: summary.items,
        chunks: summary.chunks,
        chunk_bytes: summary.chunk_bytes,
        total_bytes: summary.total_bytes,
    }
}

pub(super) fn loss_fields(loss: &Loss) -> LossFields<'_> {
    LossFields {
        file: &loss.file,
        offset: loss.offset,
        table: loss.table.as_deref(),
        items: loss.items,
        reason: &loss.reason,
    }
}
