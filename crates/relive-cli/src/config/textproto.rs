//! dm-reverb's configuration, protobuf text of `deepmind.reverb.ReverbServerConfig`.

use miette::Diagnostic;
use prost_reflect::text_format::ParseError;
use prost_reflect::{DescriptorPool, DynamicMessage};
use relive_wire::reverb::{PriorityTableCheckpoint, ReverbServerConfig};
use relive_wire::table::config_from_wire;

use super::Config;
use super::load::Problem;
use super::model::DEFAULT_BIND;
use super::place::line_of;

const MESSAGE: &str = "deepmind.reverb.ReverbServerConfig";

/// Reads protobuf text. Its port is taken as it is: 0, or none, is a free one.
pub(super) fn parse(text: &str) -> Result<Config, Problem> {
    let whole = |text: String| Problem { line: None, text };
    let message = message(text)?;
    if message.tables.is_empty() {
        return Err(whole("a server needs at least one table; add tables { table_name: ... }".to_owned()));
    }
    let port = u16::try_from(message.port)
        .map_err(|_| whole(format!("port must be from 0 to 65535, it is {}", message.port)))?;
    let table =
        |table: &PriorityTableCheckpoint| config_from_wire(table).map_err(|error| whole(error.to_string()));
    let tables = message.tables.iter().map(table).collect::<Result<_, _>>()?;
    Ok(Config { source: String::new(), bind: DEFAULT_BIND, port, tables })
}

fn message(text: &str) -> Result<ReverbServerConfig, Problem> {
    let pool = DescriptorPool::decode(relive_wire::DESCRIPTORS)
        .expect("the descriptors are made together with the messages");
    let descriptor = pool.get_message_by_name(MESSAGE).expect("the message is among them");
    let dynamic = DynamicMessage::parse_text_format(descriptor, text)
        .map_err(|error| Problem { line: line(&error, text), text: error.to_string() })?;
    Ok(dynamic.transcode_to().expect("both sides have the same descriptor"))
}

fn line(error: &ParseError, text: &str) -> Option<usize> {
    let label = error.labels()?.next()?;
    Some(line_of(text, label.offset()))
}
