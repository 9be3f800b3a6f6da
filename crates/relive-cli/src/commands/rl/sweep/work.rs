//! `relive rl sweep`: an agent in several environments with several seeds.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::scope;

use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use relive_env::Environment;
use relive_env::bsuite::BsuiteId;
use relive_rl::logging::Logger;
use relive_rl::plan::MakeEnvironment;
use relive_rl::run::{Report, RunOptions, Stop, train};
use relive_rl::{Agent, RlError};

use super::agent::AgentOptions;
use super::bsuite_log::Kept;
use super::figures::{Figures, Watcher};
use super::runs::{self, About, LogFormat};
use super::train::{Evaluate, Length};
use crate::failure::{Failure, Kind, Result};
use crate::output;

/// Options of `relive rl sweep`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    agent: AgentOptions,
    /// An environment, as in `relive rl train`; an experiment of bsuite, such as catch, is all of its environments, and `bsuite` those
    /// of all experiments
    #[arg(long = "env", value_name = "NAME", required = true, value_delimiter = ',')]
    environments: Vec<String>,
    /// Seeds, from 1 on
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// Runs at a time [default: the processors]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Folder with a folder for each run, for `relive rl plot`
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    #[command(flatten)]
    length: Length,
    #[command(flatten)]
    evaluate: Evaluate,
    /// How what the runs tell is written down
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["jsonl"])]
    logs: Vec<LogFormat>,
}

/// Trains, and prints a line for each run.
pub(crate) fn run(options: &Options) -> Result {
    let plans = options.plans()?;
    for Plan { about, .. } in &plans {
        runs::expect_room(&options.out.join(folder_name(about)), (about, false), "--out")?;
    }
    let jobs =
        options.jobs.map_or_else(|| std::thread::available_parallelism().map_or(1, usize::from), usize::from);
    let next = AtomicUsize::new(0);
    let (tell, told) = channel();
    scope(|threads| {
        for _ in 0..jobs.min(plans.len()) {
            let (plans, next, tell) = (&plans, &next, tell.clone());
            threads.spawn(move || work(options, plans, next, &tell));
        }
        drop(tell);
        let style = ProgressStyle::with_template("{bar:30} {pos} of {len} runs").expect("it is well-formed");
        let bar = ProgressBar::with_draw_target(Some(plans.len() as u64), ProgressDrawTarget::stderr());
        let bar = bar.with_style(style);
        let mut failed = None;
        for outcome in told {
            bar.inc(1);
            let line = outcome.and_then(|text: String| bar.suspend(|| Ok(output::line(&text)?)));
            failed = failed.or(line.err());
        }
        bar.finish_and_clear();
        failed.map_or(Ok(()), Err)
    })
}

/// A run.
struct Plan {
    about: About,
    agent: Arc<dyn Agent>,
}

fn work(options: &Options, plans: &[Plan], next: &AtomicUsize, tell: &Sender<Result<String>>) {
    while let Some(plan) = plans.get(next.fetch_add(1, Ordering::Relaxed)) {
        let About { environment, seed, .. } = &plan.about;
        let outcome = one(options, plan).map(|figures| figures.told(&format!("{environment}, seed {seed}")));
        let _ = tell.send(outcome);
    }
}

fn one(options: &Options, plan: &Plan) -> Result<Figures> {
    let Plan { about, agent } = plan;
    let folder = options.out.join(folder_name(about));
    let mut loggers = runs::begin(&folder, about, &options.logs)?;
    let run = RunOptions {
        environment: about.environment.clone(),
        env_steps: options.length.steps,
        learner_steps: options.length.learner_steps,
        seed: about.seed,
        stop: Stop::new(),
        evaluation: options.evaluate.options(),
        ..RunOptions::default()
    };
    let mut watcher = Watcher::new(options.length.until, options.length.episodes, run.stop.clone());
    let (kept, mut unlogged) = (Kept::default(), None);
    let (name, watching) = (about.environment.clone(), kept.clone());
    let make: MakeEnvironment = Arc::new(move |seed: u64| match name.parse::<BsuiteId>() {
        // The first one made is asked for its spec, the next one is played in first, and then the others are.
        Ok(id) => Ok(Box::new(watching.watch(id, seed)?) as Box<dyn Environment>),
        Err(_) => Ok::<_, RlError>(relive_env::make(&name, seed)?),
    });
    let trained = train(agent, &run, &make, &mut |report: &Report| {
        watcher.note(report);
        if let Err(error) = loggers.write(report) {
            unlogged.get_or_insert(error);
            run.stop.stop();
        }
    })?;
    unlogged.map_or(Ok(()), Err)?;
    loggers.flush()?;
    let figures = watcher.figures(trained.summary);
    runs::end(&folder, about, &figures)?;
    if let Some((name, text)) = kept.csv() {
        write(&folder.join(name), &text)?;
    }
    Ok(figures)
}

fn write(path: &Path, text: &str) -> Result {
    std::fs::write(path, text)
        .map_err(|error| Failure::text(Kind::Runtime, format!("{}: {error}", path.display())))
}

fn folder_name(about: &About) -> String {
    let environment = about.environment.replace('/', "_");
    format!("{}-{environment}-{}", about.agent, about.seed)
}

impl Options {
    fn plans(&self) -> Result<Vec<Plan>> {
        let mut plans = Vec::new();
        for name in &self.environments {
            let of_experiment = |id: &BsuiteId| name == "bsuite" || id.experiment().name() == name;
            let mut names: Vec<String> =
                BsuiteId::all().filter(of_experiment).map(|id| id.to_string()).collect();
            if names.is_empty() {
                relive_env::make(name, 1).map_err(RlError::from)?;
                names.push(name.clone());
            }
            for environment in names {
                let made = self.agent.made(&environment)?;
                for seed in 1..=self.seeds {
                    let (agent, environment) = (self.agent.name().to_owned(), environment.clone());
                    let about = About { agent, environment, seed, actors: 0 };
                    plans.push(Plan { about, agent: Arc::clone(&made) });
                }
            }
        }
        Ok(plans)
    }
}
