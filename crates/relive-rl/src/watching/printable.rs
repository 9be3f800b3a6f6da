//! Makes texts from other processes safe for a terminal.

use std::borrow::Cow;

use serde_json::Value;

/// Escapes the characters that control a terminal, as in `\u{1b}`: control characters except tabs, and characters that
/// change the text direction. Apply this to every text from another process before displaying it.
///
/// ```
/// use relive_rl::watching::printable;
///
/// assert_eq!(printable("node 7"), "node 7");
/// assert_eq!(printable("\u{1b}[2Jgone"), "\\u{1b}[2Jgone");
/// ```
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(is_obeyed) {
        return Cow::Borrowed(text);
    }
    let mut printable = String::with_capacity(text.len());
    for character in text.chars() {
        match is_obeyed(character) {
            true => printable.extend(character.escape_unicode()),
            false => printable.push(character),
        }
    }
    Cow::Owned(printable)
}

/// Makes all texts in a value printable, including the names of fields.
pub(super) fn printable_json(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(printable(&text).into_owned()),
        Value::Array(values) => values.into_iter().map(printable_json).collect(),
        Value::Object(fields) => {
            let fields = fields.into_iter();
            fields.map(|(name, value)| (printable(&name).into_owned(), printable_json(value))).collect()
        }
        other => other,
    }
}

fn is_obeyed(character: char) -> bool {
    let is_tab = character == '\t';
    (character.is_control() && !is_tab)
        || matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        for (text, printed) in [
            ("höst-1\t\u{1f916}", "höst-1\t\u{1f916}"),
            ("a\nb\r\u{7}\u{9b}0m", "a\\u{a}b\\u{d}\\u{7}\\u{9b}0m"),
            ("exe.\u{202e}gpj", "exe.\\u{202e}gpj"),
        ] {
            assert_eq!(printable(text), printed);
        }
        let value = printable_json(json!({"\u{1b}": [{"name": "\u{1b}[2J", "steps": 7, "is_up": true}]}));
        let expected = json!({"\\u{1b}": [{"name": "\\u{1b}[2J", "steps": 7, "is_up": true}]});
        assert_eq!(value, expected);
    }
}
