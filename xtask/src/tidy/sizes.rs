//! Limits the sizes of files and crates.

use std::collections::{BTreeMap, BTreeSet};

use super::finding::Finding;
use super::source::Source;

/// The maximum number of lines of a file, without tests and documentation.
const MAX_LINES: usize = 500;

/// Longer files, each with the reason for its length. Entries that are no longer needed are also reported.
const LONGER: &[(&str, &str)] = &[];

/// The maximum number of lines of code of a crate.
const MAX_CRATE_LINES: usize = 6_000;

/// Larger crates, each with the reason for its size.
const LARGER: &[(&str, &str)] = &[
    ("relive-agents", "21 agents, each a folder of its own that knows the shared parts and no other agent"),
    (
        "relive-checkpoint",
        "two formats and two kinds of storage behind one seam, which tests run against each other",
    ),
    ("relive-cli", "a folder for each command; commands share units, configuration and errors only"),
    (
        "relive-gpu",
        "one store, whose rows, protocol and selection must have the same bits on processor and GPU",
    ),
    ("relive-python", "the compiled half of one Python module, a folder or file for each part of it"),
    (
        "relive-rl",
        "its layers share one error and are saved and resumed together; what lies between them would have to be public",
    ),
    (
        "relive-server",
        "both protocols share one account of memory, one list of limits and one check of tokens",
    ),
];

/// A file with fewer lines should be merged with another file; root files of folders are exempt.
const FEW_LINES: usize = 30;
const MAX_SHORT_FILES: usize = 60;

pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    let counted = sources.iter().map(|source| (source.path.as_str(), lines(source)));
    let mut findings = check_lengths(counted, LONGER);
    findings.extend(check_crate_sizes(&by_crate(sources), LARGER));
    findings
}

/// Returns the lines of code of each crate.
fn by_crate(sources: &[Source]) -> BTreeMap<String, usize> {
    let mut crates = BTreeMap::new();
    for source in sources {
        if let Some((name, _)) = source.path.strip_prefix("crates/").and_then(|path| path.split_once("/src/"))
        {
            *crates.entry(name.to_owned()).or_default() += lines(source);
        }
    }
    crates
}

fn check_crate_sizes(crates: &BTreeMap<String, usize>, larger: &[(&str, &str)]) -> Vec<Finding> {
    let judged = crates.iter().filter_map(|(name, lines)| {
        let listed = larger.iter().any(|(larger, _)| larger == name);
        let message = match (*lines > MAX_CRATE_LINES, listed) {
            (true, false) => format!(
                "{lines} lines of code, at most {MAX_CRATE_LINES}: divide it where its arrows show a border, or give the \
                 reason in the tidy rule `sizes`"
            ),
            (false, true) => "needs its exception to the size rule no longer".to_owned(),
            _ => return None,
        };
        Some(Finding::new(name, message))
    });
    judged.collect()
}

/// Returns the number of short files in crates, except for root files and tests.
pub(super) fn check_short(sources: &[Source], texts: &[(String, String)]) -> Vec<Finding> {
    let is_code = |path: &str| sources.iter().any(|source| source.path == path && lines(source) > 0);
    let is_map = |path: &str| path.ends_with("/mod.rs") || path.ends_with("/lib.rs");
    let short: Vec<&str> = texts
        .iter()
        .filter(|(path, text)| {
            path.starts_with("crates/") && path.contains("/src/") && text.lines().count() < FEW_LINES
        })
        .map(|(path, _)| path.as_str())
        .filter(|path| path.ends_with(".rs") && !is_map(path) && is_code(path))
        .collect();
    if short.len() <= MAX_SHORT_FILES {
        return Vec::new();
    }
    let message = format!(
        "{} files of fewer than {FEW_LINES} lines, at most {MAX_SHORT_FILES}: such a file belongs to a neighbor, where it is \
         read with what it is for: {}",
        short.len(),
        short.join(", ")
    );
    vec![Finding::new("crates", message)]
}

fn check_lengths<'a>(files: impl Iterator<Item = (&'a str, usize)>, longer: &[(&str, &str)]) -> Vec<Finding> {
    files
        .filter_map(|(path, lines)| {
            let listed = longer.iter().any(|(name, _)| *name == path);
            match (lines > MAX_LINES, listed) {
                (true, false) => Some(Finding::new(
                    path,
                    format!(
                        "{lines} lines of code, at most {MAX_LINES}: show its parts as files of their own, so that \
                         each can be read in one go"
                    ),
                )),
                (false, true) => Some(Finding::new(path, "needs its exception to the size rule no longer")),
                _ => None,
            }
        })
        .collect()
}

/// Returns the lines with at least one token of code.
fn lines(source: &Source) -> usize {
    let code = source.lexemes.iter().filter(|lexeme| !lexeme.test);
    code.flat_map(|lexeme| lexeme.line..=lexeme.last_line).collect::<BTreeSet<_>>().len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_counts() {
        let text =
            "//! Docs\n\n/// Docs\nfn f() {\n    // why\n    g(); h();\n}\n#[cfg(test)]\nmod tests {\n}\n";
        assert_eq!(lines(&Source::parse("a.rs", text).unwrap()), 3);
    }

    #[test]
    fn a_large_crate_requires_a_reason() {
        let crates = [("large", 6_001), ("listed", 7_000), ("shrunk", 10), ("small", 6_000)];
        let crates = crates.map(|(name, lines)| (name.to_owned(), lines)).into();
        let found = check_crate_sizes(&crates, &[("listed", "a reason"), ("shrunk", "was one")]);
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("large: 6001 lines of code, at most 6000"));
        assert!(found[1].starts_with("shrunk: needs its exception"));
    }

    #[test]
    fn too_many_short_files_are_found() {
        let files = |count: usize| -> Vec<(String, String)> {
            let file = |at| (format!("crates/a/src/f{at}.rs"), "fn f() {}\n".to_owned());
            let map = ("crates/a/src/mod.rs".to_owned(), "mod f1;\n".to_owned());
            (0..count).map(file).chain([map]).collect()
        };
        let found = |texts: &[(String, String)]| {
            let parse = |(path, text): &(String, String)| Source::parse(path, text).unwrap();
            check_short(&texts.iter().map(parse).collect::<Vec<_>>(), texts).len()
        };
        assert_eq!(found(&files(MAX_SHORT_FILES)), 0);
        assert_eq!(found(&files(MAX_SHORT_FILES + 1)), 1);
    }

    #[test]
    fn a_long_file_requires_a_reason() {
        let files = [("short.rs", 500), ("long.rs", 501), ("listed.rs", 700), ("shrunk.rs", 400)];
        let longer = [("listed.rs", "a table of codes"), ("shrunk.rs", "was one")];
        let found: Vec<String> =
            check_lengths(files.into_iter(), &longer).iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("long.rs: 501 lines of code, at most 500"));
        assert!(found[1].starts_with("shrunk.rs: needs its exception"));
    }
}
