//! `relive rl train`: trains an agent and shows its progress.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, ValueEnum};
use relive_agents::about;
use relive_env::{Environment, ReferenceScores};
use relive_rl::logging::Loggers;
use relive_rl::plan::MakeEnvironment;
use relive_rl::run::{Checkpoints, Evaluation, Graph, Report, RunOptions, Stop, train};
use relive_rl::{Agent, PolicyContext, Purpose, RlError};

use super::agent::{AgentOptions, save_policy};
use super::figures::{Figures, Watcher};
use super::places;
use super::plot;
use super::processes::Executor;
use super::records::Records;
use super::run_server::RunServer;
use super::runs::About;
use super::shown::Shown;
use super::supervisor::Supervisor;
use crate::config;
use crate::failure::{Failure, Kind, Result};
use crate::jobs::{Job, Registered, expect_name};
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
    /// Seed of all randomness
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true)]
    seed: u64,
    /// The run's name in `relive job`, if its tables are served [default: the agent and the number of the process]
    #[arg(long, value_name = "NAME", value_parser = expect_name)]
    name: Option<String>,
    #[command(flatten)]
    executor: Executor,
    #[command(flatten)]
    length: Length,
    #[command(flatten)]
    data: Data,
    /// Begin with the networks, the optimizer and the statistics of an earlier run of the same agent: a folder of its
    /// checkpoints
    #[arg(long, value_name = "DIR")]
    warm_start: Option<PathBuf>,
    #[command(flatten)]
    evaluate: Evaluate,
    /// Mean returns of a random policy and of an expert, which give evaluations a normalized score from 0 to 100
    /// [default: those of native environments; none for bsuite's]
    #[arg(long, value_name = "RANDOM,EXPERT", value_parser = reference_scores, allow_hyphen_values = true, requires = "evaluate_every")]
    reference_scores: Option<ReferenceScores>,
    #[command(flatten)]
    saved: OutputOptions,
    #[command(flatten)]
    records: Records,
    /// Draw the run's learning curve at the end: a .png or .svg file; requires --log-dir
    #[arg(long, value_name = "FILE", requires = "log_dir")]
    plot: Option<PathBuf>,
    /// Print the graph of the plan at the end, with the number of items that passed each operator
    #[arg(long, value_enum, value_name = "FORMAT")]
    graph: Option<GraphFormat>,
    /// IP address and port of a dashboard of the run's tables, as in 127.0.0.1:9090; requires --actors
    #[arg(long, value_name = "ADDR", value_parser = config::parse_socket)]
    http: Option<SocketAddr>,
}

/// The default number of steps of a run.
const STEPS: u64 = 10_000;

/// When a run ends.
#[derive(Debug, Clone, Args)]
pub(super) struct Length {
    /// Steps in the environment, of all actors together [default: 10000; in a suite, those of its tasks]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), allow_negative_numbers = true)]
    pub(super) steps: Option<u64>,
    /// End the run after this number of learner steps, if that is earlier
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), allow_negative_numbers = true)]
    pub(super) learner_steps: Option<u64>,
    /// End the run after this number of episodes, if that is earlier
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), allow_negative_numbers = true)]
    pub(super) episodes: Option<u64>,
    /// End the run when the mean return of the last 20 episodes reaches this value
    #[arg(long, value_name = "RETURN", value_parser = finite, allow_negative_numbers = true)]
    pub(super) until: Option<f64>,
}

impl Length {
    /// Returns the number of steps in the environment.
    pub(super) fn steps(&self) -> u64 {
        self.steps.unwrap_or(STEPS)
    }
}

/// The data that the agent learns from instead of acting.
#[derive(Debug, Clone, Args)]
pub(super) struct Data {
    /// A folder of recorded episodes (relive rl record), or a file of D4RL's layout (.npz), to learn from instead of
    /// acting; requires --learner-steps
    #[arg(
        long = "data",
        value_name = "PATH",
        requires = "learner_steps",
        conflicts_with_all = ["steps", "episodes", "until"]
    )]
    pub(super) path: Option<PathBuf>,
}

