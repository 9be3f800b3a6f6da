//! `relive rl learner`, `actor` and `evaluator`: a run as several processes around a server.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use clap::Args;
use relive_client::ClientOptions;
use relive_client::blocking::Client;
use relive_rl::dqn::{DqnConfig, Policy};
use relive_rl::experiment::{Report, Stop};
use relive_rl::logging::Logger;
use relive_rl::remote::{RemoteActor, RemoteLearner, act, evaluate, is_over, learn};

use super::agent::AgentOptions;
use super::agent::TrainedPolicy;
use super::figures::Watcher;
use super::reach::reach;
use super::records::Records;
use super::runs::About;
use super::shown::Shown;
use super::train::Length;
use crate::failure::{Failure, Kind, Result};
use crate::output;
use crate::security::ClientSecurity;
use crate::server::Target;
use crate::units::parse_seconds;

/// What all processes of a run must be told alike.
#[derive(Debug, Clone, Args)]
struct Common {
    #[command(flatten)]
    agent: AgentOptions,
    /// Address of the server with the run's tables, host:port
    #[arg(long, value_name = "ADDR")]
    server: String,
    /// The environment: an identifier of bsuite, such as catch/0, or a classic control task, such as CartPole-v1
    #[arg(long, value_name = "NAME")]
    env: String,
    /// Everything random follows from it
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true)]
    seed: u64,
    /// How long to wait for a server that is not there yet
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = parse_seconds)]
    timeout: Duration,
    #[command(flatten)]
    security: ClientSecurity,
}

impl Common {
    /// A client of the server, once it is there.
    fn client(&self) -> Result<Client> {
        reach(&Target {
            address: self.server.clone(),
            timeout: self.timeout,
            security: self.security.clone(),
        })?;
        let options = self.security.apply(ClientOptions::default())?;
        Client::connect_with(&self.server, options)
            .map_err(|error| Failure::usage(format!("--server {}: {error}", self.server)))
    }

    fn settings(&self) -> Result<DqnConfig> {
        self.agent.dqn(&self.env)
    }
}

/// Options of `relive rl learner`.
#[derive(Debug, Args)]
pub(crate) struct LearnerOptions {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    length: Length,
    #[command(flatten)]
    records: Records,
    /// Where the trained policy goes (safetensors)
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
}

/// Learns, and prints the final figures.
pub(crate) fn learner(options: &LearnerOptions) -> Result {
    let LearnerOptions { common, length, .. } = options;
    let (config, client, stop) = (common.settings()?, common.client()?, Stop::new());
    let (agent, environment) = (common.agent.name().to_owned(), common.env.clone());
    let about = About { agent, environment, seed: common.seed, actors: 0 };
    let mut loggers = options.records.begin(&about, true)?;
    let make = |seed| Ok(relive_env::make(&common.env, seed)?);
    let run = RemoteLearner {
        agent: &config,
        client: &client,
        environment: &common.env,
        seed: common.seed,
        env_steps: length.steps,
        stop: &stop,
    };
    let shown = Shown::new(length.steps);
    let mut watcher = Watcher::new(length.until, length.episodes, stop.clone());
    let mut unlogged = None;
    let trained = learn(&run, &make, &mut |report: &Report| {
        watcher.note(report);
        shown.note(report, &watcher);
        if let Err(error) = loggers.write(report) {
            unlogged.get_or_insert(error);
            stop.stop();
        }
    });
    shown.finish();
    let trained = trained?;
    unlogged.map_or(Ok(()), Err)?;
    loggers.flush()?;
    if let Some(path) = &options.policy {
        TrainedPolicy::Dqn(Box::new(Policy::of(&trained, &config)?)).save(path)?;
    }
    let figures = watcher.figures(trained.summary);
    options.records.end(&about, &figures)?;
    output::line(&figures.told(&common.env))?;
    Ok(())
}

/// Options of `relive rl actor`.
#[derive(Debug, Clone, Args)]
pub(crate) struct ActorOptions {
    #[command(flatten)]
    common: Common,
    /// Tells it from the other actors of the run
    #[arg(long, value_name = "N", default_value_t = 0)]
    number: u16,
}

/// Plays until the learner has enough.
pub(crate) fn actor(options: &ActorOptions) -> Result {
    let (client, config) = (options.common.client()?, options.common.settings()?);
    let (tell, told) = channel();
    let played = Arc::new(Played::default());
    let acting = (client.clone(), options.clone(), Arc::clone(&played));
    thread::spawn(move || {
        let (client, options, played) = acting;
        // Nobody listens any more when the run is over.
        let _ = tell.send(play(&options, &config, &client, &played));
    });
    // The table may hold the actor back when the learner has ended: it does not wait for that.
    loop {
        match told.recv_timeout(LOOK_EVERY) {
            Ok(ended) => break ended?,
            Err(RecvTimeoutError::Timeout) if has_ended(&client)? => {
                break told.recv_timeout(PATIENCE).unwrap_or(Ok(()))?;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Failure::text(Kind::Runtime, "the actor ended with a panic"));
            }
        }
    }
    let [episodes, steps] = [&played.episodes, &played.steps].map(|count| count.load(Ordering::Relaxed));
    output::line(&format!("{}: {episodes} episodes, {steps} steps", options.common.env))?;
    Ok(())
}

/// Time between two looks whether the learner has ended.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// For how long an actor may go on when it has.
const PATIENCE: Duration = Duration::from_secs(2);

fn has_ended(client: &Client) -> Result<bool> {
    // Without a learner yet there is nothing to be over.
    let tables = client.server_info().map_err(Failure::from)?.tables;
    let is_there = tables.iter().any(|table| table.config.name == "variables" && table.current_size > 0);
    Ok(is_there && is_over(client)?)
}

/// Episodes that were played to their end, and their steps.
#[derive(Default)]
struct Played {
    episodes: AtomicU64,
    steps: AtomicU64,
}

fn play(options: &ActorOptions, config: &DqnConfig, client: &Client, played: &Played) -> Result {
    let common = &options.common;
    let stop = Stop::new();
    let run = RemoteActor { agent: config, client, environment: &common.env, seed: common.seed, stop: &stop };
    let make = |seed| Ok(relive_env::make(&common.env, seed)?);
    act(&run, usize::from(options.number), &make, &mut |episode| {
        played.episodes.fetch_add(1, Ordering::Relaxed);
        played.steps.fetch_add(episode.length, Ordering::Relaxed);
    })?;
    Ok(())
}

/// Options of `relive rl evaluator`.
#[derive(Debug, Args)]
pub(crate) struct EvaluatorOptions {
    #[command(flatten)]
    common: Common,
    /// Episodes that show in the end what was learned
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    episodes: u64,
}

/// Plays without exploring until the learner has ended, and then shows what was learned.
pub(crate) fn evaluator(options: &EvaluatorOptions) -> Result {
    let EvaluatorOptions { common, episodes } = options;
    let (config, client, stop) = (common.settings()?, common.client()?, Stop::new());
    let environment = common.env.as_str();
    let run = RemoteActor { agent: &config, client: &client, environment, seed: common.seed, stop: &stop };
    let make = |seed| Ok(relive_env::make(&common.env, seed)?);
    let (mut last, mut sum) = (0_u32, 0.0);
    evaluate(&run, *episodes, &make, &mut |episode, is_last| {
        if is_last {
            last += 1;
            sum += episode.episode_return;
        }
    })?;
    let mean = sum / f64::from(last.max(1));
    output::line(&format!("{}: mean return {mean:.3} over {last} episodes without exploring", common.env))?;
    Ok(())
}
