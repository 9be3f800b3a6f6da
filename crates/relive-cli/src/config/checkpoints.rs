//! The keys about checkpoints.

use super::document::Document;
use super::place::{Place, ValueError};
use crate::checkpoints::Keys;
use crate::units::parse_duration;

/// Returns the checkpoint keys of the document; `root` is its top level.
pub(super) fn keys(document: &Document, root: &Place) -> Result<Keys, ValueError> {
    let every = document.checkpoint_every.as_deref().map(parse_duration).transpose();
    let keep = document.checkpoint_keep;
    if keep == Some(0) {
        return Err(root
            .key("checkpoint_keep")
            .value_error("must be at least 1: the newest checkpoint is always kept"));
    }
    Ok(Keys {
        dir: document.checkpoint_dir.clone(),
        every: every.map_err(|reason| root.key("checkpoint_every").value_error(reason))?,
        keep,
        format: document.checkpoint_format,
        config_from: document.config_from,
        at_shutdown: document.checkpoint_at_shutdown,
    })
}
