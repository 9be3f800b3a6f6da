//! Locates the workspace.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use cargo_metadata::{Metadata, MetadataCommand};

/// Returns the folder of the workspace's `Cargo.toml`.
pub(crate) fn root() -> Result<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = here.parent().context("the xtask crate has no parent folder")?;
    Ok(root.to_path_buf())
}

/// Returns the workspace's own packages and their declared dependencies.
pub(crate) fn metadata(root: &Path) -> Result<Metadata> {
    MetadataCommand::new()
        .current_dir(root)
        .no_deps()
        .exec()
        .context("`cargo metadata` could not read the workspace")
}
