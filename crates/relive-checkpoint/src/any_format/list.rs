//! The checkpoints of a root.

use super::location::{local_path, trimmed};
use crate::reverb;
use crate::{Catalog, CheckpointInfo, Error, Format};

/// Returns all checkpoints of both formats in the folder or bucket at `root`, oldest first, or none if it does not
/// exist.
///
/// Relive's newest checkpoint is the one with the highest number, and dm-reverb's newest is the one with the latest
/// time. Of these two, the one with the later time is the newest of all; a Relive checkpoint with an unreadable time
/// counts as the newer one. dm-reverb's checkpoints whose names are not times come before all others: a copy of an old
/// checkpoint has a late modification time, but must not pass for the newest checkpoint.
///
/// # Errors
/// The root cannot be listed. If a checkpoint is unreadable, the error is in its [`CheckpointInfo::summary`].
pub fn list(root: &str) -> Result<Vec<CheckpointInfo>, Error> {
    let root = trimmed(root);
    let mut ours = Catalog::open(root)?.checkpoints()?.into_iter().peekable();
    let [mut found, theirs] = match local_path(root) {
        Some(path) => reverb::Store::list(&path)?,
        None => <[Vec<CheckpointInfo>; 2]>::default(),
    };
    // Both lists are already sorted, each by its own criterion.
    for theirs in theirs {
        let is_older =
            |ours: &CheckpointInfo| ours.written_at.is_some_and(|ours| Some(ours) < theirs.written_at);
        while let Some(older) = ours.next_if(is_older) {
            found.push(older);
        }
        found.push(theirs);
    }
    found.extend(ours);
    Ok(found)
}

/// Returns the format and location of the newest checkpoint of a root.
pub(super) fn newest(root: &str) -> Result<Option<(Format, String)>, Error> {
    Ok(list(root)?.pop().map(|info| (info.format, info.location)))
}
