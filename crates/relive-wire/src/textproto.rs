//! dm-reverb's configuration files: protobuf text of `deepmind.reverb.ReverbServerConfig`.

use miette::Diagnostic;
use prost_reflect::text_format::ParseError;
use prost_reflect::{DescriptorPool, DynamicMessage};

use crate::limits::MAX_TEXT_DEPTH;
use crate::proto::DESCRIPTORS;
use crate::reverb::ReverbServerConfig;

/// The reason why a text is not a valid configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct TextError {
    /// The line of the fault, counted from 1, or `None` if the fault has no line.
    pub line: Option<usize>,
    /// The fault of the text.
    pub reason: String,
}

/// Parses a server configuration. Unknown fields are errors.
///
/// ```
/// let config = relive_wire::textproto::server_config("port: 8000 tables { table_name: 'replay' }")?;
/// assert_eq!((config.port, config.tables[0].table_name.as_str()), (8000, "replay"));
/// let error = relive_wire::textproto::server_config("port: 8000\nprot: 1").unwrap_err();
/// assert_eq!(error.line, Some(2));
/// # Ok::<(), relive_wire::textproto::TextError>(())
/// ```
///
/// # Errors
/// The text is malformed, a field is unknown, or the nesting is deeper than [`MAX_TEXT_DEPTH`].
pub fn server_config(text: &str) -> Result<ReverbServerConfig, TextError> {
    if let Some(offset) = too_deep(text) {
        let reason = format!("messages are nested deeper than {MAX_TEXT_DEPTH} levels");
        return Err(TextError { line: line_at(offset, text), reason });
    }
    let pool =
        DescriptorPool::decode(DESCRIPTORS).expect("the descriptors are made together with the messages");
    let descriptor =
        pool.get_message_by_name("deepmind.reverb.ReverbServerConfig").expect("the message is among them");
    let dynamic = DynamicMessage::parse_text_format(descriptor, text)
        .map_err(|error| TextError { line: line(&error, text), reason: error.to_string() })?;
    // The conversion encodes and decodes the message, which is subject to further limits.
    dynamic.transcode_to().map_err(|error| TextError { line: None, reason: error.to_string() })
}

fn line(error: &ParseError, text: &str) -> Option<usize> {
    line_at(error.labels()?.next()?.offset(), text)
}

fn line_at(offset: usize, text: &str) -> Option<usize> {
    let before = text.as_bytes().get(..offset)?;
    Some(1 + before.iter().filter(|byte| **byte == b'\n').count())
}

/// Returns where the text is nested too deeply. The parser is recursive, so the depth is checked before it runs.
fn too_deep(text: &str) -> Option<usize> {
    let mut bytes = text.bytes().enumerate();
    let mut depth = 0_usize;
    while let Some((offset, byte)) = bytes.next() {
        match byte {
            b'{' | b'<' if depth == MAX_TEXT_DEPTH => return Some(offset),
            b'{' | b'<' => depth += 1,
            b'}' | b'>' => depth = depth.saturating_sub(1),
            b'#' => drop(bytes.by_ref().find(|(_, byte)| *byte == b'\n')),
            b'"' | b'\'' => skip_string(byte, bytes.by_ref().map(|(_, byte)| byte)),
            _ => (),
        }
    }
    None
}

/// Skips past the quote that ends the string.
fn skip_string(quote: u8, mut bytes: impl Iterator<Item = u8>) {
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => drop(bytes.next()),
            byte if byte == quote => return,
            _ => (),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nested(levels: usize) -> String {
        let (open, close) = ("list_value { values { ".repeat(levels), "} } ".repeat(levels));
        format!("port: 1\ntables {{ signature {{ {open} none_value {{}} {close} }} }}")
    }

    #[test]
    fn deep_nesting_is_an_error_with_its_line() {
        assert!(server_config(&nested(48)).is_ok());
        for levels in [49, 100_000] {
            let error = server_config(&nested(levels)).unwrap_err();
            assert_eq!(error.line, Some(2));
            assert!(error.reason.contains("deeper than 100 levels"), "{error}");
        }
    }

    #[test]
    fn brackets_in_strings_and_comments_do_not_count_as_nesting() {
        let many = "{".repeat(200);
        let text = format!("tables {{ table_name: \"{many}\\\"<\" # {many} '\n }} tables <> tables {{}}");
        let config = server_config(&text).unwrap();
        assert_eq!((config.tables.len(), config.tables[0].table_name.len()), (3, 202));
    }
}
