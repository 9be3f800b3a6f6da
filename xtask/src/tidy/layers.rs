//! The imports that are permitted between crates.

use std::collections::BTreeSet;

use super::finding::Finding;
use super::packages::Package;

/// A layer and the crates of this workspace that it may import. Indirect layers are listed too if their types are part
/// of a direct import's interface.
const LAYERS: &[(&str, &[&str])] = &[
    ("relive-tensor", &["relive-prefetch"]),
    ("relive-table", &["relive-prefetch", "relive-tensor"]),
    ("relive-env", &["relive-tensor"]),
    ("relive-batch", &["relive-prefetch", "relive-table", "relive-tensor", "relive-threads"]),
    ("relive-engine", &["relive-table", "relive-tensor"]),
    ("relive-wire", &["relive-table", "relive-tensor"]),
    ("relive-checkpoint", &["relive-wire", "relive-table", "relive-tensor", "relive-threads"]),
    ("relive-transport", &["relive-wire"]),
    (
        "relive-connection",
        &["relive-transport", "relive-wire", "relive-engine", "relive-table", "relive-tensor"],
    ),
    ("relive-fleet", &["relive-connection", "relive-wire", "relive-engine", "relive-table", "relive-tensor"]),
    (
        "relive-writer",
        &[
            "relive-fleet",
            "relive-connection",
            "relive-transport",
            "relive-wire",
            "relive-engine",
            "relive-table",
            "relive-tensor",
        ],
    ),
    (
        "relive-reader",
        &[
            "relive-fleet",
            "relive-connection",
            "relive-transport",
            "relive-wire",
            "relive-batch",
            "relive-engine",
            "relive-table",
            "relive-tensor",
        ],
    ),
    (
        "relive-client",
        &[
            "relive-writer",
            "relive-reader",
            "relive-fleet",
            "relive-connection",
            "relive-transport",
            "relive-batch",
            "relive-engine",
            "relive-table",
            "relive-tensor",
        ],
    ),
    (
        "relive-server",
        &[
            "relive-batch",
            "relive-engine",
            "relive-transport",
            "relive-wire",
            "relive-table",
            "relive-tensor",
        ],
    ),
    (
        "relive-host",
        &[
            "relive-checkpoint",
            "relive-client",
            "relive-server",
            "relive-engine",
            "relive-table",
            "relive-tensor",
        ],
    ),
    (
        "relive-rl",
        &[
            "relive-checkpoint",
            "relive-client",
            "relive-cluster",
            "relive-engine",
            "relive-env",
            "relive-flow",
            "relive-random",
            "relive-table",
            "relive-tensor",
        ],
    ),
    (
        "relive-agents",
        &[
            "relive-client",
            "relive-engine",
            "relive-env",
            "relive-flow",
            "relive-nn",
            "relive-rl",
            "relive-table",
            "relive-tensor",
            "relive-threads",
        ],
    ),
    (
        "relive-cli",
        &[
            "relive-checkpoint",
            "relive-client",
            "relive-cluster",
            "relive-host",
            "relive-engine",
            "relive-agents",
            "relive-env",
            "relive-rl",
            "relive-server",
            "relive-table",
            "relive-tensor",
            "relive-wire",
        ],
    ),
    (
        "relive-python",
        &[
            "relive-agents",
            "relive-batch",
            "relive-checkpoint",
            "relive-client",
            "relive-cluster",
            "relive-server",
            "relive-host",
            "relive-engine",
            "relive-env",
            "relive-flow",
            "relive-gpu",
            "relive-nn",
            "relive-rl",
            "relive-table",
            "relive-tensor",
        ],
    ),
    ("relive-prefetch", &[]),
    ("relive-threads", &[]),
    ("relive-random", &[]),
    ("relive-nn", &["relive-random"]),
    ("relive-flow", &[]),
    ("relive-cluster", &["relive-flow", "relive-transport"]),
    ("relive-gpu-protocol", &[]),
    (
        "relive-gpu",
        &[
            "relive-gpu-protocol",
            "relive-prefetch",
            "relive-transport",
            "relive-wire",
            "relive-tensor",
            "relive-threads",
        ],
    ),
    ("relive-testkit", &["relive-table", "relive-tensor"]),
    (
        "relive",
        &[
            "relive-agents",
            "relive-client",
            "relive-cluster",
            "relive-host",
            "relive-engine",
            "relive-env",
            "relive-flow",
            "relive-gpu",
            "relive-nn",
            "relive-rl",
            "relive-server",
            "relive-table",
            "relive-tensor",
        ],
    ),
    ("relive-interop", &["relive", "relive-flow"]),
    (
        "relive-benches",
        &[
            "relive-agents",
            "relive",
            "relive-checkpoint",
            "relive-client",
            "relive-host",
            "relive-engine",
            "relive-env",
            "relive-flow",
            "relive-rl",
            "relive-server",
            "relive-table",
            "relive-tensor",
            "relive-testkit",
            "relive-wire",
        ],
    ),
    ("xtask", &[]),
];

