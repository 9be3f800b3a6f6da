//! `relive rl train`: an agent that learns, with its progress.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use relive_env::EnvError;
use relive_rl::RlError;
use relive_rl::dqn::DqnConfig;
use relive_rl::experiment::{EpisodeReport, RunOptions, Summary, train};

use crate::failure::{Failure, Kind, Result};
use crate::output;

/// Episodes that the return shown is the mean of.
const SHOWN_EPISODES: usize = 20;

/// Options of `relive rl train`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The agent
    #[arg(value_enum)]
    agent: Agent,
    /// The environment: an identifier of bsuite, such as catch/0, or a classic control task, such as CartPole-v1
    #[arg(long, value_name = "NAME")]
    env: String,
    /// Steps in the environment, of all actors together
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    steps: u64,
    /// Everything random follows from it
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Threads that act beside the one that learns; 0: one thread does both in turn
    #[arg(long, value_name = "K", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=64))]
    actors: u8,
    /// Settings of the agent (TOML), as in `batch_size = 64`; what is not there is Acme's default
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where the final figures go
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// An agent's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Agent {
    /// Deep Q-network: double Q-learning, transitions over several steps, prioritised replay
    Dqn,
}

/// Trains, and prints the final figures.
pub(crate) fn run(options: &Options) -> Result {
    let Agent::Dqn = options.agent;
    let config = options.config.as_deref().map_or(Ok(DqnConfig::default()), config_of)?;
    let run =
        RunOptions { env_steps: options.steps, seed: options.seed, actors: usize::from(options.actors) };
    let make = |seed| Ok(relive_env::make(&options.env, seed)?);
    let mut shown = Shown::new(options.steps);
    let summary = train(&config, &run, &make, &mut |episode| shown.note(episode))?;
    shown.finish();
    if let Some(path) = &options.json {
        write_json(path, &summary)?;
    }
    output::line(&told(&options.env, &summary))?;
    Ok(())
}

fn config_of(path: &Path) -> Result<DqnConfig> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::usage(format!("--config {}: {error}", path.display())))?;
    toml::from_str(&text).map_err(|error| Failure::usage(format!("{}: {}", path.display(), error.message())))
}

fn write_json(path: &Path, summary: &Summary) -> Result {
    let json = serde_json::to_string_pretty(summary).map_err(|error| Failure::text(Kind::Runtime, error))?;
    std::fs::write(path, json + "\n")
        .map_err(|error| Failure::text(Kind::Runtime, format!("--json {}: {error}", path.display())))
}

fn told(environment: &str, summary: &Summary) -> String {
    let Summary {
        mean_return_last_100,
        episodes,
        env_steps,
        learner_steps,
        env_steps_per_s,
        samples_per_insert,
    } = summary;
    format!(
        "{environment}: mean return {mean_return_last_100:.3} over the last 100 of {episodes} episodes; {env_steps} steps \
         ({env_steps_per_s:.0}/s), {learner_steps} learner steps, {samples_per_insert:.1} samples per insert"
    )
}

/// How a run goes, on stderr if that is a terminal.
struct Shown {
    bar: ProgressBar,
    last: VecDeque<f64>,
}

impl Shown {
    fn new(steps: u64) -> Shown {
        let style = ProgressStyle::with_template("{bar:30} {percent:>3} %  {msg}")
            .expect("the template is well-formed");
        let bar = ProgressBar::with_draw_target(Some(steps), ProgressDrawTarget::stderr()).with_style(style);
        Shown { bar, last: VecDeque::new() }
    }

    #[expect(clippy::cast_precision_loss, reason = "rates for people")]
    fn note(&mut self, episode: &EpisodeReport) {
        self.last.push_back(episode.episode_return);
        if self.last.len() > SHOWN_EPISODES {
            self.last.pop_front();
        }
        let mean = self.last.iter().sum::<f64>() / self.last.len() as f64;
        let rate = episode.env_steps as f64 / episode.seconds.max(f64::MIN_POSITIVE);
        self.bar.set_position(episode.env_steps);
        self.bar.set_message(format!(
            "episode {}: return {mean:.2}, {rate:.0} steps/s, {} learner steps",
            episode.episode, episode.learner_steps
        ));
    }

    fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

impl From<RlError> for Failure {
    fn from(error: RlError) -> Self {
        let is_usage = matches!(&error, RlError::Setting { .. } | RlError::Environment(EnvError::Setting(_)));
        let kind = if is_usage { Kind::Usage } else { Kind::Runtime };
        Self::text(kind, error)
    }
}
