//! `relive serve`: a server until a signal ends it.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use relive_checkpoint::Tier;
use relive_engine::EngineError;
use relive_server::{Engine, HttpServer, Monitor, ServerOptions};
use relive_table::TableConfig;
use relive_tensor::ColdStore;

use crate::allocator;
use crate::checkpoints::Checkpoints;
use crate::config::{self, Config};
use crate::failure::{Failure, Kind, Result};
use crate::output;
use crate::security::ServerSecurity;
use crate::signals::Signals;
use crate::units::{bytes, number, parse_bytes, parse_seconds};

/// Options of `relive serve`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Tables of the server: TOML, or dm-reverb's textproto of ReverbServerConfig (.textproto, .pbtxt, .textpb)
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Port to listen on, 0 takes a free one [default: the configuration's, else 8000]
    #[arg(long)]
    port: Option<u16>,
    /// IP address to listen on; 0.0.0.0 or :: opens the server to other machines [default: the configuration's, else
    /// 127.0.0.1]
    #[arg(long, value_name = "ADDR", value_parser = config::parse_bind)]
    bind: Option<IpAddr>,
    /// Bytes of chunks that the server keeps in memory, as in 8GB or 1.5GiB; inserts wait while there are more that
    /// cannot move to --spill-dir [default: the configuration's, else no bound]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    max_bytes: Option<u64>,
    /// How long inserts wait for memory before they fail [default: the configuration's, else 60]
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    max_bytes_wait: Option<Duration>,
    /// Folder on a fast disk: chunks beyond --max-bytes that were not read lately move there instead of holding inserts up
    /// [default: the configuration's, else none]
    #[arg(long, value_name = "DIR")]
    spill_dir: Option<PathBuf>,
    /// IP address and port for metrics, health and the dashboard, as in 127.0.0.1:9090 [default: the configuration's, else
    /// none]
    #[arg(long, value_name = "ADDR", value_parser = config::parse_socket)]
    http: Option<SocketAddr>,
    #[command(flatten, next_help_heading = "Security")]
    security: ServerSecurity,
    #[command(flatten)]
    checkpoints: Checkpoints,
}

/// Serves until SIGINT or SIGTERM. Prints one line on stdout when clients can connect.
pub(crate) async fn run(options: Options) -> Result {
    let (signals, beginning) = (catch()?, tokio::spawn(catch()?.end_at_once()));
    let config = config::load(&options.config)?;
    // What does not go together is told before a checkpoint is loaded.
    let security = options.security.clone().or(&config.security)?;
    allocator::give_back_from_now_on();
    let monitor = Monitor::new();
    // Before the tables, so that it can be seen that a checkpoint is being loaded.
    let http = show(options.http.or(config.http), &monitor).await?;
    let tier = options.tier(&config)?;
    let engine = build(&config, &options, tier.clone())?;
    warn_of_full_memory(&engine);
    config.tables.iter().for_each(warn_of_standstill);
    let address = SocketAddr::new(options.bind.unwrap_or(config.bind), options.port.unwrap_or(config.port));
    beginning.abort();
    let listener = relive_server::bind(address).await.map_err(|error| Failure::text(Kind::Bind, error))?;
    let address = listener.local_addr().map_err(broken)?;
    let entrances = security.entrances(listener).await?;
    announce(address, &config);
    security.warn(address);
    let options = security.bound(ServerOptions::default().monitor(monitor));
    let served = relive_server::serve(entrances, engine, options, signals.first()).await;
    drop(http);
    if let Some((tier, _)) = tier {
        tier.close();
    }
    served.map_err(ended)
}

fn catch() -> Result<Signals> {
    Signals::catch().map_err(|error| {
        Failure::new(Kind::Runtime, anyhow::Error::new(error).context("cannot catch signals"))
    })
}

