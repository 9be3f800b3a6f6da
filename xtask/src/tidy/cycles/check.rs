//! Finds cycles of files, and cycles of the folders that contain them.

use std::collections::{BTreeMap, BTreeSet};

use super::graph::{Graph, cycles};
use super::tree::{Module, Tree};
use crate::tidy::finding::Finding;
use crate::tidy::source::Source;

pub(crate) fn check(sources: &[Source]) -> Vec<Finding> {
    roots(sources).iter().flat_map(|root| check_crate(root, &Tree::read(root, sources))).collect()
}

/// Returns the folders of the crates' `lib.rs` and `main.rs`, with a trailing `/`.
fn roots(sources: &[Source]) -> BTreeSet<String> {
    let ends = ["lib.rs", "main.rs"];
    let of = |source: &Source| ends.iter().find_map(|end| source.path.strip_suffix(end).map(str::to_owned));
    sources.iter().filter_map(of).filter(|root| root.ends_with('/')).collect()
}

fn check_crate(root: &str, tree: &Tree) -> Vec<Finding> {
    let needs = needs(tree);
    let mut folders: BTreeSet<&[String]> = BTreeSet::from([[].as_slice()]);
    folders.extend(tree.files().filter_map(|(module, _)| Some(module.split_last()?.1)));
    let mut findings: Vec<Finding> =
        cycles(&files(&needs)).iter().map(|cycle| report(root, cycle, &files(&needs))).collect();
    for folder in folders {
        let dependencies_in = dependencies_in(folder, &needs);
        let of_folders = cycles(&dependencies_in);
        findings.extend(
            of_folders
                .iter()
                .filter(|cycle| !is_of_files(cycle, &needs))
                .map(|cycle| report(root, cycle, &dependencies_in)),
        );
    }
    findings
}

/// (module, module that it uses, where)
type Need = (Module, Module, String);

fn needs(tree: &Tree) -> Vec<Need> {
    let mut needs = Vec::new();
    for (module, file) in tree.files() {
        for path in file.paths.iter().filter(|path| !path.public) {
            if let Some(target) = tree.target(module, path).filter(|target| target != module) {
                let place = format!("{}:{} uses {}", file.path, path.line, tree.file(&target).path);
                needs.push((module.clone(), target, place));
            }
        }
    }
    needs
}

fn files(needs: &[Need]) -> Graph<Module> {
    let mut graph = Graph::new();
    for (from, to, place) in needs {
        graph
            .entry(from.clone())
            .or_insert_with(BTreeMap::new)
            .entry(to.clone())
            .or_insert_with(|| place.clone());
    }
    graph
}

/// Returns the dependencies between the files and folders directly in `folder`, including all contents of the folders.
fn dependencies_in(folder: &[String], needs: &[Need]) -> Graph<Module> {
    let below = |module: &Module| {
        (module.len() > folder.len() && module.starts_with(folder)).then(|| module[..=folder.len()].to_vec())
    };
    let between = needs.iter().filter_map(|(from, to, place)| {
        let (from, to) = (below(from)?, below(to)?);
        (from != to).then(|| (from, to, place.clone()))
    });
    files(&between.collect::<Vec<_>>())
}

/// Such a cycle is already reported.
fn is_of_files(cycle: &BTreeSet<Module>, needs: &[Need]) -> bool {
    cycles(&files(needs)).contains(cycle)
}

fn report(root: &str, cycle: &BTreeSet<Module>, graph: &Graph<Module>) -> Finding {
    let name = |module: &Module| if module.is_empty() { "the root".to_owned() } else { module.join("::") };
    let names: Vec<String> = cycle.iter().map(name).collect();
    let inside = cycle.iter().flat_map(|from| graph[from].iter().filter(|(to, _)| cycle.contains(*to)));
    let places: Vec<String> = inside.map(|(_, place)| format!("\n    {place}")).collect();
    let message = format!(
        "modules use each other, so that none can be understood alone: {}; move what both need below them{}",
        names.join(", "),
        places.concat()
    );
    Finding::new(root.trim_end_matches('/'), message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let parse = |(path, text): &(&str, &str)| Source::parse(path, text).unwrap();
        check(&files.iter().map(parse).collect::<Vec<_>>()).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn mutually_dependent_files_are_found() {
        let files = [
            ("c/src/lib.rs", "mod a; mod b; mod d;"),
            ("c/src/a.rs", "use crate::b::B; struct A;"),
            ("c/src/b.rs", "struct B; fn f(a: crate::a::A) {}"),
            ("c/src/d.rs", "use crate::a::A;"),
        ];
        let found = found(&files);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("c/src: modules use each other"), "{found:?}");
        assert!(found[0].contains("c/src/b.rs:1 uses c/src/a.rs"), "{found:?}");
    }

    #[test]
    fn mutually_dependent_folders_are_found() {
        let files = [
            ("c/src/lib.rs", "mod a; mod b;"),
            ("c/src/a/mod.rs", "mod low; mod high;"),
            ("c/src/b/mod.rs", "mod low; mod high;"),
            ("c/src/a/low.rs", "struct A;"),
            ("c/src/a/high.rs", "use crate::b::low::B;"),
            ("c/src/b/low.rs", "struct B;"),
            ("c/src/b/high.rs", "use crate::a::low::A;"),
        ];
        let found = found(&files);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("none can be understood alone: a, b;"), "{found:?}");
    }

    #[test]
    fn reexports_and_tests_form_no_cycle() {
        let files = [
            ("c/src/lib.rs", "mod a; pub use a::A;"),
            ("c/src/a.rs", "struct A; #[cfg(test)] mod tests { use crate::A; }"),
        ];
        assert_eq!(found(&files), Vec::<String>::new());
    }
}
