//! Dependencies, modules of std and unsafe code that must not occur in certain crates.

use super::finding::Finding;
use super::packages::Package;
use super::source::{Lexeme, Source};

/// (the only crates that may use them, dependencies by prefix, reason)
const RESERVED: &[(&[&str], &[&str], &str)] = &[
    (
        &["relive-wire"],
        &["prost", "tonic-prost"],
        "only relive-wire knows protobuf, so that nothing else changes with the protocol",
    ),
    (
        &["relive-wire", "relive-python"],
        &["protox"],
        "only relive-wire compiles messages, and relive-python for Python programs that use dm-reverb's",
    ),
    (
        &["relive-cli", "relive-interop", "xtask"],
        &["anyhow"],
        "only programs may throw kinds of errors together; a library's errors can be matched on",
    ),
    (&["relive-python"], &["pyo3", "numpy"], "only relive-python knows Python"),
    (
        &["relive-nn"],
        &["burn", "gemm"],
        "only relive-nn knows what networks are computed with, so that nothing else changes with it",
    ),
    (
        &["relive-gpu", "relive-nn"],
        &["pulp"],
        "loops for the widest vectors are those of networks, and of selection from millions of indices",
    ),
    (&["relive-gpu"], &["cudarc", "libloading"], "only relive-gpu knows CUDA"),
    (&["relive-rl"], &["safetensors"], "only relive-rl knows the files of policies"),
];

/// (crate, dependencies by prefix that it must not use, reason)
const DENIED: &[(&str, &[&str], &str)] = &[
    ("relive-tensor", IMPURE, "it is pure: the same input gives the same output"),
    ("relive-table", IMPURE, "it is pure: the same input gives the same output"),
    ("relive-env", IMPURE, "it is pure: the same seed and actions give the same trajectory"),
    (
        "relive-wire",
        &["tokio", "hyper", "socket2", "mio"],
        "it turns messages into values and touches no socket",
    ),
];

const IMPURE: &[&str] = &["tokio", "tonic", "prost", "serde"];

/// The crates whose code must not perform I/O and has no unsafe block.
const PURE: &[&str] = &["relive-tensor", "relive-table"];

const OUTSIDE: &[&str] = &["fs", "net", "thread", "process", "env"];
const CLOCKS: &[&str] = &["Instant", "SystemTime"];

/// The Python binding, and its only file that may use locks: the file's types ensure the order in which locks and the
/// interpreter are acquired.
const BINDING: &str = "crates/relive-python/src/";
const LOCKS_OF_BINDING: &str = "crates/relive-python/src/interpreter/lock.rs";

pub(super) fn check(packages: &[Package], sources: &[Source]) -> Vec<Finding> {
    let mut findings = dependencies(packages);
    findings.extend(sources.iter().flat_map(locks_of_binding));
    for package in PURE {
        let folder = format!("crates/{package}/src/");
        for source in sources.iter().filter(|source| source.path.starts_with(&folder)) {
            findings.extend(reaches_outside(source));
            findings.extend(allows_unsafe(source));
        }
    }
    findings
}

fn locks_of_binding(source: &Source) -> Vec<Finding> {
    if !source.path.starts_with(BINDING) || source.path == LOCKS_OF_BINDING {
        return Vec::new();
    }
    let locks = source.lexemes.iter().filter(|lexeme| matches!(lexeme.text.as_str(), "Mutex" | "RwLock"));
    let reason = "names a lock of its own: use a type of `interpreter/lock.rs`, which cannot be waited for with the interpreter in hand";
    locks.map(|lexeme| Finding::new(source.place(lexeme.line), reason)).collect()
}

fn dependencies(packages: &[Package]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in packages {
        let name = package.name.as_str();
        let reserved = RESERVED.iter().filter(|(owners, ..)| !owners.contains(&name)).map(|(_, d, r)| (d, r));
        let denied = DENIED.iter().filter(|(denied, ..)| *denied == name).map(|(_, d, r)| (d, r));
        for (prefixes, reason) in reserved.chain(denied) {
            let found = package.normal.iter().filter(|import| prefixes.iter().any(|p| belongs(import, p)));
            findings.extend(found.map(|import| Finding::new(name, format!("depends on {import}: {reason}"))));
        }
    }
    findings
}

/// `tokio` and `tokio-stream` belong to `tokio`; `numpyro` does not belong to `numpy`.
fn belongs(dependency: &str, family: &str) -> bool {
    dependency.strip_prefix(family).is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '_']))
}

