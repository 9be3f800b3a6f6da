//! Concurrent runs, with their progress.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::scope;

use indicatif::ProgressBar;
use parking_lot::Mutex;
use relive_env::ReferenceScores;
use relive_env::bsuite::BsuiteId;
use relive_rl::plan::MakeEnvironment;
use relive_rl::run::{Report, RunOptions, Stop, train};

use super::options::Options;
use super::plans::Plan;
use crate::commands::rl::bsuite_log::LogKeeper;
use crate::commands::rl::figures::{Figures, Watcher};
use crate::commands::rl::runs;
use crate::failure::{Failure, Kind, Result};
use crate::output;
use crate::progress;
use crate::signals;

/// Executes all unfinished runs, several at a time, and prints a line for each. The first SIGINT or SIGTERM ends the
/// runs in progress, which then remain unfinished, and no further runs are started.
///
/// `finished` contains the results of the finished runs.
///
/// # Errors
/// The error of the first run that failed, after all other runs were executed. Errors of other runs are printed on
/// stderr.
pub(super) fn all(options: &Options, plans: &[Plan], finished: &[Option<Figures>]) -> Result {
    let jobs =
        options.jobs.map_or_else(|| std::thread::available_parallelism().map_or(1, usize::from), usize::from);
    let (bar, running) = (bar(plans), RunningStops::default());
    let on_signal = running.clone();
    signals::stop_in_order("sweep", move || on_signal.end())
        .map_err(|error| Failure::text(Kind::Runtime, error))?;
    let mut open = Vec::new();
    for (plan, figures) in plans.iter().zip(finished) {
        match figures {
            Some(figures) => {
                bar.inc(plan.steps().length());
                let line = figures.describe(&format!("{} (finished before)", plan.title()));
                bar.suspend(|| output::line(&line))?;
            }
            None => open.push(plan),
        }
    }
    // The longest runs are first, so that the runs that start last are short.
    open.sort_by_key(|plan| std::cmp::Reverse(plan.steps().length()));
    let (next, (sender, receiver)) = (AtomicUsize::new(0), channel());
    let (left, before) = (open.len(), plans.len() - open.len());
    bar.set_message(message(before, plans.len()));
    let outcome = scope(|threads| {
        for _ in 0..jobs.min(left) {
            let (open, next, bar, running, sender) = (&open, &next, &bar, &running, sender.clone());
            threads.spawn(move || work(options, open, next, (bar, running), &sender));
        }
        drop(sender);
        let (mut ended, mut failed) = (before, None);
        for outcome in receiver {
            ended += 1;
            bar.set_message(message(ended, plans.len()));
            let line = outcome.and_then(|text: String| bar.suspend(|| Ok(output::line(&text)?)));
            match (line, &failed) {
                (Ok(()), _) => {}
                (Err(failure), None) => failed = Some(failure),
                (Err(failure), Some(_)) => bar.suspend(|| output::print_error(&failure.message())),
            }
        }
        bar.finish_and_clear();
        failed.map_or(Ok(()), Err)
    });
    if running.has_begun() {
        output::print_error("the sweep was stopped early; the same command resumes with the unfinished runs");
    }
    outcome
}

/// Ends all runs of a sweep.
#[derive(Debug, Clone, Default)]
struct RunningStops {
    all: Stop,
    at_work: Arc<Mutex<Vec<Stop>>>,
}

impl RunningStops {
    fn end(&self) {
        self.all.stop();
        self.at_work.lock().iter().for_each(Stop::stop);
    }

    fn has_begun(&self) -> bool {
        self.all.is_stopped()
    }

    /// Registers a run in progress.
    fn join(&self, run: &Stop) {
        self.at_work.lock().push(run.clone());
        if self.has_begun() {
            run.stop();
        }
    }
}

/// Returns a progress bar over the steps of all runs.
fn bar(plans: &[Plan]) -> ProgressBar {
    let steps = plans.iter().map(|plan| plan.steps().length()).sum();
    let bar = progress::bar(steps, "{bar:30} {percent:>3} %  {msg}, {elapsed} elapsed, {eta} left");
    bar.set_message(message(0, plans.len()));
    bar
}

fn message(ended: usize, all: usize) -> String {
    format!("{ended} of {all} runs done")
}

fn work(
    options: &Options,
    plans: &[&Plan],
    next: &AtomicUsize,
    (bar, running): (&ProgressBar, &RunningStops),
    sender: &Sender<Result<String>>,
) {
    while let Some(plan) = plans.get(next.fetch_add(1, Ordering::Relaxed)).filter(|_| !running.has_begun()) {
        let outcome = match one(options, plan, bar, running) {
            Ok(Some(figures)) => Ok(figures.describe(&plan.title())),
            Ok(None) => continue,
            Err(failure) => Err(failure.of(&plan.title())),
        };
        let _ = sender.send(outcome);
    }
}

/// Executes a run. Returns `None` if it was interrupted.
fn one(options: &Options, plan: &Plan, bar: &ProgressBar, running: &RunningStops) -> Result<Option<Figures>> {
    let Plan { about, agent, folder, recipe } = plan;
    plan.clear()?;
    let loggers = runs::begin(folder, about, &options.logs)?;
    let run = RunOptions { stop: Stop::new(), loggers, ..plan.run() };
    running.join(&run.stop);
    let mut watcher = Watcher::new(recipe.until, recipe.episodes, run.stop.clone());
    let (kept, mut shown) = (LogKeeper::new(&run), 0);
    let make = environments(about.environment.clone(), kept.clone());
    let steps = plan.steps();
    let trained = train(agent, &run, &make, &mut |report: &Report| {
        watcher.note(report);
        bar.inc(steps.at(report).saturating_sub(shown));
        shown = shown.max(steps.at(report));
    });
    if running.has_begun() {
        return Ok(None);
    }
    // A run that ended early takes no further steps, so the bar advances by the remaining steps.
    bar.inc(steps.length().saturating_sub(shown));
    let trained = trained.and_then(|trained| match trained.unsaved {
        Some(error) => Err(error),
        None => Ok(trained),
    });
    let trained = trained.map_err(|error| options.data.with_option(error))?;
    if let Some((name, text)) = kept.csv() {
        write(&folder.join(name), &text)?;
    }
    let figures = watcher.figures(trained.summary).scored(ReferenceScores::of(&about.environment));
    // The results are written last, because the run counts as finished from then on.
    runs::end(folder, about, &figures)?;
    Ok(Some(figures))
}

/// Returns environments by name; keeps bsuite's log of the training environments.
fn environments(name: String, kept: LogKeeper) -> MakeEnvironment {
    MakeEnvironment::new(move |seed| match name.parse::<BsuiteId>() {
        Ok(id) => Ok(Box::new(kept.watch(id, seed)?)),
        Err(_) => Ok(relive_env::make(&name, seed)?),
    })
}

fn write(path: &Path, text: &str) -> Result {
    std::fs::write(path, text).map_err(|error| Failure::at(path, error))
}