impl Data {
    /// Checks that data is given if the agent learns only from data.
    pub(super) fn expect(&self, agent: &str) -> Result {
        let needs_it = about(agent).is_some_and(|about| !about.acts());
        if !needs_it || self.path.is_some() {
            return Ok(());
        }
        let text = "this agent learns only from recorded episodes; give --data PATH (relive rl record creates them) and --learner-steps N";
        Err(Failure::usage(format!("{agent}: {text}")))
    }

    /// Adds the name of the option to an error that the option caused.
    pub(super) fn with_option(&self, error: RlError) -> Failure {
        let given = self.path.as_ref().map(|path| path.display().to_string());
        let is_of_data = match error.cause() {
            RlError::Recording { path, .. } | RlError::Dataset { path, .. } => Some(path) == given.as_ref(),
            _ => false,
        };
        let failure = Failure::from(error);
        if is_of_data { failure.of("--data") } else { failure }
    }
}

/// When the policy is evaluated.
#[derive(Debug, Clone, Args)]
pub(super) struct Evaluate {
    /// Evaluate the policy without exploration at this interval of steps, and at the end
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

/// The files that the run leaves on disk.
#[derive(Debug, Clone, Args)]
struct OutputOptions {
    /// Folder for checkpoints of the whole run; the run resumes from the newest one, if there is one
    #[arg(long, value_name = "DIR")]
    checkpoint_dir: Option<PathBuf>,
    /// Steps from one checkpoint to the next
    #[arg(long, value_name = "STEPS", default_value_t = 10_000, requires = "checkpoint_dir")]
    checkpoint_every: u64,
    /// File for the trained policy (safetensors)
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
}

/// Trains, and prints the final figures.
pub(crate) fn run(options: &Options) -> Result {
    // Captures all lines, starting with the first, for programs that observe the run from outside.
    output::capture();
    options.executor.validate()?;
    options.expect_together()?;
    options.expect_places()?;
    if options.executor.has_server() && options.saved.checkpoint_dir.is_some() {
        let text = "--checkpoint-dir cannot be combined with --server: the server saves the run (relive serve --checkpoint-dir)";
        return Err(Failure::usage(text));
    }
    // The run is checked first, so that nothing is served or started for an impossible run.
    let agent = options.checked_agent()?;
    let run_server = options.executor.run_server(options.http)?;
    let (mut run, about) = (options.run(run_server.as_ref())?, options.about(agent.as_ref()));
    let _listed = options.listed(run_server.as_ref())?;
    let workers = options.executor.supervisor(run_server.as_ref())?;
    run.stop = workers.as_ref().map_or_else(Stop::new, Supervisor::stop);
    run.begun = workers.as_ref().map(Supervisor::begun);
    let stop = run.stop.clone();
    signals::stop_in_order("run", move || stop.complete())
        .map_err(|error| Failure::text(Kind::Runtime, error))?;
    // The files are not created until a signal can stop the run properly.
    run.loggers = options.loggers(&about, &run)?;
    let trained = options.train(&agent, &run);
    let ended = workers.map_or(Ok(()), |workers| workers.end(trained.is_err()));
    // A worker that cannot continue ends the run, which then reports its results.
    let (figures, graph, unsaved) = trained.and_then(|trained| ended.map(|()| trained))?;
    let figures = figures.scored(options.reference_scores.or_else(|| ReferenceScores::of(&options.env)));
    options.records.end(&about, &figures)?;
    output::line(&figures.describe(&options.env))?;
    if let Some((folder, file)) = options.records.folder().zip(options.plot.as_deref()) {
        plot::curves(&[folder.to_owned()], file).map_err(|failure| failure.of("--plot"))?;
    }
    match (options.graph, &graph) {
        (None, _) => {}
        (Some(GraphFormat::Text), graph) => output::line(graph.text.trim_end())?,
        (Some(GraphFormat::Mermaid), graph) => output::line(graph.mermaid.trim_end())?,
        (Some(GraphFormat::Json), graph) => output::line(&graph.json)?,
    }
    unsaved.map_or(Ok(()), Err)
}

/// How the graph of a plan is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum GraphFormat {
    /// For people
    Text,
    /// For Mermaid, which notebooks and GitHub render
    Mermaid,
    /// For programs
    Json,
}

