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
    with_chosen(location, |format, checkpoint| load_one(format, checkpoint, options))
}

/// Calls `act` with the checkpoint that a location names. If that checkpoint is damaged and no longer the newest one of
/// its root, calls `act` once more with the newest one: a server may have removed the former in the meantime.
pub(super) fn with_chosen<T>(
    location: &str,
    act: impl Fn(Format, &str) -> Result<T, Error>,
) -> Result<T, Error> {
    let (format, checkpoint) = chosen(location)?;
    match act(format, &checkpoint) {
        Err(error) if error.kind() == ErrorKind::Damaged => match chosen(location) {
            Ok((format, newer)) if newer != checkpoint => act(format, &newer),
            _ => Err(error),
        },
        done => done,
    }
}

/// Returns the checkpoint that a location names, which for a root is its newest checkpoint.
pub(super) fn chosen(location: &str) -> Result<(Format, String), Error> {
    chosen_if_any(location)?.ok_or_else(|| none_there(location))
}

/// Like [`chosen`], but returns `None` for a root without checkpoints.
pub(super) fn chosen_if_any(location: &str) -> Result<Option<(Format, String)>, Error> {
    match locate(location)? {
        Location::Checkpoint { format, .. } => Ok(Some((format, trimmed(location).to_owned()))),
        Location::Root(root) => Ok(newest(&root)?.map(|info| (info.format, info.location))),
    }
}

pub(super) fn load_one(format: Format, checkpoint: &str, options: &LoadOptions) -> Result<Loaded, Error> {
    match format {
        Format::Reverb => reverb::Store::load_with(&path_of(checkpoint), options),
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
            with_chosen(root, |format, checkpoint| {
                tried.lock().unwrap().push(checkpoint.to_owned());
                if tried.lock().unwrap().len() <= saves {
                    save(&store);
                }
                load_one(format, checkpoint, &LoadOptions::new())
            })
        };
        let second = load(1).unwrap().location;
        assert_eq!(*tried.lock().unwrap(), [first, second]);
        tried.lock().unwrap().clear();
        assert_eq!(load(9).unwrap_err().kind(), ErrorKind::Damaged, "one more attempt is enough");
        tried.lock().unwrap().clear();
        std::fs::write(store.latest().unwrap().unwrap(), "damaged").unwrap();
        assert_eq!(load(0).unwrap_err().kind(), ErrorKind::Damaged);
        assert_eq!(tried.lock().unwrap().len(), 1);
    }
}