/// Metrics, health and the dashboard, if they are asked for.
async fn show(address: Option<SocketAddr>, monitor: &Monitor) -> Result<Option<HttpServer>> {
    let Some(address) = address else { return Ok(None) };
    let listener = relive_server::bind(address).await;
    let listener = listener.map_err(|error| Failure::text(Kind::Bind, format!("--http: {error}")))?;
    let http = HttpServer::start(listener, monitor.clone()).map_err(broken)?;
    let address = http.address();
    tracing::info!(%address, "metrics and dashboard at http://{address}/");
    if !address.ip().is_loopback() {
        tracing::warn!(%address, "metrics and dashboard are open to other machines; there is no access control");
    }
    Ok(Some(http))
}

fn build(config: &Config, options: &Options, tier: Option<(Arc<Tier>, u64)>) -> Result<Engine> {
    let add = |builder: relive_server::EngineBuilder, table: &TableConfig| builder.table(table.clone());
    let mut builder = config.tables.iter().fold(Engine::builder(), add);
    if let Some(max_bytes) = options.max_bytes.or(config.max_bytes) {
        builder = builder.max_bytes(max_bytes);
    }
    if let Some((tier, _)) = &tier {
        builder = builder.cold_store(Arc::clone(tier) as Arc<dyn ColdStore>);
    }
    if let Some(longest_wait) = options.max_bytes_wait.or(config.max_bytes_wait) {
        builder = builder.max_bytes_wait(longest_wait);
    }
    options.checkpoints.build(config, builder, tier)
}

impl Options {
    /// The disk tier and the memory that chunks may take.
    fn tier(&self, config: &Config) -> Result<Option<(Arc<Tier>, u64)>> {
        let Some(folder) = self.spill_dir.as_ref().or(config.spill_dir.as_ref()) else { return Ok(None) };
        let budget = self.max_bytes.or(config.max_bytes).ok_or_else(|| {
            Failure::usage(
                "--spill-dir needs --max-bytes, the memory that chunks may take before they move to disk",
            )
        })?;
        let tier = Tier::open(folder).map_err(|error| Failure::text(Kind::Runtime, error))?;
        tracing::info!(folder = %tier.folder().display(), "chunks beyond {} move to disk", bytes(budget));
        Ok(Some((Arc::new(tier), budget)))
    }
}

/// What a checkpoint has is loaded all the same.
fn warn_of_full_memory(engine: &Engine) {
    let memory = engine.memory();
    let resident = memory.chunks.resident_bytes();
    if let Some(limit) = memory.max_bytes.filter(|limit| resident > *limit) {
        tracing::warn!(
            "the checkpoint's chunks take {}, and max_bytes is {}: inserts wait until items are removed",
            bytes(resident),
            bytes(limit),
        );
    }
}

/// Such a limiter is what the user asked for, and may be right where nothing is deleted.
fn warn_of_standstill(table: &TableConfig) {
    let limiter = &table.rate_limiter;
    if !limiter.may_deadlock() {
        return;
    }
    let begin = limiter.samples_per_insert * limiter.min_size_to_sample as f64;
    tracing::warn!(
        table = table.name,
        "inserts and samples may end up waiting for each other: max_diff {} is below {}, which is \
         samples_per_insert {} times min_size {}; raise max_diff or lower min_size",
        number(limiter.max_diff),
        number(begin),
        number(limiter.samples_per_insert),
        limiter.min_size_to_sample,
    );
}

/// A server whose output nobody reads is still a server.
fn announce(address: SocketAddr, config: &Config) {
    if let Err(error) = output::line(&format!("relive listening on {address}")) {
        tracing::warn!(%error, "cannot write to stdout");
    }
    let tables = config.tables.iter().map(|table| table.name.as_str()).collect::<Vec<_>>().join(", ");
    tracing::info!(%address, tables, "listening");
}

/// Why a server ended that should have gone on, or could not do what it does at the end.
fn ended(error: std::io::Error) -> Failure {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<EngineError>()) {
        Some(error) => Failure::text(Kind::Runtime, format!("{error}; earlier checkpoints stay valid")),
        None => broken(error),
    }
}

fn broken(error: std::io::Error) -> Failure {
    Failure::new(Kind::Runtime, anyhow::Error::new(error).context("the listening socket broke"))
}
