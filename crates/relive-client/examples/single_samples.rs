//! Measures how many samples per second a client can read one at a time, with one request for each sample.
//!
//! ```console
//! $ cargo run --release -p relive-client --example single_samples -- localhost:8000 3 uniform
//! ```
//!
//! Arguments: address, seconds, table.

use std::time::{Duration, Instant};

use relive_client::blocking::Client;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [address, seconds, table] = args.as_slice() else {
        return Err("usage: single_samples ADDRESS SECONDS TABLE".into());
    };
    let client = Client::connect(address)?;
    let until = Duration::from_secs_f64(seconds.parse()?);
    let (started, mut samples) = (Instant::now(), 0);
    while started.elapsed() < until {
        samples += client.sample(table, 1)?.len();
    }
    report(samples, started.elapsed());
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the result is the purpose of the program")]
#[expect(clippy::cast_precision_loss, reason = "rates are rounded anyway")]
fn report(samples: usize, took: Duration) {
    println!("{:.0} samples/s, one at a time", samples as f64 / took.as_secs_f64());
}
