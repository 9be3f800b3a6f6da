//! How long a file may be.

use std::collections::BTreeSet;

use super::finding::Finding;
use super::source::Source;

/// Lines that are neither tests nor documentation.
const MAX_LINES: usize = 500;

/// Files that are longer, and why each must be. Entries that are no longer needed are found too.
const LONGER: &[(&str, &str)] = &[];

pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    let counted = sources.iter().map(|source| (source.path.as_str(), lines(source)));
    judge(counted, LONGER)
}

fn judge<'a>(files: impl Iterator<Item = (&'a str, usize)>, longer: &[(&str, &str)]) -> Vec<Finding> {
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

/// The lines with at least one token of code on them.
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
    fn a_long_file_needs_its_reason() {
        let files = [("short.rs", 500), ("long.rs", 501), ("listed.rs", 700), ("shrunk.rs", 400)];
        let longer = [("listed.rs", "a table of codes"), ("shrunk.rs", "was one")];
        let found: Vec<String> = judge(files.into_iter(), &longer).iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("long.rs: 501 lines of code, at most 500"));
        assert!(found[1].starts_with("shrunk.rs: needs its exception"));
    }
}
