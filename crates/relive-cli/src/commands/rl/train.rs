//! `relive rl train`: an agent that learns, with its progress.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, ValueEnum};
use relive_env::{EnvError, Environment, ReferenceScores};
use relive_rl::logging::{Logger, Loggers};
use relive_rl::plan::MakeEnvironment;
use relive_rl::run::{Checkpoints, Evaluation, Graph, Report, RunOptions, Stop, train};
use relive_rl::{Agent, Purpose, RlError, Seat};

use super::agent::{AgentOptions, save_policy};
use super::board::Board;
use super::figures::{Figures, Watcher};
use super::plot;
use super::processes::Executor;
use super::records::Records;
use super::runs::About;
use super::shown::Shown;
use super::supervisor::Supervisor;
use crate::config;
use crate::failure::{Failure, Kind, Result};
use crate::output;
use crate::signals;

/// Options of `relive rl train`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    agent: AgentOptions,
    /// The environment: an identifier of bsuite, such as catch/0, or a classic control task, such as CartPole-v1
    #[arg(long, value_name = "NAME")]
    env: String,
    /// Everything random follows from it
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true)]
    seed: u64,
    #[command(flatten)]
    executor: Executor,
    #[command(flatten)]
    length: Length,
    /// A folder of recorded episodes (relive rl record) to learn from instead of acting; needs --learner-steps
    #[arg(long, value_name = "DIR", requires = "learner_steps")]
    data: Option<PathBuf>,
    #[command(flatten)]
    evaluate: Evaluate,
    /// Mean returns of a random policy and of an expert, by which evaluations are scored from 0 to 100; those of native environments are known, but for
    /// bsuite's
    #[arg(long, value_name = "RANDOM,EXPERT", value_parser = reference_scores, allow_hyphen_values = true, requires = "evaluate_every")]
    reference_scores: Option<ReferenceScores>,
    #[command(flatten)]
    saved: Saved,
    #[command(flatten)]
    records: Records,
    /// Draws the run's learning curve in the end: a .png or .svg file; needs --log-dir
    #[arg(long, value_name = "FILE", requires = "log_dir")]
    plot: Option<PathBuf>,
    /// Prints the graph of the plan in the end, with the items that have gone through each operator
    #[arg(long, value_enum, value_name = "FORMAT")]
    graph: Option<GraphFormat>,
    /// IP address and port of a dashboard of the run's tables, as in 127.0.0.1:9090; needs actors of their own
    #[arg(long, value_name = "ADDR", value_parser = config::parse_socket)]
    http: Option<SocketAddr>,
}

/// Steps of a run unless `--steps` says otherwise.
const STEPS: u64 = 10_000;

/// When a run ends.
#[derive(Debug, Clone, Args)]
pub(super) struct Length {
    /// Steps in the environment, of all actors together [default: 10000; in a suite those of its tasks]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), allow_negative_numbers = true)]
    pub(super) steps: Option<u64>,
    /// Ends after so many steps of the learner, if that is earlier
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), allow_negative_numbers = true)]
    pub(super) learner_steps: Option<u64>,
    /// Ends after so many episodes, if that is earlier
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), allow_negative_numbers = true)]
    pub(super) episodes: Option<u64>,
    /// Ends when the mean return of the last 20 episodes is as high
    #[arg(long, value_name = "RETURN", value_parser = finite, allow_negative_numbers = true)]
    pub(super) until: Option<f64>,
}

impl Length {
    /// Steps in the environment.
    pub(super) fn steps(&self) -> u64 {
        self.steps.unwrap_or(STEPS)
    }
}

/// When the agent shows what it has learned.
#[derive(Debug, Clone, Args)]
pub(super) struct Evaluate {
    /// Plays without exploring after every so many steps, and at the end
    #[arg(long, value_name = "STEPS", value_parser = clap::value_parser!(u64).range(1..), allow_negative_numbers = true)]
    evaluate_every: Option<u64>,
    /// Episodes of an evaluation
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..), allow_negative_numbers = true)]
    evaluate_episodes: u64,
}

