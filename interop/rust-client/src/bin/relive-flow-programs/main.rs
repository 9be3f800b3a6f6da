//! Runs the random programs of `interop/flow`: reads a list of programs as JSON, and writes the items that each program
//! yields on each executor.

mod program;
mod run;

use std::collections::BTreeMap;

use relive_flow::Executor;
use serde_json::Value;

use crate::program::Program;

fn main() -> Result<(), String> {
    let programs = serde_json::from_reader(std::io::stdin()).map_err(|error| error.to_string())?;
    serde_json::to_writer(std::io::stdout(), &answer(programs)?).map_err(|error| error.to_string())
}

/// Returns the items that each program yields, by the name of the executor.
fn answer(programs: Vec<Program>) -> Result<Vec<BTreeMap<&'static str, Vec<Value>>>, String> {
    let executors = [("serial", Executor::Serial), ("threads", Executor::Threads)];
    let of_program = |(number, program): (usize, Program)| -> Result<_, String> {
        let on = |(name, executor): &(&'static str, Executor)| match run::run(&program, executor) {
            Ok(items) => Ok((*name, items)),
            Err(error) => Err(format!("program {number} on {name}: {error}")),
        };
        executors.iter().map(on).collect()
    };
    programs.into_iter().enumerate().map(of_program).collect()
}
