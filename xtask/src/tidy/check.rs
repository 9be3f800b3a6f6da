//! Runs every rule over the workspace.

use std::path::Path;

use anyhow::{Result, bail};

use super::finding::Finding;
use super::source::Source;
use super::{absences, cycles, layers, packages, prose, reached, roots, sizes, source, walk, words};
use crate::workspace;

/// Fails if a rule is broken, after printing all findings.
pub(crate) fn run(root: &Path) -> Result<()> {
    let findings = findings(root)?;
    for finding in &findings {
        eprintln!("tidy: {finding}");
    }
    if findings.is_empty() {
        println!("tidy: all rules hold");
        return Ok(());
    }
    bail!("tidy: {} findings", findings.len())
}

fn findings(root: &Path) -> Result<Vec<Finding>> {
    let packages = packages::read(&workspace::metadata(root)?);
    let texts = walk::texts(root)?;
    let mut sources = Vec::new();
    for (path, text) in texts.iter().filter(|(path, _)| path.ends_with(".rs")) {
        sources.push(Source::parse(path, text)?);
    }
    source::mark_test_files(&mut sources);
    let mut findings = layers::check(&packages);
    findings.extend(absences::check(&packages, &sources));
    findings.extend(cycles::check(&sources));
    findings.extend(reached::check(&sources));
    findings.extend(sizes::check(&sources));
    findings.extend(sizes::check_short(&sources, &texts));
    findings.extend(roots::check(&texts)?);
    findings.extend(prose::check(&texts));
    findings.extend(words::check(&sources, &texts));
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_workspace_is_tidy() {
        let findings = findings(&workspace::root().unwrap()).unwrap();
        let lines: Vec<String> = findings.iter().map(ToString::to_string).collect();
        assert!(lines.is_empty(), "{}", lines.join("\n"));
    }
}
