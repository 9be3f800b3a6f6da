//! The paths that a file uses, in imports and in code.

use crate::tidy::source::Lexeme;

/// For example, `crate::a::B` or `super::c::*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Path {
    pub(super) segments: Vec<String>,
    pub(super) line: usize,
    /// The name that a `use` gives to its import; `*` for a glob. `None` for a path in the code.
    pub(super) name: Option<String>,
    /// A `pub use`: a re-export for others, not a dependency of this file.
    pub(super) public: bool,
}

/// Returns the paths in the code of a file, without its tests.
pub(super) fn paths(lexemes: &[Lexeme]) -> Vec<Path> {
    let code: Vec<&Lexeme> = lexemes.iter().filter(|lexeme| !lexeme.test).collect();
    let mut paths = Vec::new();
    let mut at = 0;
    while at < code.len() {
        if code[at].text == "use" && !follows(&code, at, "+") {
            let public = at > 0 && matches!(code[at - 1].text.as_str(), "pub" | ")");
            at = import(&code, at + 1, &[], public, &mut paths);
        } else {
            at = written_out(&code, at, &mut paths);
        }
    }
    paths
}

/// A `use` as in `impl Trait + use<'a>` imports nothing.
fn follows(code: &[&Lexeme], at: usize, text: &str) -> bool {
    at > 0 && code[at - 1].text == text
}

/// Reads one branch of a `use` tree from `at`; returns its end.
fn import(code: &[&Lexeme], mut at: usize, prefix: &[String], public: bool, paths: &mut Vec<Path>) -> usize {
    let mut segments = prefix.to_vec();
    while let Some(lexeme) = code.get(at) {
        match lexeme.text.as_str() {
            ":" => at += 1,
            "{" => return branches(code, at + 1, &segments, public, paths),
            "," | "}" | ";" => break,
            "as" => {
                let name = code.get(at + 1).map(|lexeme| lexeme.text.clone());
                paths.push(Path { segments, line: lexeme.line, name, public });
                return at + 2;
            }
            "*" => {
                paths.push(Path { segments, line: lexeme.line, name: Some("*".to_owned()), public });
                return at + 1;
            }
            segment => {
                segments.push(segment.to_owned());
                at += 1;
            }
        }
    }
    if segments.len() > prefix.len() {
        if segments.last().is_some_and(|last| last == "self") {
            segments.pop();
        }
        let line = code[at - 1].line;
        paths.push(Path { name: segments.last().cloned(), segments, line, public });
    }
    at
}

fn branches(
    code: &[&Lexeme],
    mut at: usize,
    prefix: &[String],
    public: bool,
    paths: &mut Vec<Path>,
) -> usize {
    while let Some(lexeme) = code.get(at) {
        match lexeme.text.as_str() {
            "}" => return at + 1,
            "," => at += 1,
            _ => at = import(code, at, prefix, public, paths),
        }
    }
    at
}

/// Reads a path of at least two segments that begins at `at`; returns the path's end.
fn written_out(code: &[&Lexeme], at: usize, paths: &mut Vec<Path>) -> usize {
    let goes_on = follows(code, at, ":") && follows(code, at - 1, ":");
    let begins = is_name(&code[at].text) && !goes_on && !follows(code, at, ".");
    let mut segments = vec![code[at].text.clone()];
    let mut next = at + 1;
    while let [first, second, name, ..] = &code[next..] {
        if first.text != ":" || second.text != ":" || !is_name(&name.text) {
            break;
        }
        segments.push(name.text.clone());
        next += 3;
    }
    if begins && segments.len() > 1 {
        paths.push(Path { segments, line: code[at].line, name: None, public: false });
    }
    next
}

fn is_name(text: &str) -> bool {
    text.starts_with(|first: char| first.is_alphabetic() || first == '_')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::source::Source;

    fn found(text: &str) -> Vec<String> {
        let source = Source::parse("src/a.rs", text).unwrap();
        let show = |path: Path| {
            let name = path.name.map_or_else(String::new, |name| format!(" as {name}"));
            format!("{}{}{name}", if path.public { "pub " } else { "" }, path.segments.join("::"))
        };
        paths(&source.lexemes).into_iter().map(show).collect()
    }

    #[test]
    fn nested_imports_are_expanded() {
        assert_eq!(
            found("use crate::a::{self, b::C, d::{E as F, *}}; pub(crate) use g::H;"),
            [
                "crate::a as a",
                "crate::a::b::C as C",
                "crate::a::d::E as F",
                "crate::a::d as *",
                "pub g::H as H"
            ]
        );
    }

    #[test]
    fn paths_in_code_are_parsed_but_not_in_visibilities() {
        let text = "pub(in crate::a) fn f(x: super::B) -> impl Fn() + use<'_> { c::d::<u8>(x.e()) }";
        assert_eq!(found(text), ["crate::a", "super::B", "c::d"]);
    }
}
