//! Logs, on stderr.

use clap::ValueEnum;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::EnvFilter;

use crate::failure::{Failure, Result};
use crate::output;

/// The variable that sets the log levels if the command line does not.
const VARIABLE: &str = "RUST_LOG";

/// The format of a line of the log.
#[derive(Debug, Clone, Copy, Default, ValueEnum)]
pub(crate) enum LogFormat {
    /// Lines for people
    #[default]
    Text,
    /// One JSON object per line
    Json,
}

/// Starts logging at the levels in `asked` (such as `debug` or `relive_server=debug,info`); if `asked` is unset, at the
/// levels in `RUST_LOG`; and if that is also unset, at the levels in `default`.
pub(crate) fn start(asked: Option<&str>, default: &str, format: LogFormat) -> Result {
    let from_environment = std::env::var(VARIABLE).ok().filter(|text| !text.is_empty());
    let (source, text) = match (asked, from_environment) {
        (Some(asked), _) => ("--log-level", asked.to_owned()),
        (None, Some(text)) => (VARIABLE, text),
        (None, None) => ("default", default.to_owned()),
    };
    // A misspelled level without `=` would be taken as the name of a target, and would silence everything else.
    let is_complete = |part: &str| part.contains('=') || part.trim().parse::<LevelFilter>().is_ok();
    let filter =
        EnvFilter::try_new(&text).ok().filter(|_| asked.is_none() || text.split(',').all(is_complete));
    let filter = filter.ok_or_else(|| {
        let advice = "use off, error, warn, info, debug, trace, or target=level pairs";
        Failure::usage(format!("{source} {text:?} is not a valid log filter; {advice}"))
    })?;
    // Otherwise, errors of logging would be written to stderr, which panics if it is closed; a server must continue
    // without a log.
    let log = tracing_subscriber::fmt().log_internal_errors(false);
    let log = log.with_env_filter(filter);
    match format {
        LogFormat::Text => {
            let log = log.with_writer(|| output::Log { note: lost_as_text });
            log.with_ansi(output::stderr_is_terminal()).init();
        }
        LogFormat::Json => log.with_writer(|| output::Log { note: lost_as_json }).json().init(),
    }
    Ok(())
}

fn lost(lines: u64) -> String {
    format!("{lines} lines of the log were lost here, because nobody read it")
}

fn lost_as_text(lines: u64) -> String {
    format!("WARN {}\n", lost(lines))
}

fn lost_as_json(lines: u64) -> String {
    let fields = serde_json::json!({ "message": lost(lines) });
    format!("{}\n", serde_json::json!({ "level": "WARN", "fields": fields, "target": "relive" }))
}
