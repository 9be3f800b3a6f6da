//! A lock that allows only one sweep at a time to use a folder.

use std::fs::{File, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::Path;

use crate::failure::{Failure, Kind, Result};

/// The file that a sweep keeps locked.
const LOCK: &str = "relive.lock";

/// The maximum number of bytes to read from the note in this file.
const MAX_NOTE_BYTES: u64 = 256;

/// Locks a folder for this sweep until it is dropped, or the process ends.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

impl Lock {
    /// # Errors
    /// Another sweep is running there.
    pub(super) fn take(folder: &Path) -> Result<Lock> {
        let path = folder.join(LOCK);
        let failed = |error: std::io::Error| {
            Failure::text(Kind::Runtime, format!("--out: {}: {error}", path.display()))
        };
        let options = File::options().read(true).write(true).create(true).truncate(false).open(&path);
        let mut file = options.map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut note = String::new();
                file.take(MAX_NOTE_BYTES).read_to_string(&mut note).map_err(failed)?;
                let (owner, place) = (note.lines().next().unwrap_or("another process"), folder.display());
                let advice = "wait until it is finished, or give another folder";
                return Err(Failure::usage(format!(
                    "--out: another sweep is using {place} ({owner}); {advice}"
                )));
            }
            Err(TryLockError::Error(error)) => {
                tracing::warn!(
                    "cannot lock {}: {error}; make sure that only one sweep writes there",
                    path.display()
                );
            }
        }
        let noted = file.set_len(0).and_then(|()| file.rewind());
        noted.and_then(|()| writeln!(file, "process {}", std::process::id())).map_err(failed)?;
        Ok(Lock { _file: file })
    }
}