impl Evaluate {
    pub(super) fn options(&self) -> Option<Evaluation> {
        self.evaluate_every.map(|every| Evaluation { every, episodes: self.evaluate_episodes })
    }
}

/// What is left on disk.
#[derive(Debug, Clone, Args)]
struct Saved {
    /// Folder for checkpoints of the whole run, which goes on from the newest if there is one
    #[arg(long, value_name = "DIR")]
    checkpoint_dir: Option<PathBuf>,
    /// Steps from one checkpoint to the next
    #[arg(long, value_name = "STEPS", default_value_t = 10_000, requires = "checkpoint_dir")]
    checkpoint_every: u64,
    /// Where the trained policy goes (safetensors)
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
}

/// Trains, and prints the final figures.
pub(crate) fn run(options: &Options) -> Result {
    options.executor.validate()?;
    options.expect_places()?;
    if options.executor.has_server() && options.saved.checkpoint_dir.is_some() {
        let text = "--checkpoint-dir does not go with --server: a run there is saved with the server (relive serve --checkpoint-dir)";
        return Err(Failure::usage(text));
    }
    let agent = options.agent.made(&options.env)?;
    // Before anything is served or started for a run that cannot be.
    agent.validate()?;
    let environment = relive_env::make(&options.env, 0).map_err(RlError::from)?;
    agent.policy(&Seat::alone(environment.spec(), Purpose::Evaluation, &[]))?;
    let board = options.executor.board(options.http)?;
    let (mut run, about) = (options.run(board.as_ref())?, options.about());
    let is_resumed = options.saved.checkpoint_dir.is_some() || run.processes.is_some();
    let workers = options.executor.supervisor(board.as_ref())?;
    run.stop = workers.as_ref().map_or_else(Stop::new, Supervisor::stop);
    run.begun = workers.as_ref().map(Supervisor::begun);
    let stop = run.stop.clone();
    signals::stop_in_order(move || stop.stop()).map_err(|error| Failure::text(Kind::Runtime, error))?;
    // Files appear when the run can be ended already.
    let loggers = options.records.begin(&about, is_resumed)?;
    let trained = options.train(&agent, &run, loggers);
    let ended = workers.map_or(Ok(()), |workers| workers.end(trained.is_err()));
    // A worker that cannot go on ends the run, which then tells what it has.
    let (figures, graph) = trained.and_then(|trained| ended.map(|()| trained))?;
    let figures = figures.scored(options.reference_scores.or_else(|| ReferenceScores::of(&options.env)));
    options.records.end(&about, &figures)?;
    if let Some((folder, file)) = options.records.folder().zip(options.plot.as_deref()) {
        plot::curves(&[folder.to_owned()], file).map_err(|failure| failure.of("--plot"))?;
    }
    output::line(&figures.told(&options.env))?;
    match (options.graph, &graph) {
        (None, _) => {}
        (Some(GraphFormat::Text), graph) => output::line(graph.text.trim_end())?,
        (Some(GraphFormat::Mermaid), graph) => output::line(graph.mermaid.trim_end())?,
        (Some(GraphFormat::Json), graph) => output::line(&graph.json)?,
    }
    Ok(())
}

/// How the graph of a plan is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum GraphFormat {
    /// For people
    Text,
    /// For Mermaid, which notebooks and GitHub draw
    Mermaid,
    /// For programs
    Json,
}

impl Options {
    /// Whether the files that are written in the end have a place: a run may be long.
    fn expect_places(&self) -> Result {
        let files = [
            ("--policy", self.saved.policy.as_deref()),
            ("--json", self.records.json()),
            ("--plot", self.plot.as_deref()),
        ];
        let made = [self.records.folder(), self.saved.checkpoint_dir.as_deref()];
        let made: Vec<&Path> = made.into_iter().flatten().collect();
        let mut given = files.into_iter().filter_map(|(option, path)| Some((option, path?)));
        given.try_for_each(|(option, path)| expect_place(option, path, &made))
    }

    /// Names the option if the error is of its folder.
    fn of_checkpoints(&self, error: RlError) -> Failure {
        let folder = self.saved.checkpoint_dir.as_ref().map(|folder| folder.display().to_string());
        let is_there =
            matches!((&error, folder), (RlError::File { path, .. }, Some(folder)) if *path == folder);
        let failure = Failure::from(error);
        if is_there { failure.of("--checkpoint-dir") } else { failure }
    }

