//! TensorBoard's event files.
//!
//! A file is a series of records: the length of the data (u64, little endian), its checksum, the data, its
//! checksum. A checksum is CRC-32C, rotated right by 15 bits, plus 0xa282ead8. The data is a protobuf
//! `Event`: wall_time (1, double), step (2, int64), and either file_version (3, string) or summary (5). A
//! summary has values (1) with tag (1, string) and simple_value (2, float).

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::Report;
use super::{Logger, Mark};
use crate::{Result, RlError};

/// Writes `events.out.tfevents…` in a folder. Tags look like `actor/episode_return`. Steps are environment
/// steps, or learner steps in a run that learns from data.
#[derive(Debug)]
pub struct TensorBoardLogger {
    path: PathBuf,
    file: BufWriter<File>,
}

impl TensorBoardLogger {
    /// # Errors
    /// The folder or the file cannot be created.
    pub fn new(folder: impl AsRef<Path>) -> Result<TensorBoardLogger> {
        let folder = folder.as_ref();
        std::fs::create_dir_all(folder).map_err(|error| RlError::file(folder, error))?;
        let now = since_epoch();
        // Each run has its own file; TensorBoard reads all of the files.
        let name = format!("events.out.tfevents.{}.{}.relive", now.as_micros(), std::process::id());
        let path = folder.join(name);
        let file = File::create(&path).map_err(|error| RlError::file(&path, error))?;
        let mut logger = TensorBoardLogger { path, file: BufWriter::new(file) };
        logger.record(&event(now, 0, 3, b"brain.Event:2"))?;
        Ok(logger)
    }

    fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("."))
    }

    fn record(&mut self, data: &[u8]) -> Result<()> {
        let length = (data.len() as u64).to_le_bytes();
        let parts = [&length[..], &masked_crc(&length), data, &masked_crc(data)];
        let written = parts.iter().try_for_each(|part| self.file.write_all(part));
        written.map_err(|error| RlError::file(&self.path, error))
    }
}

impl Logger for TensorBoardLogger {
    #[expect(clippy::cast_possible_truncation, reason = "TensorBoard's scalars are float32")]
    fn write(&mut self, report: &Report) -> Result<()> {
        let mut summary = Vec::new();
        for (name, value) in report.values() {
            let mut scalar = Vec::new();
            put_bytes(&mut scalar, 1, format!("{}/{name}", report.label()).as_bytes());
            scalar.push(2 << 3 | FIXED_32);
            scalar.extend((value as f32).to_le_bytes());
            put_bytes(&mut summary, 1, &scalar);
        }
        self.record(&event(since_epoch(), report.position(), 5, &summary))
    }

    fn flush(&mut self) -> Result<()> {
        self.file.flush().map_err(|error| RlError::file(&self.path, error))
    }

    fn kind(&self) -> Option<&'static str> {
        Some("events")
    }

    fn mark(&mut self) -> Result<Mark> {
        self.flush()?;
        Mark::of("events", self.folder(), &is_own)
    }

    /// Truncates only earlier files, because the logger's own file is still empty.
    fn truncate(&mut self, mark: &Mark) -> Result<()> {
        let own = self.path.file_name();
        mark.truncate(self.folder(), &|name| is_own(name) && Some(name.as_ref()) != own)
    }
}

/// Returns whether a file name belongs to such a logger.
fn is_own(name: &str) -> bool {
    name.starts_with("events.out.tfevents.") && name.ends_with(".relive")
}

const VARINT: u8 = 0;
const FIXED_64: u8 = 1;
const BYTES: u8 = 2;
const FIXED_32: u8 = 5;

/// Returns an event with one part: the field with the given number.
fn event(time: Duration, step: u64, field: u8, part: &[u8]) -> Vec<u8> {
    let mut event = vec![1 << 3 | FIXED_64];
    event.extend(time.as_secs_f64().to_le_bytes());
    event.push(2 << 3 | VARINT);
    put_varint(&mut event, step);
    put_bytes(&mut event, field, part);
    event
}

fn put_bytes(out: &mut Vec<u8>, field: u8, bytes: &[u8]) {
    out.push(field << 3 | BYTES);
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

#[expect(clippy::cast_possible_truncation, reason = "seven bits at a time")]
fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn masked_crc(data: &[u8]) -> [u8; 4] {
    crc32c::crc32c(data).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes()
}

fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_matches_the_documented_encoding() {
        // Encoded manually for wall_time 1.0, step 300 and the scalar "a/b" of 0.5.
        let mut scalar = Vec::new();
        put_bytes(&mut scalar, 1, b"a/b");
        scalar.push(2 << 3 | FIXED_32);
        scalar.extend(0.5_f32.to_le_bytes());
        let mut summary = Vec::new();
        put_bytes(&mut summary, 1, &scalar);
        let expected = b"\x09\0\0\0\0\0\0\xf0\x3f\x10\xac\x02\x2a\x0c\x0a\x0a\x0a\x03a/b\x15\0\0\0\x3f";
        assert_eq!(event(Duration::from_secs(1), 300, 5, &summary), expected);
    }

    #[test]
    fn checksums_are_masked_as_in_the_format() {
        // The length 0x18 of a file's first record, and the four bytes that follow it in real files.
        assert_eq!(masked_crc(&0x18_u64.to_le_bytes()), [0xa3, 0x7f, 0x4b, 0x22]);
    }
}
