//! Errors in a configuration, in users' terms.

/// An error in a file, with its line.
#[derive(Debug, PartialEq)]
pub(super) struct Problem {
    pub(super) line: Option<usize>,
    pub(super) text: String,
}

/// The names of types at the end of the parser's messages, and the texts that replace them for users.
const EXPECTED: [(&str, &str); 6] = [
    ("expected f64", "expected a number"),
    ("expected i64", "expected a whole number"),
    ("expected u64", "expected a whole number of at least 0"),
    ("expected u32", "expected a whole number from 0 to 4294967295"),
    ("expected i32", "expected a whole number from -2147483648 to 2147483647"),
    ("expected u16", "expected a whole number from 0 to 65535"),
];

/// The only notation that consists of more than a name.
const PRIORITIZED: (&str, &str) = (
    "invalid type: unit variant, expected newtype variant",
    "the exponent is missing; write { prioritized = 0.6 }",
);

/// Returns the message without the names of Rust's types.
pub(super) fn plain(message: &str) -> String {
    if message == PRIORITIZED.0 {
        return PRIORITIZED.1.to_owned();
    }
    let expected = EXPECTED.iter().find_map(|(rust, plain)| Some((message.strip_suffix(rust)?, plain)));
    expected.map_or_else(|| message.to_owned(), |(begin, plain)| format!("{begin}{plain}"))
}