    fn about(&self) -> About {
        let (agent, environment) = (self.agent.name().to_owned(), self.env.clone());
        About { agent, environment, seed: self.seed, actors: self.executor.actors() }
    }

    fn run(&self, board: Option<&Board>) -> Result<RunOptions> {
        let checkpoints = self.saved.checkpoint_dir.clone();
        Ok(RunOptions {
            environment: self.env.clone(),
            // Who learns from data makes no steps in the environment.
            env_steps: if self.data.is_some() { 0 } else { self.length.steps() },
            learner_steps: self.length.learner_steps,
            data: self.data.clone(),
            seed: self.seed,
            actors: self.executor.actors(),
            processes: self.executor.processes()?,
            stop: Stop::new(),
            evaluation: self.evaluate.options(),
            checkpoints: checkpoints.map(|folder| Checkpoints { folder, every: self.saved.checkpoint_every }),
            watch: board.map(Board::watch),
            ..RunOptions::default()
        })
    }

    fn train(
        &self,
        agent: &Arc<dyn Agent>,
        run: &RunOptions,
        mut loggers: Loggers,
    ) -> Result<(Figures, Graph)> {
        let name = self.env.clone();
        let make = MakeEnvironment::new(move |seed| Ok(relive_env::make(&name, seed)?));
        let shown = Shown::new(self.length.steps());
        let mut watcher = Watcher::new(self.length.until, self.length.episodes, run.stop.clone());
        let mut unlogged = None;
        let trained = train(agent, run, &make, &mut |report: &Report| {
            watcher.note(report);
            shown.note(report, &watcher);
            if let Err(error) = loggers.write(report) {
                // A run without its log is not what was asked for.
                unlogged.get_or_insert(error);
                run.stop.stop();
            }
        });
        shown.finish();
        let trained = trained.map_err(|error| self.of_checkpoints(error))?;
        unlogged.map_or(Ok(()), Err)?;
        loggers.flush()?;
        if let Some(path) = &self.saved.policy {
            save_policy(agent.as_ref(), &trained, path)?;
        }
        Ok((watcher.figures(trained.summary), trained.graph))
    }
}

/// Whether a file can be at a path, as far as that is known before it is written. The run makes some folders itself.
fn expect_place(option: &str, path: &Path, made: &[&Path]) -> Result {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let text = match folder {
        _ if path.is_dir() => "it is a folder; give the name of a file".to_owned(),
        Some(folder) if !folder.is_dir() && !made.iter().any(|made| made.starts_with(folder)) => {
            format!("there is no folder {}", folder.display())
        }
        _ => return Ok(()),
    };
    Err(Failure::usage(format!("{option} {}: {text}", path.display())))
}

/// A return that another one can reach.
fn finite(text: &str) -> std::result::Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
    number.ok_or_else(|| "it must be a finite number".to_owned())
}

/// Two returns, by which others are measured.
fn reference_scores(text: &str) -> std::result::Result<ReferenceScores, String> {
    let expected = "it must be two finite numbers that differ, as in -1200,-150";
    let (random, expert) = text.split_once(',').ok_or(expected)?;
    let numbers = random.trim().parse().ok().zip(expert.trim().parse().ok()).ok_or(expected)?;
    ReferenceScores::new(numbers.0, numbers.1).map_err(|_| expected.to_owned())
}

impl From<RlError> for Failure {
    fn from(error: RlError) -> Self {
        if let RlError::Environment(EnvError::Setting(setting)) = error.cause() {
            let text = format!("environment: expected {}, got {}", setting.expected, setting.actual);
            return Self::usage(text);
        }
        let is_usage = matches!(
            error.cause(),
            RlError::Setting { .. }
                | RlError::OtherRun { .. }
                | RlError::Unsuited { .. }
                | RlError::Dataset { .. }
        );
        let kind = if is_usage { Kind::Usage } else { Kind::Runtime };
        Self::text(kind, error)
    }
}