impl Options {
    /// Checks the combinations of options that set what the agent learns from, and of the options for drawing.
    pub(super) fn expect_together(&self) -> Result {
        self.data.expect(self.agent.name())?;
        if self.data.path.is_some() && self.executor.learners() > 1 {
            return Err(Failure::usage(
                "--data cannot be combined with --learners: only one process reads the episodes",
            ));
        }
        if self.data.path.is_some() && self.executor.actors() > 0 {
            let text = "--data cannot be combined with --actors: a run that learns from recorded episodes does not act";
            return Err(Failure::usage(text));
        }
        let Some(plot) = &self.plot else { return Ok(()) };
        plot::expect_picture(plot).map_err(|failure| failure.of("--plot"))?;
        if !self.records.has_json_lines() {
            return Err(Failure::usage("--plot requires jsonl among --logs"));
        }
        if self.data.path.is_some() && self.evaluate.options().is_none() {
            let text = "--plot with --data requires --evaluate-every: a run that does not act has no episodes of its own";
            return Err(Failure::usage(text));
        }
        Ok(())
    }

    /// Returns the agent, checked to have valid settings and to support the environment.
    pub(super) fn checked_agent(&self) -> Result<Arc<dyn Agent>> {
        let agent = self.agent.make_agent(&self.env)?;
        agent.validate()?;
        let environment = relive_env::make(&self.env, 0).map_err(RlError::from)?;
        agent.policy(&PolicyContext::alone(environment.spec(), Purpose::Evaluation, &[]))?;
        Ok(agent)
    }

    /// Returns whether the command line does not determine where the workers run.
    pub(super) fn leaves_executor_open(&self) -> bool {
        self.executor.is_default()
    }

    /// Checks that the final files can be written, before a run that may be long.
    fn expect_places(&self) -> Result {
        let policy = self.saved.policy.as_deref();
        let files = [("--policy", policy), ("--json", self.records.json()), ("--plot", self.plot.as_deref())];
        let made = [self.records.folder(), self.saved.checkpoint_dir.as_deref()];
        let made: Vec<&Path> = made.into_iter().flatten().collect();
        let mut given = files.into_iter().filter_map(|(option, path)| Some((option, path?)));
        given.try_for_each(|(option, path)| places::expect_file(option, path, &made))?;
        policy.map_or(Ok(()), |path| places::expect_policy("--policy", path))
    }

    /// Adds the name of the option to an error about its folder.
    fn with_option(&self, error: RlError) -> Failure {
        let of_folder = |given: &Option<PathBuf>| {
            let folder = given.as_ref().map(|folder| folder.display().to_string());
            matches!((&error, folder), (RlError::File { path, .. } | RlError::OtherRun { place: path, .. }, Some(folder)) if *path == folder)
        };
        let options = [("--checkpoint-dir", &self.saved.checkpoint_dir), ("--warm-start", &self.warm_start)];
        let option = options.into_iter().find(|(_, folder)| of_folder(folder));
        let failure = self.data.with_option(error);
        match option {
            Some((option, _)) => failure.of(option),
            None => failure,
        }
    }

    /// Returns the loggers of the run. With a server or checkpoints, the folder may contain an earlier part of the run.
    /// A run that was killed before its first checkpoint starts over, and so do its logs.
    fn loggers(&self, about: &About, run: &RunOptions) -> Result<Loggers> {
        let Some(checkpoints) = &run.checkpoints else {
            return self.records.begin(about, self.executor.has_server());
        };
        let any_exist = checkpoints.any_exist().map_err(|error| self.with_option(error))?;
        let loggers = self.records.begin(about, any_exist || !self.records.is_ended()?)?;
        if !any_exist {
            loggers.remove_files()?;
        }
        Ok(loggers)
    }

