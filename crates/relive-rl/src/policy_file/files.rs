//! Files that are there whole or not at all.

use std::path::Path;

use crate::{Result, RlError};

/// Writes a file by way of another one beside it. Links are followed: what they lead to is replaced. What is no file, as a device or a
/// pipe, is written to as it is.
pub(super) fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    written(path, bytes).map_err(|error| RlError::file(path, error))
}

fn written(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if std::fs::metadata(&path).is_ok_and(|metadata| !metadata.is_file()) {
        return std::fs::write(&path, bytes);
    }
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    std::fs::write(&partial, bytes).and_then(|()| std::fs::rename(&partial, &path))
}
