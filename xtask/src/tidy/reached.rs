//! Finds public items that only tests use.

use std::collections::BTreeMap;

use super::finding::Finding;
use super::source::{Lexeme, Source};

/// Crates whose public items are only for the other crates of this workspace. Public items of the other crates are for
/// users.
const INTERNAL: &[&str] = &[
    "relive-checkpoint",
    "relive-engine",
    "relive-server",
    "relive-table",
    "relive-tensor",
    "relive-transport",
    "relive-wire",
];

/// Names in these crates that are nevertheless for users: methods of types that `relive` re-exports.
const FOR_USERS: &[&str] = &["sample_shape"];

const KINDS: [&str; 7] = ["fn", "struct", "enum", "trait", "const", "type", "static"];

/// Words that may come between `pub` and the kind of an item.
const QUALIFIERS: [&str; 3] = ["const", "unsafe", "async"];

/// Checks by name: an item counts as used if its name occurs anywhere other than in a definition of this name.
pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    let mut written: BTreeMap<&str, usize> = BTreeMap::new();
    let mut defined: BTreeMap<&str, usize> = BTreeMap::new();
    for source in sources {
        for lexeme in source.lexemes.iter().filter(|lexeme| !lexeme.test) {
            *written.entry(&lexeme.text).or_default() += 1;
        }
        definitions(&source.lexemes).for_each(|(name, _)| *defined.entry(name).or_default() += 1);
    }
    let mut findings = Vec::new();
    for source in sources.iter().filter(|source| is_internal(&source.path)) {
        for (name, line) in definitions(&source.lexemes) {
            if written[name] != defined[name] || FOR_USERS.contains(&name) {
                continue;
            }
            let message = format!("nothing but tests reaches `{name}`: use it, or remove it with its tests");
            findings.push(Finding::new(source.place(line), message));
        }
    }
    findings
}

fn is_internal(path: &str) -> bool {
    INTERNAL.iter().any(|name| path.starts_with(&format!("crates/{name}/src/")))
}

/// Returns the names and lines of `pub` definitions, outside tests.
fn definitions(lexemes: &[Lexeme]) -> impl Iterator<Item = (&str, usize)> {
    lexemes.iter().enumerate().filter(|(_, lexeme)| lexeme.text == "pub" && !lexeme.test).filter_map(
        |(at, _)| {
            let mut rest =
                lexemes[at + 1..].iter().skip_while(|next| QUALIFIERS.contains(&next.text.as_str()));
            // A constant has no kind after its qualifier.
            let first = rest.next()?;
            if KINDS.contains(&first.text.as_str()) {
                return rest.next().map(|name| (name.text.as_str(), name.line));
            }
            let is_constant = lexemes.get(at + 1).is_some_and(|next| next.text == "const");
            is_constant.then_some((first.text.as_str(), first.line))
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_reached_only_by_tests_is_found() {
        let parse = |(path, text): (&str, &str)| Source::parse(path, text).unwrap();
        let sources = [
            (
                "crates/relive-wire/src/a.rs",
                "pub const fn used() {} pub fn unused() {} pub(crate) fn own() {} pub const LIMIT: u8 = 1;",
            ),
            ("crates/relive-wire/tests/a.rs", "fn test() { unused(); LIMIT; }"),
            ("crates/relive-server/src/a.rs", "fn f() { used(); }"),
            ("crates/relive-rl/src/a.rs", "pub fn for_users() {}"),
        ];
        let found: Vec<String> = check(&sources.map(parse)).iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("nothing but tests reaches `unused`"), "{found:?}");
        assert!(found[1].contains("`LIMIT`"), "{found:?}");
    }
}
