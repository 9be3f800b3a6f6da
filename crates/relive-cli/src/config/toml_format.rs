//! The TOML format.

use super::document::Document;
use super::model::{DEFAULT_BIND, DEFAULT_PORT};
use super::place::{Place, ValueError, line_of};
use super::problem::{Problem, plain};
use super::{Config, checkpoints, parse_bind, parse_socket, tables};

/// Reads a TOML document.
pub(super) fn parse(text: &str) -> Result<Config, Problem> {
    let document = document(text)?;
    config(document).map_err(|ValueError { place, reason }| Problem {
        line: place.line(text),
        text: format!("{place}: {reason}"),
    })
}

fn document(text: &str) -> Result<Document, Problem> {
    let problem = |error: &toml::de::Error, text_of_error| Problem {
        line: error.span().map(|span| line_of(text, span.start)),
        text: text_of_error,
    };
    let deserializer =
        toml::Deserializer::parse(text).map_err(|error| problem(&error, error.message().to_owned()))?;
    serde_path_to_error::deserialize(deserializer).map_err(|error| {
        let path = error.path().to_string();
        let inner = error.inner();
        let message = plain(inner.message());
        problem(inner, if path == "." { message } else { format!("{path}: {message}") })
    })
}

fn config(document: Document) -> Result<Config, ValueError> {
    let root = Place::default();
    let max_bytes = document.max_bytes.as_ref().map(|entry| root.key("max_bytes").bytes(entry));
    let max_bytes_wait = document.max_bytes_wait.map(|wait| root.key("max_bytes_wait").seconds(wait));
    let checkpoints = checkpoints::keys(&document, &root)?;
    let bind = document.bind.as_deref().map_or(Ok(DEFAULT_BIND), parse_bind);
    let http = document.http.as_deref().map(parse_socket);
    Ok(Config {
        source: String::new(),
        bind: bind.map_err(|reason| root.key("bind").value_error(reason))?,
        port: document.port.unwrap_or(DEFAULT_PORT),
        http: http.transpose().map_err(|reason| root.key("http").value_error(reason))?,
        max_bytes: max_bytes.transpose()?,
        max_bytes_wait: max_bytes_wait.transpose()?,
        spill_dir: document.spill_dir,
        security: document.security,
        checkpoints,
        tables: tables::tables(document.table, &root.key("table"))?,
    })
}
