//! The arguments of the program.

use std::path::PathBuf;
use std::time::Duration;

use relive_benches::Outcome;

pub(crate) struct Arguments {
    /// The server's program.
    pub(crate) server: PathBuf,
    /// The folder of the server's checkpoints.
    pub(crate) folder: PathBuf,
    pub(crate) minutes: f64,
    pub(crate) seed: u64,
    pub(crate) json: Option<PathBuf>,
    /// Whether the server runs in its own network namespace.
    pub(crate) namespace: bool,
}

const USAGE: &str = "usage: soak SERVER FOLDER [--minutes N] [--seed S] [--json FILE] [--namespace yes|no]";

impl Arguments {
    pub(crate) fn parse(words: &[String]) -> Outcome<Arguments> {
        let [server, folder, options @ ..] = words else { return Err(USAGE.into()) };
        let (server, folder) = (server.into(), folder.into());
        let mut arguments = Arguments { server, folder, minutes: 2.0, seed: 1, json: None, namespace: false };
        for option in options.chunks(2) {
            let [name, value] = option else { return Err(USAGE.into()) };
            match name.as_str() {
                "--minutes" => arguments.minutes = value.parse()?,
                "--seed" => arguments.seed = value.parse()?,
                "--namespace" => arguments.namespace = value == "yes",
                "--json" => arguments.json = Some(value.into()),
                _ => return Err(format!("unknown option {name}; {USAGE}").into()),
            }
        }
        match arguments.minutes {
            minutes if minutes.is_finite() && (0.2..=10_000.0).contains(&minutes) => Ok(arguments),
            minutes => Err(format!("--minutes must be from 0.2 to 10000, not {minutes}").into()),
        }
    }

    pub(crate) fn duration(&self) -> Duration {
        Duration::from_secs_f64(self.minutes * 60.0)
    }

    /// Returns how long the part with repeated kills lasts.
    pub(crate) fn rough_part(&self) -> Duration {
        self.duration().mul_f64(0.6)
    }
}