    /// Registers the run as a job if its tables are served.
    fn listed(&self, run_server: Option<&RunServer>) -> Result<Option<Registered>> {
        let of_board = run_server
            .map(|run_server| (run_server.near_address().to_string(), run_server.token().map(str::to_owned)));
        let Some((address, token)) = self.executor.server()?.or(of_board) else {
            return match &self.name {
                Some(_) => Err(Failure::usage(
                    "--name requires --on processes or --http: `relive job` finds only runs whose tables are served",
                )),
                None => Ok(None),
            };
        };
        let (agent, environment) = (self.agent.name().to_owned(), self.env.clone());
        let http = run_server.and_then(RunServer::http).map(|http| http.to_string());
        match self.name.clone() {
            Some(name) => Job { name, agent, environment, address, http, token }.register(),
            None => {
                let name = format!("{agent}-{}", std::process::id());
                Ok(Job { name, agent, environment, address, http, token }.register_renamed())
            }
        }
    }

    fn about(&self, agent: &dyn Agent) -> About {
        About {
            agent: self.agent.name().to_owned(),
            environment: self.env.clone(),
            seed: self.seed,
            actors: self.executor.actors(),
            settings: About::settings_of(agent),
        }
    }

    fn run(&self, run_server: Option<&RunServer>) -> Result<RunOptions> {
        let checkpoints = self.saved.checkpoint_dir.clone();
        Ok(RunOptions {
            environment: self.env.clone(),
            // A run that learns from data takes no steps in an environment.
            env_steps: if self.data.path.is_some() { 0 } else { self.length.steps() },
            learner_steps: self.length.learner_steps,
            data: self.data.path.clone(),
            seed: self.seed,
            actors: self.executor.actors(),
            learners: Some(self.executor.learners()),
            processes: self.executor.processes()?,
            stop: Stop::new(),
            evaluation: self.evaluate.options(),
            checkpoints: checkpoints.map(|folder| Checkpoints { folder, every: self.saved.checkpoint_every }),
            warm_start: self.warm_start.clone(),
            watch: run_server.map(RunServer::watch),
            log_lines: Some(output::capture()),
            ..RunOptions::default()
        })
    }

    /// Trains the agent, and writes its policy. Returns the results, and the reason why the last checkpoint could not be
    /// written.
    fn train(&self, agent: &Arc<dyn Agent>, run: &RunOptions) -> Result<(Figures, Graph, Option<Failure>)> {
        let name = self.env.clone();
        let make = MakeEnvironment::new(move |seed| Ok(relive_env::make(&name, seed)?));
        let shown = Shown::new(run);
        let mut watcher = Watcher::new(self.length.until, self.length.episodes, run.stop.clone());
        let trained = train(agent, run, &make, &mut |report: &Report| {
            watcher.note(report);
            shown.note(report, &watcher);
        });
        shown.finish();
        let trained = trained.map_err(|error| self.with_option(error))?;
        if let Some(path) = &self.saved.policy {
            save_policy(agent.as_ref(), &trained, path)?;
        }
        let unsaved = trained.unsaved.map(|error| self.with_option(error));
        Ok((watcher.figures(trained.summary), trained.graph, unsaved))
    }
}

/// Parses a finite return, which episodes can reach.
fn finite(text: &str) -> std::result::Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
    number.ok_or_else(|| "must be a finite number".to_owned())
}

/// Parses two reference returns.
fn reference_scores(text: &str) -> std::result::Result<ReferenceScores, String> {
    let expected = "must be two different finite numbers, as in -1200,-150";
    let (random, expert) = text.split_once(',').ok_or(expected)?;
    let numbers = random.trim().parse().ok().zip(expert.trim().parse().ok()).ok_or(expected)?;
    ReferenceScores::new(numbers.0, numbers.1).map_err(|_| expected.to_owned())
}
