//! The text files of the repository.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

const KINDS: [&str; 7] = ["rs", "py", "toml", "md", "proto", "sh", "yml"];

/// The folders of build outputs.
const BUILT: [&str; 3] = ["target", "corpus", "__pycache__"];

/// Returns (path from the root with `/`, text) of every hand-written file, ordered by path.
pub(super) fn texts(root: &Path) -> Result<Vec<(String, String)>> {
    let mut texts = Vec::new();
    collect(root, "", &mut texts)?;
    texts.sort();
    Ok(texts)
}

fn collect(folder: &Path, prefix: &str, texts: &mut Vec<(String, String)>) -> Result<()> {
    let context = || format!("cannot read {}", folder.display());
    for entry in fs::read_dir(folder).with_context(context)? {
        let entry = entry.with_context(context)?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let path = format!("{prefix}{name}");
        let kind = entry.file_type().with_context(context)?;
        if kind.is_dir() && !name.starts_with('.') && !BUILT.contains(&name.as_str()) {
            collect(&entry.path(), &format!("{path}/"), texts)?;
        } else if kind.is_file() && name.rsplit_once('.').is_some_and(|(_, end)| KINDS.contains(&end)) {
            let text = fs::read_to_string(entry.path()).with_context(|| format!("cannot read {path}"))?;
            texts.push((path, text));
        }
    }
    Ok(())
}
