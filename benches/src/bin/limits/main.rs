//! Measures the limits that memory and the kernel set on this machine, with which Relive's figures are compared.
//!
//! ```console
//! $ cargo run --release -p relive-benches --bin limits -- 1
//! ```
//!
//! Argument: seconds for each figure. Prints one line of JSON, rates in bytes per second: gathering 256 rows at random
//! places of a table beyond all caches into one array, by one thread and by two, and the transfer of large blocks
//! between two processes over loopback TCP, loopback TCP encrypted as in TLS, a Unix socket and shared memory.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "the result is the purpose of the program")]

mod gather;
mod peer;
mod rate;
mod receiver;
mod records;
mod shared;
mod stream;

use std::process::ExitCode;
use std::time::Duration;

use relive_benches::Outcome;

const USAGE: &str = "usage: limits SECONDS";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match run(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[&str]) -> Outcome {
    match words {
        [receiver::MARK, transport, place] => peer::run(transport, place),
        [seconds] => measure(Duration::try_from_secs_f64(seconds.parse()?)?),
        _ => Err(USAGE.into()),
    }
}

fn measure(time: Duration) -> Outcome {
    let gather = gather::measure(time);
    let tcp = stream::tcp(time)?;
    let encrypted = stream::encrypted(time)?;
    let unix = stream::unix(time)?;
    let shared = shared::measure(time)?;
    println!(
        r#"{{"gather": {gather}, "tcp": {tcp:.0}, "tcp_encrypted": {encrypted:.0}, "unix": {unix:.0}, "shared_memory": {shared:.0}}}"#
    );
    Ok(())
}