/// The crate that every crate may import for its tests, beyond its layers.
const FOR_TESTS: &str = "relive-testkit";

/// Crates whose documentation has examples that use a higher crate, through which users access their types.
const EXAMPLES: &[(&str, &str)] = &[("relive-writer", "relive-client"), ("relive-reader", "relive-client")];

pub(super) fn check(packages: &[Package]) -> Vec<Finding> {
    let ours: BTreeSet<&str> = packages.iter().map(|package| package.name.as_str()).collect();
    packages.iter().flat_map(|package| check_package(package, &ours)).collect()
}

fn check_package(package: &Package, ours: &BTreeSet<&str>) -> Vec<Finding> {
    let name = package.name.as_str();
    let Some((_, allowed)) = LAYERS.iter().find(|(layer, _)| *layer == name) else {
        let message = "is in no layer; say in the tidy rule `layers` what it may import";
        return vec![Finding::new(name, message)];
    };
    let normal = package.normal.iter().map(|import| (import, ""));
    let for_tests = |import: &str| import == FOR_TESTS || EXAMPLES.contains(&(name, import));
    let dev = package.dev.iter().filter(|import| !for_tests(import)).map(|import| (import, " in its tests"));
    normal
        .chain(dev)
        .filter(|(import, _)| ours.contains(import.as_str()) && !allowed.contains(&import.as_str()))
        .map(|(import, place)| {
            let message = format!(
                "imports {import}{place}, which is not below it: the layers are what lets each crate be \
                 understood and tested alone"
            );
            Finding::new(name, message)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(packages: &[Package]) -> Vec<String> {
        check(packages).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_upward_dependency_is_found() {
        let packages = [
            Package::with_dependencies("relive-table", &["relive-engine", "smallvec"], &[]),
            Package::with_dependencies("relive-engine", &["relive-table", "tokio"], &[]),
        ];
        let found = findings(&packages);
        assert_eq!(found.len(), 1);
        assert!(
            found[0].starts_with("relive-table: imports relive-engine, which is not below it"),
            "{found:?}"
        );
    }

    #[test]
    fn tests_may_import_the_testkit_and_their_layers_only() {
        let packages = [
            Package::with_dependencies("relive-table", &[], &["relive-testkit", "relive-server"]),
            Package::with_dependencies("relive-server", &[], &["relive-table"]),
            Package::with_dependencies("relive-testkit", &["relive-table"], &[]),
        ];
        let found = findings(&packages);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("relive-table: imports relive-server in its tests"), "{found:?}");
    }

    #[test]
    fn examples_may_import_listed_higher_crates_but_code_may_not() {
        let client = || Package::with_dependencies("relive-client", &["relive-writer"], &[]);
        let examples = Package::with_dependencies("relive-writer", &[], &["relive-client"]);
        assert_eq!(findings(&[client(), examples]), Vec::<String>::new());
        let code = Package::with_dependencies("relive-writer", &["relive-client"], &[]);
        assert_eq!(findings(&[client(), code]).len(), 1);
    }

    #[test]
    fn testkit_imports_outside_tests_are_found() {
        let packages = [
            Package::with_dependencies("relive-table", &["relive-testkit"], &[]),
            Package::with_dependencies("relive-testkit", &[], &[]),
        ];
        assert_eq!(findings(&packages).len(), 1);
    }

    #[test]
    fn a_crate_without_a_layer_is_found() {
        let found = findings(&[Package::with_dependencies("relive-misc", &[], &[])]);
        assert!(found[0].starts_with("relive-misc: is in no layer"), "{found:?}");
    }
}
