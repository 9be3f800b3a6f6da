//! Alternatives to a damaged newest checkpoint.

use super::list::list;
use super::root::Root;
use crate::{Catalog, CheckpointInfo, Error, Format};

/// The checkpoint to load instead of the newest one, to the extent that it can be determined without reading all of the
/// older checkpoints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Older {
    /// The path or URL of the newest older checkpoint that does not need the damaged file.
    Apart(String),
    /// Older checkpoints exist, but all of them also need that file, so they may also be damaged.
    Sharing,
    /// No older checkpoint can be read.
    None,
}

impl Older {
    /// Returns advice for an error message. `load_as` turns the location of a checkpoint into the option that loads it,
    /// `root` is the location of the checkpoints, and `is_salvaging` states whether salvaging has already been tried.
    #[must_use]
    pub fn advice(&self, root: &str, is_salvaging: bool, load_as: impl FnOnce(&str) -> String) -> String {
        match self {
            Self::Apart(older) => {
                format!("{} loads an older one, which does not need that file", load_as(older))
            }
            Self::Sharing => {
                format!(
                    "older ones also need that file: `relive checkpoint verify {root}` shows which are intact"
                )
            }
            Self::None if is_salvaging => {
                format!("there is no older one; to start with empty tables, move it out of {root}")
            }
            Self::None => "there is no older one".to_owned(),
        }
    }
}

impl Root {
    /// Returns the alternatives to the newest checkpoint, which cannot be loaded because of `damage`.
    #[must_use]
    pub fn older(&self, damage: &Error) -> Older {
        let Ok(mut found) = list(self.location()) else { return Older::None };
        found.pop();
        found.retain(|info| info.summary.is_ok());
        match found.iter().rfind(|info| !damage.file().is_some_and(|file| needs(info, file))) {
            Some(info) => Older::Apart(info.location.clone()),
            None if found.is_empty() => Older::None,
            None => Older::Sharing,
        }
    }
}

/// Returns whether a checkpoint needs this file. An unreadable checkpoint is assumed to need it.
fn needs(info: &CheckpointInfo, file: &str) -> bool {
    let refers = || Catalog::open(&info.location).and_then(|catalog| catalog.refers_to(file)).unwrap_or(true);
    file.starts_with(&info.location) || (info.format == Format::Relive && refers())
}
