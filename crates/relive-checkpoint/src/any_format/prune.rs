//! Removes old checkpoints of both formats.

use super::list::list;
use super::load::path_of;
use super::root::lock_folder_of;
use crate::{Catalog, CheckpointInfo, Error, Format, Pruned, reverb};

/// Removes all checkpoints in the folder or bucket at `root` except the newest `keep` of both formats together, and
/// removes all files to which no remaining Relive checkpoint refers. Other files are kept. So are checkpoints in
/// dm-reverb's format whose names are not times; they do not count toward `keep`. If the root has Relive checkpoints, at
/// least one of them is kept.
///
/// # Errors
/// `InUse` if a server is writing there; `Damaged` if a remaining checkpoint cannot be read, because its references are
/// then unknown; `Io` if the storage refuses an operation.
pub fn prune(root: &str, keep: usize) -> Result<Pruned, Error> {
    let _lock = lock_folder_of(root)?;
    let mut found = list(root)?;
    found.retain(|info| info.format == Format::Relive || reverb::Store::may_remove(&path_of(&info.location)));
    let old = found.len().saturating_sub(keep.max(1));
    let (removed, kept) = found.split_at(old);
    let of = |format: Format| move |info: &&CheckpointInfo| info.format == format;
    let mut pruned = Pruned::default();
    // A root without Relive checkpoints belongs to dm-reverb alone, so no lock file may be created there.
    if found.iter().any(|info| info.format == Format::Relive) {
        pruned = Catalog::open(root)?.prune(kept.iter().filter(of(Format::Relive)).count())?;
    }
    for info in removed.iter().filter(of(Format::Reverb)) {
        reverb::Store::remove(&path_of(&info.location))?;
        pruned.checkpoints.push(info.location.clone());
        pruned.bytes += info.size_bytes;
    }
    Ok(pruned)
}
