//! `cargo xtask dependencies`: checks that every dependency has a license that `deny.toml` allows, is not banned there,
//! and comes from the usual registry.
//!
//! `cargo deny check` checks these rules and more, in particular advisories, but requires the network and an
//! installation. This command requires neither, so every merge can be checked.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use cargo_metadata::{Metadata, MetadataCommand, Package};
use serde::Deserialize;
use spdx::{Expression, LicenseReq, ParseMode};

use crate::process;

/// The part of `deny.toml` that is checked.
#[derive(Deserialize)]
struct Rules {
    licenses: Licenses,
    bans: Bans,
}

#[derive(Deserialize)]
struct Licenses {
    allow: BTreeSet<String>,
    exceptions: Vec<Exception>,
}

/// Additional licenses that one package may have.
#[derive(Deserialize)]
struct Exception {
    name: String,
    allow: BTreeSet<String>,
}

#[derive(Deserialize)]
struct Bans {
    deny: Vec<Banned>,
}

#[derive(Deserialize)]
struct Banned {
    name: String,
}

pub(crate) fn run(root: &Path) -> Result<()> {
    let text = fs::read_to_string(root.join("deny.toml")).context("deny.toml cannot be read")?;
    let rules: Rules = toml::from_str(&text).context("deny.toml is not what was expected")?;
    let platform = format!("--filter-platform={}", process::host()?);
    let mut command = MetadataCommand::new();
    let Metadata { packages, .. } = command.current_dir(root).other_options([platform]).exec()?;
    let faults: Vec<String> = packages.iter().filter_map(|package| rules.fault(package)).collect();
    ensure!(faults.is_empty(), "dependencies that deny.toml does not allow:\n{}", faults.join("\n"));
    println!("{} packages are what deny.toml allows", packages.len());
    Ok(())
}

impl Rules {
    fn fault(&self, package: &Package) -> Option<String> {
        let Package { name, version, source, license, .. } = package;
        let finding = |why: String| Some(format!("  {name} {version} {why}"));
        // A package without a source belongs to the workspace.
        let source = source.as_ref()?;
        if !source.is_crates_io() {
            return finding(format!("comes from {source}"));
        }
        if self.bans.deny.iter().any(|banned| banned.name == name.as_str()) {
            return finding("is banned".to_owned());
        }
        let Some(license) = license else { return finding("names no license".to_owned()) };
        match Expression::parse_mode(license, ParseMode::LAX) {
            Err(error) => finding(format!("has a license that cannot be read: {error}")),
            Ok(licenses) if licenses.evaluate(|one| self.allows(name.as_str(), one)) => None,
            Ok(_) => finding(format!("is under {license}")),
        }
    }

    fn allows(&self, package: &str, license: &LicenseReq) -> bool {
        let id = license.license.to_string();
        let exceptions = self.licenses.exceptions.iter().filter(|exception| exception.name == package);
        self.licenses.allow.contains(&id)
            || exceptions.flat_map(|exception| &exception.allow).any(|allowed| *allowed == id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn licenses_sources_and_names_are_checked() {
        let rules = Rules {
            licenses: Licenses {
                allow: ["MIT".to_owned(), "Apache-2.0".to_owned()].into(),
                exceptions: vec![Exception { name: "font".to_owned(), allow: ["OFL-1.1".to_owned()].into() }],
            },
            bans: Bans { deny: vec![Banned { name: "openssl-sys".to_owned() }] },
        };
        let usual = "registry+https://github.com/rust-lang/crates.io-index";
        let fault = |name: &str, license: serde_json::Value, source: serde_json::Value| {
            let package = serde_json::json!({
                "name": name, "version": "1.0.0", "id": name, "license": license, "source": source, "dependencies": [], "targets": [],
                "features": {}, "manifest_path": "/Cargo.toml",
            });
            rules.fault(&serde_json::from_value(package).expect("a package as cargo tells of it"))
        };
        for license in
            ["MIT", "MIT OR GPL-3.0", "MIT/Apache-2.0", "MIT AND Apache-2.0", "(GPL-2.0 OR MIT) AND MIT"]
        {
            assert_eq!(fault("good", license.into(), usual.into()), None, "{license}");
        }
        assert_eq!(fault("font", "MIT AND OFL-1.1".into(), usual.into()), None);
        assert_eq!(fault("ours", serde_json::Value::Null, serde_json::Value::Null), None);
        for (name, license, source, why) in [
            ("bad", "MIT AND GPL-3.0".into(), usual, "is under MIT AND GPL-3.0"),
            ("other", "OFL-1.1".into(), usual, "is under OFL-1.1"),
            ("silent", serde_json::Value::Null, usual, "names no license"),
            ("odd", "whatever".into(), usual, "cannot be read"),
            ("openssl-sys", "MIT".into(), usual, "is banned"),
            ("elsewhere", "MIT".into(), "git+https://example.org/elsewhere#1", "comes from git+https"),
        ] {
            let text = fault(name, license, source.into()).unwrap_or_default();
            assert!(text.contains(name) && text.contains(why), "{name}: {text:?}");
        }
    }
}
