//! Reads the file and determines its format.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use super::{Config, textproto, toml_format};
use crate::failure::{Failure, Result, one_line};

/// The maximum size of a configuration file; a table takes a few hundred bytes, and a signature of many columns a few
/// kilobytes.
const MAX_CONFIG_BYTES: u64 = 16 << 20;

/// Reads the configuration in `path`.
///
/// The extensions `.toml`, `.textproto`, `.pbtxt` and `.textpb` determine the format; for other files, the content
/// does.
pub(crate) fn load(path: &Path) -> Result<Config> {
    let source = path.display().to_string();
    let text = read(path)
        .map_err(|error| Failure::usage(format!("cannot read the configuration {source}: {error}")))?;
    let parsed = if is_textproto(path, &text) { textproto::parse(&text) } else { toml_format::parse(&text) };
    let place = |line: Option<usize>| line.map(|line| format!(":{line}")).unwrap_or_default();
    let mut config = parsed.map_err(|problem| {
        Failure::usage(format!("{source}{}: {}", place(problem.line), one_line(&problem.text)))
    })?;
    config.source = source;
    Ok(config)
}

fn read(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_CONFIG_BYTES + 1).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length > MAX_CONFIG_BYTES) {
        return Err(io::Error::other(format!("the file is larger than {} MiB", MAX_CONFIG_BYTES >> 20)));
    }
    String::from_utf8(bytes).map_err(|_| io::Error::other("the file is not UTF-8 text"))
}

fn is_textproto(path: &Path, text: &str) -> bool {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("textproto" | "pbtxt" | "textpb") => true,
        Some("toml") => false,
        _ => looks_like_textproto(text),
    }
}

/// Returns whether the first statement is a textproto field: a word, then `:`, `{` or `<`. In TOML, a word is followed
/// by `=` or `.`.
fn looks_like_textproto(text: &str) -> bool {
    let statement = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'));
    let after_word = statement.and_then(|line| {
        line.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_').trim().chars().next()
    });
    matches!(after_word, Some(':' | '{' | '<'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_extension_takes_precedence_over_the_content() {
        let textproto = "tables { table_name: 'a' }";
        assert!(!is_textproto(Path::new("a.toml"), textproto));
        assert!(is_textproto(Path::new("a.pbtxt"), "port = 1"));
        assert!(is_textproto(Path::new("a.conf"), textproto));
        assert!(!is_textproto(Path::new("a"), "port = 1"));
    }

    #[test]
    fn the_format_is_detected_from_the_first_statement() {
        assert!(looks_like_textproto("# comment: yes\n\n port: 8000"));
        assert!(looks_like_textproto("tables <\n>"));
        assert!(!looks_like_textproto("# tables {\n[[table]]\nname = 'a: {'"));
        assert!(!looks_like_textproto(""));
    }
}
