//! The arguments of the program.

use std::path::PathBuf;

use crate::content::ITEM_BYTES;
use relive_benches::Outcome;

pub(crate) struct Arguments {
    /// Where files are written.
    pub(crate) folder: PathBuf,
    pub(crate) gigabytes: f64,
    pub(crate) rounds: usize,
    only: Option<Part>,
    /// A Python that has dm-reverb.
    pub(crate) python: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Load,
    Rates,
    Peer,
}

impl Arguments {
    pub(crate) fn parse(words: &[String]) -> Outcome<Self> {
        let mut words = words.iter();
        let folder = words.next().ok_or("usage: checkpoints FOLDER [--gigabytes N] [--rounds N] …")?.into();
        let mut parsed = Self { folder, gigabytes: 4.0, rounds: 3, only: None, python: None };
        while let Some(option) = words.next() {
            let value = words.next().ok_or_else(|| format!("{option} needs a value"))?;
            match option.as_str() {
                "--gigabytes" => parsed.gigabytes = value.parse()?,
                "--rounds" => parsed.rounds = value.parse()?,
                "--only" => parsed.only = Some(part(value)?),
                "--python" => parsed.python = Some(value.into()),
                _ => return Err(format!("{option} is unknown").into()),
            }
        }
        Ok(parsed)
    }

    pub(crate) fn measures(&self, part: Part) -> bool {
        self.only.is_none_or(|only| only == part)
    }

    /// Returns the number of items for the requested bytes.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number that people type")]
    pub(crate) fn items(&self) -> u64 {
        (self.gigabytes * 1e9 / ITEM_BYTES as f64).round() as u64
    }
}

fn part(word: &str) -> Outcome<Part> {
    match word {
        "load" => Ok(Part::Load),
        "rates" => Ok(Part::Rates),
        "peer" => Ok(Part::Peer),
        _ => Err(format!("there is no part {word}: load, rates, peer").into()),
    }
}
