//! The Rust client under the control of the interop suite.
//!
//! Reads one JSON command per line ([`command::Command`]), executes it, and answers with one line of JSON: the result,
//! or `{"error": {"kind", "text"}}`. The suite in `interop/tests/test_our_client.py` is the other side.

mod answer;
mod command;
mod driver;
mod failure;
mod pattern;
mod value;

use std::io::{self, BufRead, Write};

use serde_json::{Value, json};

use crate::driver::Driver;
use crate::failure::Failure;

fn main() -> io::Result<()> {
    let mut driver = Driver::default();
    let mut answers = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        writeln!(answers, "{}", answer(&mut driver, &line?))?;
        answers.flush()?;
    }
    Ok(())
}

fn answer(driver: &mut Driver, line: &str) -> Value {
    let result = serde_json::from_str(line)
        .map_err(|error| Failure::new("Driver", format!("no command: {error}")))
        .and_then(|command| driver.carry_out(command));
    result.unwrap_or_else(|failure| json!({"error": {"kind": failure.kind, "text": failure.text}}))
}
