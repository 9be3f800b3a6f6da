//! A Rust file as a sequence of lexemes, each with its line and whether it belongs to a test.

use anyhow::{Result, anyhow};
use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

/// A file, with its path from the root.
pub(super) struct Source {
    pub(super) path: String,
    /// The code, without comments and documentation.
    pub(super) lexemes: Vec<Lexeme>,
}

/// One token, or one end of a group.
#[derive(Debug, Clone)]
pub(super) struct Lexeme {
    pub(super) text: String,
    pub(super) line: usize,
    /// A string may span several lines.
    pub(super) last_line: usize,
    /// Part of an item under `#[cfg(test)]`, or of a file of tests.
    pub(super) test: bool,
}

impl Source {
    /// Errors when the text is not Rust.
    pub(super) fn parse(path: &str, text: &str) -> Result<Self> {
        let stream: TokenStream = text.parse().map_err(|error| anyhow!("{path} is not Rust: {error}"))?;
        let mut lexemes = Vec::new();
        flatten(stream, is_test_path(path), &mut lexemes);
        Ok(Self { path: path.to_owned(), lexemes })
    }

    pub(super) fn place(&self, line: usize) -> String {
        format!("{}:{line}", self.path)
    }

    /// Returns the files that `#[cfg(test)] mod name;` declares here, as path prefixes.
    fn test_modules(&self) -> Vec<String> {
        let folder = match self.path.rsplit_once('/') {
            Some((folder, "mod.rs" | "lib.rs" | "main.rs")) => folder,
            _ => self.path.trim_end_matches(".rs"),
        };
        let declarations =
            self.lexemes.windows(3).filter(|run| run[0].text == "mod" && run[0].test && run[2].text == ";");
        declarations.map(|run| format!("{folder}/{}", run[1].text)).collect()
    }
}

/// Marks files as tests if another file declares them as such.
pub(super) fn mark_test_files(sources: &mut [Source]) {
    let modules: Vec<String> = sources.iter().flat_map(Source::test_modules).collect();
    for source in sources {
        let module = source.path.trim_end_matches(".rs");
        let declared = modules.iter().any(|m| module == m || module.starts_with(&format!("{m}/")));
        if declared {
            source.lexemes.iter_mut().for_each(|lexeme| lexeme.test = true);
        }
    }
}

fn is_test_path(path: &str) -> bool {
    path.split('/').any(|part| part == "tests" || part == "tests.rs")
}

fn flatten(stream: TokenStream, test: bool, lexemes: &mut Vec<Lexeme>) {
    let tokens: Vec<TokenTree> = stream.into_iter().collect();
    let mut test_item = false;
    let mut index = 0;
    while let Some(token) = tokens.get(index) {
        let attribute = attribute(&tokens[index..]);
        if let Some((_, length)) = attribute.filter(|(group, _)| is_documentation(group)) {
            index += length;
            continue;
        }
        test_item |= attribute.is_some_and(|(group, _)| is_for_tests(group));
        let ends_item = is_punct(token, ';')
            || matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace);
        push(token, test || test_item, lexemes);
        test_item &= !ends_item;
        index += 1;
    }
}

/// Returns the brackets of the attribute that begins here, and its number of tokens.
fn attribute(tokens: &[TokenTree]) -> Option<(&Group, usize)> {
    match tokens {
        [hash, TokenTree::Group(group), ..] if is_punct(hash, '#') => Some((group, 2)),
        [hash, not, TokenTree::Group(group), ..] if is_punct(hash, '#') && is_punct(not, '!') => {
            Some((group, 3))
        }
        _ => None,
    }
}

fn is_punct(token: &TokenTree, wanted: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == wanted)
}

fn push(token: &TokenTree, test: bool, lexemes: &mut Vec<Lexeme>) {
    let span = token.span();
    let lexeme = |text: String, line, last_line| Lexeme { text, line, last_line, test };
    match token {
        TokenTree::Group(group) => {
            let (open, close) = ends(group.delimiter());
            let (first, last) = (group.span_open().start().line, group.span_close().end().line);
            lexemes.push(lexeme(open.to_owned(), first, first));
            flatten(group.stream(), test, lexemes);
            lexemes.push(lexeme(close.to_owned(), last, last));
        }
        other => lexemes.push(lexeme(other.to_string(), span.start().line, span.end().line)),
    }
}

fn ends(delimiter: Delimiter) -> (&'static str, &'static str) {
    match delimiter {
        Delimiter::Parenthesis => ("(", ")"),
        Delimiter::Brace => ("{", "}"),
        Delimiter::Bracket => ("[", "]"),
        Delimiter::None => ("", ""),
    }
}

/// Returns whether the attribute is `#[doc = …]`, which `///` also becomes.
fn is_documentation(attribute: &Group) -> bool {
    let mut tokens = attribute.stream().into_iter();
    matches!(tokens.next(), Some(TokenTree::Ident(name)) if name == "doc")
        && tokens.next().is_some_and(|token| is_punct(&token, '='))
}

/// Returns whether the attribute is `#[cfg(test)]`, including `test` within `all` or `any`.
fn is_for_tests(attribute: &Group) -> bool {
    let mut lexemes = Vec::new();
    flatten(attribute.stream(), false, &mut lexemes);
    let has = |word: &str| lexemes.iter().any(|lexeme| lexeme.text == word);
    lexemes.first().is_some_and(|lexeme| lexeme.text == "cfg") && has("test") && !has("not")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(path: &str, text: &str) -> Vec<String> {
        let source = Source::parse(path, text).unwrap();
        source.lexemes.into_iter().filter(|lexeme| !lexeme.test).map(|lexeme| lexeme.text).collect()
    }

    #[test]
    fn comments_documentation_and_tests_do_not_count_as_code() {
        let text = "//! Docs.\n/// Docs.\n#[doc = \"x\"]\nmod a; // why\n/* no */ \
            #[cfg(test)]\nmod tests { fn f() {} }\nmod b;";
        assert_eq!(code("src/a.rs", text), ["mod", "a", ";", "mod", "b", ";"]);
    }

    #[test]
    fn code_under_cfg_not_test_counts_as_code() {
        assert_eq!(code("a.rs", "#[cfg(not(test))] mod a;").last().map(String::as_str), Some(";"));
        assert_eq!(code("crates/x/tests/a.rs", "mod a;"), Vec::<String>::new());
        assert_eq!(code("a.rs", "#[cfg(all(test, unix))] fn f() { g(); }"), Vec::<String>::new());
    }

    #[test]
    fn a_file_declared_under_cfg_test_is_a_test_file() {
        let mut sources = [
            Source::parse("src/table/mod.rs", "#[cfg(test)] mod model; mod table;").unwrap(),
            Source::parse("src/table/model.rs", "fn f() {}").unwrap(),
            Source::parse("src/table/table.rs", "fn f() {}").unwrap(),
        ];
        mark_test_files(&mut sources);
        let tests: Vec<bool> = sources.iter().map(|source| source.lexemes.iter().all(|l| l.test)).collect();
        assert_eq!(tests, [false, true, false]);
    }

    #[test]
    fn line_numbers_match_the_file() {
        let source = Source::parse("a.rs", "mod a;\n\nconst B: &str = \"x\ny\";\n").unwrap();
        let string = source.lexemes.iter().find(|lexeme| lexeme.text.starts_with('"')).unwrap();
        assert_eq!((string.line, string.last_line), (3, 4));
    }
}