fn reaches_outside(source: &Source) -> Vec<Finding> {
    let code: Vec<&Lexeme> = source.lexemes.iter().filter(|lexeme| !lexeme.test).collect();
    let mut findings = Vec::new();
    for (index, lexeme) in code.iter().enumerate() {
        let found = if CLOCKS.contains(&lexeme.text.as_str()) {
            Some(lexeme.text.clone())
        } else if lexeme.text == "std" {
            imported(&code[index + 1..])
                .find(|name| OUTSIDE.contains(name))
                .map(|name| format!("std::{name}"))
        } else {
            None
        };
        findings.extend(found.map(|name| {
            let reason = "uses {name}, but this crate is pure: time, randomness and I/O come in as arguments";
            Finding::new(source.place(lexeme.line), reason.replace("{name}", &name))
        }));
    }
    findings
}

/// Returns the names that directly follow `std::`, either one or a list in braces.
fn imported<'a>(after: &'a [&Lexeme]) -> impl Iterator<Item = &'a str> {
    let path = after.iter().take(2).all(|lexeme| lexeme.text == ":");
    let list = after.get(2).is_some_and(|lexeme| lexeme.text == "{");
    let names = if path { &after[2..] } else { &[] };
    let end = if list { names.iter().position(|l| l.text == "}" || l.text == ";") } else { Some(1) };
    names.iter().take(end.unwrap_or(0)).map(|lexeme| lexeme.text.as_str())
}

fn allows_unsafe(source: &Source) -> Option<Finding> {
    let forbids = ["#", "!", "[", "forbid", "(", "unsafe_code", ")", "]"];
    let is_root = source.path.ends_with("/src/lib.rs");
    let forbidden = source.lexemes.windows(forbids.len()).any(|run| run.iter().map(|l| &l.text).eq(forbids));
    (is_root && !forbidden).then(|| {
        Finding::new(&source.path, "lacks #![forbid(unsafe_code)]: what is pure has no reason for it")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(packages: &[Package], path: &str, text: &str) -> Vec<String> {
        let source = Source::parse(path, text).unwrap();
        check(packages, &[source]).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_pure_crate_with_a_runtime_is_found() {
        let package = Package::with_dependencies("relive-table", &["tokio-stream", "serde"], &["tokio"]);
        let found = found(&[package], "a.rs", "");
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("relive-table: depends on serde: it is pure"));
    }

    #[test]
    fn protobuf_outside_its_crate_is_found() {
        let packages = [
            Package::with_dependencies("relive-wire", &["prost", "prost-types"], &[]),
            Package::with_dependencies("relive-server", &["prost-types"], &[]),
        ];
        let found = found(&packages, "a.rs", "");
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("relive-server: depends on prost-types: only relive-wire"));
    }

    #[test]
    fn files_threads_and_clocks_are_found_outside_of_tests() {
        let path = "crates/relive-table/src/a.rs";
        for text in
            ["use std::fs;", "use std::{fmt, thread};", "fn f() { std::net::x() }", "use std::time::Instant;"]
        {
            assert_eq!(found(&[], path, text).len(), 1, "{text}");
        }
        for text in
            ["use std::fmt;", "// std::fs", "#[cfg(test)] mod t { use std::fs; }", "fn fs() {} use a::fs;"]
        {
            assert_eq!(found(&[], path, text), Vec::<String>::new(), "{text}");
        }
        assert!(found(&[], "crates/relive-server/src/a.rs", "use std::fs;").is_empty());
    }

    #[test]
    fn locks_of_the_python_binding_outside_one_file_are_found() {
        let found = |path: &str| {
            let source = Source::parse(path, "static A: Mutex<u8> = Mutex::new(0);").unwrap();
            check(&[], &[source]).len()
        };
        assert_eq!(found("crates/relive-python/src/a.rs"), 2);
        assert_eq!(found("crates/relive-python/src/interpreter/lock.rs"), 0);
        assert_eq!(found("crates/relive-server/src/a.rs"), 0);
    }

    #[test]
    fn a_pure_crate_forbids_unsafe_code() {
        let path = "crates/relive-tensor/src/lib.rs";
        assert_eq!(found(&[], path, "//! Docs.\nmod a;").len(), 1);
        assert!(found(&[], path, "#![forbid(unsafe_code)]\nmod a;").is_empty());
    }
}
