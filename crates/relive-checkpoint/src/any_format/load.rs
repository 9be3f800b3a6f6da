//! Loads a checkpoint as a snapshot.

use std::path::Path;

use super::list::newest;
use super::location::{Location, local_path, locate, trimmed};
use crate::reverb;
use crate::{Catalog, Error, ErrorKind, Format, LoadOptions, Loaded};

/// Loads the checkpoint at `location`, in either format, or the newest one in a folder or bucket. Takes no lock,
/// because a server may be writing there.
///
/// # Errors
/// `Location` if there is no checkpoint; `Damaged` if it is damaged, with the file, place and table; `Io` if the
/// storage refuses an operation.
pub fn load(location: &str, options: &LoadOptions) -> Result<Loaded, Error> {
    let load = |format, checkpoint: &str| load_one(format, checkpoint, options);
    with_chosen(|| named(location), load, Loaded::is_whole)?.ok_or_else(|| none_there(location))
}

/// Calls `act` with the checkpoint that `choose` returns, if any. If that checkpoint is damaged and `choose` now
/// returns another one, calls `act` once more with the latter: a server may have removed the former in the meantime.
///
/// A result that is not whole also shows damage: it has only the intact part of the checkpoint.
pub(super) fn with_chosen<T>(
    choose: impl Fn() -> Result<Option<(Format, String)>, Error>,
    act: impl Fn(Format, &str) -> Result<T, Error>,
    is_whole: impl Fn(&T) -> bool,
) -> Result<Option<T>, Error> {
    let Some((format, checkpoint)) = choose()? else { return Ok(None) };
    let first = act(format, &checkpoint);
    let is_damaged = match &first {
        Ok(done) => !is_whole(done),
        Err(error) => error.kind() == ErrorKind::Damaged,
    };
    let newer = is_damaged.then(|| choose().ok().flatten()).flatten();
    match newer.filter(|(_, newer)| *newer != checkpoint) {
        Some((format, newer)) => {
            // An incomplete snapshot must not take memory while the next one is loaded.
            drop(first);
            act(format, &newer).map(Some)
        }
        None => first.map(Some),
    }
}

/// Returns the checkpoint that a location names, which for a root is its newest checkpoint. Returns `None` for a root
/// without checkpoints.
pub(super) fn named(location: &str) -> Result<Option<(Format, String)>, Error> {
    match locate(location)? {
        Location::Checkpoint { format, .. } => Ok(Some((format, trimmed(location).to_owned()))),
        Location::Root(root) => newest(&root),
    }
}

pub(super) fn load_one(format: Format, checkpoint: &str, options: &LoadOptions) -> Result<Loaded, Error> {
    match format {
        Format::Reverb => reverb::Store::load(&path_of(checkpoint), options),
        Format::Relive => Catalog::open(checkpoint)?.load(options)?.ok_or_else(|| none_there(checkpoint)),
    }
}

/// Returns the local folder of a checkpoint in dm-reverb's format.
pub(super) fn path_of(checkpoint: &str) -> std::path::PathBuf {
    local_path(checkpoint).unwrap_or_else(|| Path::new(checkpoint).to_owned())
}

pub(super) fn none_there(location: &str) -> Error {
    Error::plain(ErrorKind::Location, format!("there is no checkpoint in {location}"))
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use relive_table::{CheckpointProgress, Snapshot, TableConfig, TableCounters, TableSnapshot};

    use super::*;
    use crate::Store;

    fn save(store: &Store) -> String {
        let (counters, items) = (TableCounters::default(), Vec::new());
        let table = TableSnapshot { config: TableConfig::new("t").into(), counters, items, structure: None };
        let snapshot = Snapshot { tables: vec![table], ..Snapshot::default() };
        store.save(snapshot, &CheckpointProgress::default()).unwrap().location
    }

    #[test]
    fn a_checkpoint_that_a_server_removes_before_it_is_read_is_replaced_by_the_newest() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().to_str().unwrap();
        let store = Store::open(root).unwrap().keep(1);
        let (first, tried) = (save(&store), Mutex::new(Vec::new()));
        let load = |saves: usize| {
            let load = |format, checkpoint: &str| {
                tried.lock().unwrap().push(checkpoint.to_owned());
                if tried.lock().unwrap().len() <= saves {
                    save(&store);
                }
                load_one(format, checkpoint, &LoadOptions::new())
            };
            with_chosen(|| named(root), load, Loaded::is_whole)
        };
        let second = load(1).unwrap().unwrap().location;
        assert_eq!(*tried.lock().unwrap(), [first, second]);
        tried.lock().unwrap().clear();
        assert_eq!(load(9).unwrap_err().kind(), ErrorKind::Damaged, "one more attempt is enough");
        tried.lock().unwrap().clear();
        std::fs::write(store.latest().unwrap().unwrap(), "damaged").unwrap();
        assert_eq!(load(0).unwrap_err().kind(), ErrorKind::Damaged);
        assert_eq!(tried.lock().unwrap().len(), 1);
    }
}
