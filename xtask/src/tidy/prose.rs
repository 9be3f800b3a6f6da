//! Checks the width of prose, and the length of the map.

use super::finding::Finding;

/// The maximum number of columns in a line of comments or documents: narrow enough to read comfortably.
const MAX_COLUMNS: usize = 120;

/// Pages that `relive rl sweep` writes.
const GENERATED: &str = "docs/agents/";

/// The map of the code, and the maximum number of its lines: it must be readable in one sitting.
const MAP: (&str, usize) = ("ARCHITECTURE.md", 200);

pub(super) fn check(texts: &[(String, String)]) -> Vec<Finding> {
    let written = texts.iter().filter(|(path, _)| !path.starts_with(GENERATED));
    written.flat_map(|(path, text)| in_text(path, text)).chain(too_long(texts)).collect()
}

fn too_long(texts: &[(String, String)]) -> Option<Finding> {
    let (map, most) = MAP;
    let (_, text) = texts.iter().find(|(path, _)| path == map)?;
    let lines = text.lines().count();
    let message = format!(
        "{lines} lines, at most {most}: move details to a module's documentation or to docs/decisions"
    );
    (lines > most).then(|| Finding::new(map.to_owned(), message))
}

fn in_text(path: &str, text: &str) -> Vec<Finding> {
    let Some(mut kind) = Kind::of(path) else { return Vec::new() };
    let mut findings = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        let columns = line.chars().count();
        if kind.is_prose(line) && columns > MAX_COLUMNS && columns - longest_code(line) > MAX_COLUMNS {
            let message = format!("{columns} columns of prose, at most {MAX_COLUMNS}: wrap the paragraph");
            findings.push(Finding::new(format!("{path}:{number}"), message));
        }
    }
    findings
}

/// The kind of a file, which determines where its prose is, and the context of the next line.
enum Kind {
    Markdown {
        in_code: bool,
    },
    Rust {
        in_code: bool,
    },
    /// `string` is `Some` in a triple-quoted string, and shows whether the string is a statement, as docstrings are.
    Python {
        string: Option<bool>,
    },
}

impl Kind {
    fn of(path: &str) -> Option<Kind> {
        let (_, ending) = path.rsplit_once('.')?;
        match ending {
            "md" => Some(Kind::Markdown { in_code: false }),
            "rs" => Some(Kind::Rust { in_code: false }),
            "py" | "pyi" => Some(Kind::Python { string: None }),
            _ => None,
        }
    }

    /// Returns whether this line is prose that can be wrapped, unlike tables and code.
    fn is_prose(&mut self, line: &str) -> bool {
        let trimmed = line.trim_start();
        match self {
            Kind::Markdown { in_code } => is_paragraph(trimmed, in_code) && !line.starts_with("    "),
            Kind::Rust { in_code } => {
                let comment = ["///", "//!", "//"].iter().find_map(|mark| trimmed.strip_prefix(mark));
                let Some(comment) = comment else {
                    *in_code = false;
                    return false;
                };
                is_paragraph(comment.trim_start(), in_code)
            }
            Kind::Python { string } => {
                let before = *string;
                if line.matches("\"\"\"").count() % 2 == 1 {
                    let begins = trimmed.trim_start_matches('r').starts_with("\"\"\"");
                    *string = if before.is_some() { None } else { Some(begins) };
                }
                before
                    .or(*string)
                    .unwrap_or_else(|| trimmed.starts_with('#') || is_one_line_docstring(trimmed))
            }
        }
    }
}

fn is_one_line_docstring(line: &str) -> bool {
    line.starts_with("\"\"\"") && line.ends_with("\"\"\"")
}

fn is_paragraph(line: &str, in_code: &mut bool) -> bool {
    if line.starts_with("```") {
        *in_code = !*in_code;
        return false;
    }
    !*in_code && !line.starts_with('|')
}

/// Returns the number of columns of the longest piece that cannot be wrapped, such as an address or a code span.
fn longest_code(line: &str) -> usize {
    let spans = line.split('`').skip(1).step_by(2).map(|span| span.chars().count());
    let words = line.split(' ').map(|word| word.chars().count());
    spans.chain(words).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> usize {
        check(&[(path.to_owned(), text.to_owned())]).len()
    }

    #[test]
    fn wide_prose_is_found_and_wide_code_is_not() {
        let wide = "words and ".repeat(13);
        assert_eq!(found("a.md", &wide), 1);
        assert_eq!(found("a.md", &format!("| {wide} |\n```\n{wide}\n```\n")), 0);
        assert_eq!(found("a.rs", &format!("/// {wide}\nlet a = \"{wide}\";\n")), 1);
        assert_eq!(found("a.rs", &format!("/// ```\n/// {wide}\n/// ```\n// {wide}")), 1);
        assert_eq!(found("a.py", &format!("# {wide}\na = \"{wide}\"\n")), 1);
        assert_eq!(found("a.py", &format!("a = \"\"\"\n{wide}\n\"\"\"\nb = \"{wide}\"\n")), 0);
        assert_eq!(found("a.py", &format!("\"\"\"One line.\n\n{wide}\n\"\"\"\na = \"{wide}\"\n")), 1);
    }

    #[test]
    fn the_map_is_short() {
        assert_eq!(found("ARCHITECTURE.md", &"a\n".repeat(200)), 0);
        assert_eq!(found("ARCHITECTURE.md", &"a\n".repeat(201)), 1);
        assert_eq!(found("docs/a.md", &"a\n".repeat(201)), 0);
    }

    #[test]
    fn unbreakable_lines_may_be_wide() {
        let address = format!("see `{}`", "a".repeat(130));
        assert_eq!(found("a.md", &address), 0);
    }
}
