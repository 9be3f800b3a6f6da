//! dm-reverb's configuration files: protobuf text of `deepmind.reverb.ReverbServerConfig`.

use miette::Diagnostic;
use prost_reflect::text_format::ParseError;
use prost_reflect::{DescriptorPool, DynamicMessage};

use crate::proto::DESCRIPTORS;
use crate::reverb::ReverbServerConfig;

/// Text that is not the message it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct TextError {
    /// The line of the fault, from 1; `None` if it has no place.
    pub line: Option<usize>,
    /// What is wrong.
    pub reason: String,
}

/// Reads a server configuration. Unknown fields are errors.
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
/// Text that breaks the format or names fields that the message does not have.
pub fn server_config(text: &str) -> Result<ReverbServerConfig, TextError> {
    let pool =
        DescriptorPool::decode(DESCRIPTORS).expect("the descriptors are made together with the messages");
    let descriptor =
        pool.get_message_by_name("deepmind.reverb.ReverbServerConfig").expect("the message is among them");
    let dynamic = DynamicMessage::parse_text_format(descriptor, text)
        .map_err(|error| TextError { line: line(&error, text), reason: error.to_string() })?;
    Ok(dynamic.transcode_to().expect("both sides have the same descriptor"))
}

fn line(error: &ParseError, text: &str) -> Option<usize> {
    let offset = error.labels()?.next()?.offset();
    let before = text.as_bytes().get(..offset)?;
    Some(1 + before.iter().filter(|byte| **byte == b'\n').count())
}
