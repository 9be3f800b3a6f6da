//! A server with the tables that `throughput` uses, for measuring client and server in processes of their own.
//!
//! ```console
//! $ cargo run --release -p relive-client --example serve -- 127.0.0.1:8000
//! ```

use relive_engine::Engine;
use relive_server::{ServerOptions, bind, serve};
use relive_table::{SelectorKind, TableConfig};

#[tokio::main(worker_threads = 2)]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).ok_or("usage: serve ADDRESS")?;
    let engine = Engine::builder()
        .table(TableConfig::new("uniform"))
        .table(TableConfig::new("small").max_size(1000))
        .table(TableConfig::new("prio").sampler(SelectorKind::Prioritized { exponent: 0.6 }))
        .build()?;
    let listener = bind(address.parse()?).await?;
    let stop = async { tokio::signal::ctrl_c().await.unwrap_or_default() };
    serve(listener, engine, ServerOptions::default(), stop).await?;
    Ok(())
}
