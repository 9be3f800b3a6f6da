//! The runs of a sweep, and which of them are finished.

use std::path::PathBuf;
use std::sync::Arc;

use relive_env::bsuite::{BsuiteId, Experiment};
use relive_rl::plan::MakeEnvironment;
use relive_rl::run::{Evaluation, RunOptions};
use relive_rl::{Agent, RlError};
use serde::{Deserialize, Serialize};

use super::options::Options;
use super::suite::Task;
use crate::commands::rl::figures::Figures;
use crate::commands::rl::runs::{self, About};
use crate::commands::rl::shown::Steps;
use crate::failure::{Failure, Result};

/// The default number of seeds, including for each task of a suite.
const SEEDS: u64 = 3;
const SEEDS_OF_SUITE: u64 = 1;

/// The file with the recipe of a run.
const RECIPE: &str = "recipe.json";

/// A run.
pub(super) struct Plan {
    pub(super) about: About,
    pub(super) agent: Arc<dyn Agent>,
    pub(super) folder: PathBuf,
    pub(super) recipe: Recipe,
}

/// The inputs that define a run. A run with a different recipe is a different run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Recipe {
    pub(super) settings: Vec<(String, String)>,
    /// Steps in the environment; 0 for a run that learns from data.
    pub(super) steps: u64,
    /// The data that the agent learns from instead of acting.
    #[serde(default)]
    pub(super) data: Option<PathBuf>,
    pub(super) learner_steps: Option<u64>,
    pub(super) episodes: Option<u64>,
    pub(super) until: Option<f64>,
    /// Steps between evaluations, and the episodes of each.
    pub(super) evaluation: Option<(u64, u64)>,
}

/// Returns all requested runs: each agent, in each environment, with each seed.
pub(super) fn of(options: &Options) -> Result<Vec<Plan>> {
    let seeds = if options.suite.is_some() { SEEDS_OF_SUITE } else { SEEDS };
    let mut plans: Vec<Plan> = Vec::new();
    for task in tasks(options)? {
        for name in &options.agents {
            let exists =
                |plan: &Plan| plan.about.agent == *name && plan.about.environment == task.environment;
            if plans.iter().any(exists) {
                // Duplicates are skipped.
                continue;
            }
            let cell = format!("{name} in {}", task.environment);
            let agent =
                options.settings.make_agent(name, &task.environment).map_err(|error| error.of(&cell))?;
            for seed in 1..=options.seeds.unwrap_or(seeds) {
                let (name, environment) = ((*name).to_owned(), task.environment.clone());
                let settings = About::settings_of(agent.as_ref());
                let about = About { agent: name, environment, seed, actors: 0, settings };
                let folder = options.out.join(folder_name(&about));
                let (agent, recipe) = (Arc::clone(&agent), Recipe::of(options, &task, agent.as_ref()));
                plans.push(Plan { about, agent, folder, recipe });
            }
        }
    }
    Ok(plans)
}

/// Checks that all runs can be created, as thoroughly as is possible in advance. Only the first seed is checked, since
/// the seeds do not matter here.
pub(super) fn check(options: &Options, plans: &[Plan]) -> Result {
    for plan in plans.iter().filter(|plan| plan.about.seed == 1) {
        let name = plan.about.environment.clone();
        let make = MakeEnvironment::new(move |seed| Ok(relive_env::make(&name, seed)?));
        let with_option = |error| options.data.with_option(error).of(&plan.title());
        relive_rl::run::check(&plan.agent, &plan.run(), &make).map_err(with_option)?;
    }
    Ok(())
}

fn tasks(options: &Options) -> Result<Vec<Task>> {
    if let Some(suite) = options.suite {
        return Ok(suite.tasks(options.scale));
    }
    let mut names = Vec::new();
    for name in &options.environments {
        match Experiment::named(name) {
            Some(experiment) => names.extend(BsuiteId::of(experiment).map(|id| id.to_string())),
            None if name == "bsuite" => names.extend(BsuiteId::all().map(|id| id.to_string())),
            None => {
                relive_env::make(name, 1).map_err(RlError::from)?;
                names.push(name.clone());
            }
        }
    }
    let steps = options.length.steps();
    let task = |environment| Task { environment, steps, episodes: None };
    Ok(names.into_iter().map(task).collect())
}

