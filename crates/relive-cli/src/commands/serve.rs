//! `relive serve`: serves until a signal arrives.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use relive_host::{Error, ErrorKind, Server, ServerBuilder, Words};
use relive_server::ServerOptions;
use relive_table::{CheckpointProgress, TableConfig};

use crate::allocator;
use crate::checkpoints::Checkpoints;
use crate::config::{self, Config};
use crate::failure::{Failure, Kind, Result};
use crate::output;
use crate::progress::Drawn;
use crate::security::ServerSecurity;
use crate::signals::Signals;
use crate::units::{number, parse_bytes, parse_seconds};

/// Options of `relive serve`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Tables of the server: TOML, or dm-reverb's textproto of ReverbServerConfig (.textproto, .pbtxt, .textpb)
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Port to listen on; 0 picks a free one [default: the configuration's, else 8000]
    #[arg(long)]
    port: Option<u16>,
    /// IP address to listen on; 0.0.0.0 or :: opens the server to other machines [default: the configuration's, else
    /// 127.0.0.1]
    #[arg(long, value_name = "ADDR", value_parser = config::parse_bind)]
    bind: Option<IpAddr>,
    /// Bytes of chunks that the server keeps in memory, as in 8GB or 1.5GiB; inserts wait while there are more that
    /// cannot move to --spill-dir [default: the configuration's, else unlimited]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    max_bytes: Option<u64>,
    /// How long inserts wait for memory before they fail [default: the configuration's, else 60]
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    max_bytes_wait: Option<Duration>,
    /// Folder on a fast disk: chunks beyond --max-bytes that were not read recently move there instead of blocking
    /// inserts [default: the configuration's, else none]
    #[arg(long, value_name = "DIR")]
    spill_dir: Option<PathBuf>,
    /// IP address and port of the dashboard, the metrics and the health check, as in 127.0.0.1:9090 [default: the
    /// configuration's, else none]
    #[arg(long, value_name = "ADDR", value_parser = config::parse_socket)]
    http: Option<SocketAddr>,
    #[command(flatten, next_help_heading = "Security")]
    security: ServerSecurity,
    #[command(flatten)]
    checkpoints: Checkpoints,
}

/// The names that messages use for the options.
const WORDS: Words = Words {
    http: "--http",
    spill: "--spill-dir",
    max_bytes: "--max-bytes",
    salvage: "--salvage",
    given_rules: "--config-from code",
    other_tables: Some("--checkpoint-tables"),
    load: |place| format!("--checkpoint {place}"),
};

/// Serves until SIGINT or SIGTERM. Prints one line on stdout when clients can connect.
pub(crate) async fn run(options: Options) -> Result {
    let (signals, beginning) = (catch()?, tokio::spawn(catch()?.exit_on_signal()));
    let config = config::load(&options.config)?;
    let security = options.security.clone().or(&config.security)?;
    let progress = Arc::default();
    let builder = options.builder(&config, Arc::clone(&progress))?;
    allocator::give_back_from_now_on();
    let address = SocketAddr::new(options.bind.unwrap_or(config.bind), options.port.unwrap_or(config.port));
    let bar = Drawn::new("loading", progress);
    let bound = builder.options(security.bound(ServerOptions::default())).bind(security.endpoint(address));
    let server = bound.await;
    drop(bar);
    let server = server.map_err(|error| failure(&config.source, error))?;
    beginning.abort();
    config.tables.iter().for_each(warn_if_deadlocked);
    announce(server.address(), &config);
    security.warn(server.address());
    tokio::select! {
        () = signals.first() => {}
        () = server.ended() => {}
    }
    Ok(server.stop().await?)
}

fn catch() -> Result<Signals> {
    Signals::catch().map_err(|error| {
        Failure::new(Kind::Runtime, anyhow::Error::new(error).context("cannot install signal handlers"))
    })
}

impl Options {
    fn builder(&self, config: &Config, progress: Arc<CheckpointProgress>) -> Result<ServerBuilder> {
        let checkpoints = self.checkpoints.settings(&config.checkpoints, progress)?;
        let mut builder = Server::builder().words(WORDS).checkpoints(checkpoints);
        builder = config.tables.iter().cloned().fold(builder, ServerBuilder::table);
        if let Some(max_bytes) = self.max_bytes.or(config.max_bytes) {
            builder = builder.max_bytes(max_bytes);
        }
        if let Some(longest_wait) = self.max_bytes_wait.or(config.max_bytes_wait) {
            builder = builder.max_bytes_wait(longest_wait);
        }
        if let Some(folder) = self.spill_dir.as_ref().or(config.spill_dir.as_ref()) {
            builder = builder.spill(folder);
        }
        if let Some(address) = self.http.or(config.http) {
            builder = builder.http(address);
        }
        Ok(builder)
    }
}

/// Returns the failure of a server that did not start; `source` is its configuration.
fn failure(source: &str, error: Error) -> Failure {
    match error.kind() {
        ErrorKind::Tables | ErrorKind::Restore => Failure::usage(format!("{source}: {error}")),
        _ => error.into(),
    }
}

/// The user requested this limiter, and it is correct if no item is deleted, so this is only a warning.
fn warn_if_deadlocked(table: &TableConfig) {
    let limiter = &table.rate_limiter;
    if !limiter.may_deadlock() {
        return;
    }
    let begin = limiter.samples_per_insert * limiter.min_size_to_sample as f64;
    tracing::warn!(
        table = table.name,
        "inserts and samples may deadlock: max_diff {} is below {}, which is samples_per_insert {} times \
         min_size {}; raise max_diff or lower min_size",
        number(limiter.max_diff),
        number(begin),
        number(limiter.samples_per_insert),
        limiter.min_size_to_sample,
    );
}

/// The server works even if its output is not read.
fn announce(address: SocketAddr, config: &Config) {
    if let Err(error) = output::line(&format!("relive listening on {address}")) {
        tracing::warn!(%error, "cannot write to stdout");
    }
    let tables = config.tables.iter().map(|table| table.name.as_str()).collect::<Vec<_>>().join(", ");
    tracing::info!(%address, tables, "listening");
}
