//! The workspace's packages as the rules see them.

use std::collections::BTreeSet;

use cargo_metadata::{DependencyKind, Metadata};

/// A package and the names it declares as dependencies.
#[derive(Debug, Default)]
pub(super) struct Package {
    pub(super) name: String,
    /// The package's dependencies, including those of its build scripts.
    pub(super) normal: BTreeSet<String>,
    /// The additional dependencies of its tests, examples and benches.
    pub(super) dev: BTreeSet<String>,
}

pub(super) fn read(metadata: &Metadata) -> Vec<Package> {
    let mut packages: Vec<Package> = metadata.workspace_packages().into_iter().map(package).collect();
    packages.sort_by(|a, b| a.name.cmp(&b.name));
    packages
}

fn package(package: &cargo_metadata::Package) -> Package {
    let names = |dev: bool| {
        let wanted = package.dependencies.iter().filter(|d| (d.kind == DependencyKind::Development) == dev);
        wanted.map(|dependency| dependency.name.clone()).collect()
    };
    Package { name: package.name.to_string(), normal: names(false), dev: names(true) }
}

#[cfg(test)]
impl Package {
    /// Creates a fictitious package for the tests of the rules.
    pub(super) fn with_dependencies(name: &str, normal: &[&str], dev: &[&str]) -> Self {
        let names = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        Self { name: name.to_owned(), normal: names(normal), dev: names(dev) }
    }
}
