//! Measures the costs of checkpoints: for clients that insert and sample at the same time, on the disk, and for a
//! restore.
//!
//! ```console
//! $ cargo xtask bench --checkpoints -- FOLDER --gigabytes 4
//! ```
//!
//! Arguments: a folder on the disk to measure, then `--gigabytes N` (of items of 4 kB; default 4), `--rounds N`
//! (default 3), `--only load|rates|peer` and `--python PATH`, a Python with dm-reverb; without it, there is no
//! comparison with dm-reverb. Up to three times as many bytes are on the disk at once; all files, which are below
//! FOLDER, are removed at the end.
//!
//! The compared measurements alternate within one run, and are repeated.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "the result is the purpose of the program")]

mod arguments;
mod clients;
mod content;
mod files;
mod load;
mod peer;
mod rates;
mod restore;

use std::process::ExitCode;

use relive_benches::Outcome;

use arguments::{Arguments, Part};

/// The same allocator as in `relive serve`.
#[global_allocator]
static GLOBAL: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // Turns huge pages off, as in `relive serve`.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    let words: Vec<String> = std::env::args().skip(1).collect();
    let done = match restore::asked_for(&words) {
        Some(folder) => restore::run(folder),
        None => Arguments::parse(&words).and_then(|arguments| measure(&arguments)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(arguments: &Arguments) -> Outcome {
    std::fs::create_dir_all(&arguments.folder)?;
    if arguments.measures(Part::Load) {
        load::measure(arguments)?;
    }
    if arguments.measures(Part::Rates) {
        rates::measure(arguments)?;
    }
    if let Some(python) = arguments.python.as_deref().filter(|_| arguments.measures(Part::Peer)) {
        peer::measure(arguments, python)?;
    }
    Ok(())
}