fn folder_name(about: &About) -> String {
    let environment = about.environment.replace('/', "_");
    format!("{}-{environment}-{}", about.agent, about.seed)
}

impl Recipe {
    fn of(options: &Options, task: &Task, agent: &dyn Agent) -> Recipe {
        let length = &options.length;
        Recipe {
            settings: agent.settings(),
            steps: if options.data.path.is_some() { 0 } else { length.steps.unwrap_or(task.steps) },
            data: options.data.path.clone(),
            learner_steps: length.learner_steps,
            episodes: length.episodes.or(task.episodes),
            until: length.until,
            evaluation: options.evaluate.options().map(|each| (each.every, each.episodes)),
        }
    }

    /// Returns the names of the fields that differ.
    fn differs(&self, other: &Recipe) -> Vec<String> {
        let pairs = [
            ("--steps", self.steps != other.steps),
            ("--data", self.data != other.data),
            ("--learner-steps", self.learner_steps != other.learner_steps),
            ("--episodes", self.episodes != other.episodes),
            ("--until", self.until != other.until),
            ("--evaluate-every and --evaluate-episodes", self.evaluation != other.evaluation),
        ];
        let lengths = pairs.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name.to_owned());
        let settings = self.settings.iter().filter(|setting| !other.settings.contains(setting));
        lengths.chain(settings.map(|(name, value)| format!("{name} = {value}"))).collect()
    }
}

impl Plan {
    /// Returns the run, without its observers.
    pub(super) fn run(&self) -> RunOptions {
        let Plan { about, recipe, .. } = self;
        RunOptions {
            environment: about.environment.clone(),
            env_steps: recipe.steps,
            learner_steps: recipe.learner_steps,
            data: recipe.data.clone(),
            seed: about.seed,
            evaluation: recipe.evaluation.map(|(every, episodes)| Evaluation { every, episodes }),
            ..RunOptions::default()
        }
    }

    /// Returns the steps that measure the run's progress.
    pub(super) fn steps(&self) -> Steps {
        Steps::of(&self.run())
    }

    /// Returns the results of the run if it is finished, or `None` if it was not started or was interrupted.
    ///
    /// # Errors
    /// The existing run has a different recipe.
    pub(super) fn begun(&self) -> Result<Option<Figures>> {
        if !self.folder.join(runs::ABOUT).is_file() {
            return Ok(None);
        }
        let there = std::fs::read_to_string(self.folder.join(RECIPE)).ok();
        let there = there.and_then(|text| serde_json::from_str::<Recipe>(&text).ok());
        let differing = match &there {
            Some(there) if *there == self.recipe => return runs::ended(&self.folder),
            Some(there) => format!("differences: {}", self.recipe.differs(there).join(", ")),
            None => "not a run of a sweep".to_owned(),
        };
        let advice = "give another folder, or remove this one";
        let place = self.folder.display();
        Err(Failure::usage(format!("--out: {place} already has another run ({differing}); {advice}")))
    }

    /// Creates the run's folder, and removes the files of an unfinished run.
    pub(super) fn clear(&self) -> Result {
        let failed = |error: std::io::Error| Failure::at(&self.folder, error);
        if self.folder.join(RECIPE).is_file() {
            std::fs::remove_dir_all(&self.folder).map_err(failed)?;
        }
        std::fs::create_dir_all(&self.folder).map_err(failed)?;
        runs::write(&self.folder.join(RECIPE), &self.recipe)
    }

    /// Returns the title that messages use for the run.
    pub(super) fn title(&self) -> String {
        let About { agent, environment, seed, .. } = &self.about;
        format!("{agent} in {environment}, seed {seed}")
    }
}
