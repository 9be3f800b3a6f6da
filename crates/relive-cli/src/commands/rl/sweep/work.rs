//! Runs side by side, with their progress.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::scope;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use relive_env::ReferenceScores;
use relive_env::bsuite::BsuiteId;
use relive_rl::logging::Logger;
use relive_rl::plan::MakeEnvironment;
use relive_rl::run::{Report, RunOptions, Stop, train};

use super::options::Options;
use super::plans::Plan;
use crate::commands::rl::bsuite_log::Kept;
use crate::commands::rl::figures::{Figures, Watcher};
use crate::commands::rl::runs;
use crate::failure::{Failure, Kind, Result};
use crate::output;

/// Makes all runs that are not finished, some at a time, and prints a line for each.
///
/// `finished`: what those came to that are.
///
/// # Errors
/// Those of the first run that failed, when all others are made.
pub(super) fn all(options: &Options, plans: &[Plan], finished: &[Option<Figures>]) -> Result {
    let jobs =
        options.jobs.map_or_else(|| std::thread::available_parallelism().map_or(1, usize::from), usize::from);
    let bar = bar(plans);
    let mut open = Vec::new();
    for (plan, figures) in plans.iter().zip(finished) {
        match figures {
            Some(figures) => {
                bar.inc(plan.recipe.steps);
                let line = figures.told(&format!("{} (finished before)", plan.title()));
                bar.suspend(|| output::line(&line))?;
            }
            None => open.push(plan),
        }
    }
    // The longest first, so that no processor waits for one that began last.
    open.sort_by_key(|plan| std::cmp::Reverse(plan.recipe.steps));
    let (next, (tell, told)) = (AtomicUsize::new(0), channel());
    let left = open.len();
    scope(|threads| {
        for _ in 0..jobs.min(left) {
            let (open, next, bar, tell) = (&open, &next, &bar, tell.clone());
            threads.spawn(move || work(options, open, next, bar, &tell));
        }
        drop(tell);
        let (mut ended, mut failed) = (0, None);
        for outcome in told {
            ended += 1;
            bar.set_message(message(ended, left));
            let line = outcome.and_then(|text: String| bar.suspend(|| Ok(output::line(&text)?)));
            failed = failed.or(line.err());
        }
        bar.finish_and_clear();
        failed.map_or(Ok(()), Err)
    })
}

/// A bar of the steps of all runs.
fn bar(plans: &[Plan]) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {percent:>3} %  {msg}, {elapsed} so far, {eta} left")
        .expect("the template is well-formed");
    let steps = plans.iter().map(|plan| plan.recipe.steps).sum();
    let bar = ProgressBar::with_draw_target(Some(steps), ProgressDrawTarget::stderr()).with_style(style);
    bar.set_message(message(0, plans.len()));
    bar
}

fn message(ended: usize, all: usize) -> String {
    format!("{ended} of {all} runs")
}

fn work(
    options: &Options,
    plans: &[&Plan],
    next: &AtomicUsize,
    bar: &ProgressBar,
    tell: &Sender<Result<String>>,
) {
    while let Some(plan) = plans.get(next.fetch_add(1, Ordering::Relaxed)) {
        let outcome = one(options, plan, bar);
        let outcome = outcome.map(|figures| figures.told(&plan.title()));
        let _ = tell.send(outcome.map_err(|failure| failure.of(&plan.title())));
    }
}

fn one(options: &Options, plan: &Plan, bar: &ProgressBar) -> Result<Figures> {
    let Plan { about, agent, folder, recipe } = plan;
    plan.clear()?;
    let mut loggers = runs::begin(folder, about, &options.logs)?;
    let run = RunOptions {
        environment: about.environment.clone(),
        env_steps: recipe.steps,
        learner_steps: recipe.learner_steps,
        seed: about.seed,
        stop: Stop::new(),
        evaluation: options.evaluate.options(),
        ..RunOptions::default()
    };
    let mut watcher = Watcher::new(recipe.until, recipe.episodes, run.stop.clone());
    let (kept, mut unlogged, mut shown) = (Kept::default(), None, 0);
    let make = environments(about.environment.clone(), kept.clone());
    let trained = train(agent, &run, &make, &mut |report: &Report| {
        watcher.note(report);
        if let Report::Actor(episode) = report {
            let steps = episode.env_steps.min(recipe.steps);
            bar.inc(steps.saturating_sub(shown));
            shown = steps;
        }
        if let Err(error) = loggers.write(report) {
            unlogged.get_or_insert(error);
            run.stop.stop();
        }
    });
    // A run that ends earlier has nothing more to come.
    bar.inc(recipe.steps.saturating_sub(shown));
    let trained = trained?;
    unlogged.map_or(Ok(()), Err)?;
    loggers.flush()?;
    if let Some((name, text)) = kept.csv() {
        write(&folder.join(name), &text)?;
    }
    let figures = watcher.figures(trained.summary).scored(ReferenceScores::of(&about.environment));
    // In the end: from now on the run counts as finished.
    runs::end(folder, about, &figures)?;
    Ok(figures)
}

/// Environments of a name; bsuite's log of the one that is played in is kept.
fn environments(name: String, kept: Kept) -> MakeEnvironment {
    MakeEnvironment::new(move |seed| match name.parse::<BsuiteId>() {
        Ok(id) => Ok(Box::new(kept.watch(id, seed)?)),
        Err(_) => Ok(relive_env::make(&name, seed)?),
    })
}

fn write(path: &Path, text: &str) -> Result {
    std::fs::write(path, text)
        .map_err(|error| Failure::text(Kind::Runtime, format!("{}: {error}", path.display())))
}
