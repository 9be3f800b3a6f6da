//! Tests recorded, damaged and hostile messages and chunks.

#[expect(unreachable_pub, reason = "the fuzz crate's own library")]
#[path = "../../../../fuzz/src/lib.rs"]
mod checks;
mod codecs;
#[allow(unreachable_pub, clippy::unwrap_used, reason = "helpers of tests")]
mod common;
mod corpus;
mod fixtures;
mod framing;
mod hostile;
mod item_runs;
mod samples;
