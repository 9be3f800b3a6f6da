//! The runs of a sweep, and which of them are finished.

use std::path::PathBuf;
use std::sync::Arc;

use relive_env::bsuite::BsuiteId;
use relive_rl::{Agent, Purpose, RlError, Seat};
use serde::{Deserialize, Serialize};

use super::options::Options;
use super::suite::Task;
use crate::commands::rl::figures::Figures;
use crate::commands::rl::runs::{self, About};
use crate::failure::{Failure, Kind, Result};

/// Seeds unless told, and of each task of a suite.
const SEEDS: u64 = 3;
const SEEDS_OF_SUITE: u64 = 1;

/// The file that says by what a run was made.
const RECIPE: &str = "recipe.json";

/// A run.
pub(super) struct Plan {
    pub(super) about: About,
    pub(super) agent: Arc<dyn Agent>,
    pub(super) folder: PathBuf,
    pub(super) recipe: Recipe,
}

/// By what a run is made: a run with another one is not the same.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Recipe {
    pub(super) settings: Vec<(String, String)>,
    pub(super) steps: u64,
    pub(super) learner_steps: Option<u64>,
    pub(super) episodes: Option<u64>,
    pub(super) until: Option<f64>,
    /// Steps from one evaluation to the next, and the episodes of each.
    pub(super) evaluation: Option<(u64, u64)>,
}

/// All runs that are asked for: each agent, in each environment, with each seed.
pub(super) fn of(options: &Options) -> Result<Vec<Plan>> {
    let seeds = if options.suite.is_some() { SEEDS_OF_SUITE } else { SEEDS };
    let mut plans: Vec<Plan> = Vec::new();
    for task in tasks(options)? {
        for name in &options.agents {
            let is_there =
                |plan: &Plan| plan.about.agent == *name && plan.about.environment == task.environment;
            if plans.iter().any(is_there) {
                // Named twice, it is the same.
                continue;
            }
            let agent = options.settings.made(name, &task.environment)?;
            can_play(agent.as_ref(), &task.environment)?;
            for seed in 1..=options.seeds.unwrap_or(seeds) {
                let (name, environment) = ((*name).to_owned(), task.environment.clone());
                let about = About { agent: name, environment, seed, actors: 0 };
                let folder = options.out.join(folder_name(&about));
                let (agent, recipe) = (Arc::clone(&agent), Recipe::of(options, &task, agent.as_ref()));
                plans.push(Plan { about, agent, folder, recipe });
            }
        }
    }
    Ok(plans)
}

fn tasks(options: &Options) -> Result<Vec<Task>> {
    if let Some(suite) = options.suite {
        return Ok(suite.tasks(options.scale));
    }
    let mut names = Vec::new();
    for name in &options.environments {
        let of_experiment = |id: &BsuiteId| name == "bsuite" || id.experiment().name() == name;
        let before = names.len();
        names.extend(BsuiteId::all().filter(of_experiment).map(|id| id.to_string()));
        if names.len() == before {
            relive_env::make(name, 1).map_err(RlError::from)?;
            names.push(name.clone());
        }
    }
    let task = |environment| Task { environment, steps: options.length.steps(), episodes: None };
    Ok(names.into_iter().map(task).collect())
}

/// Before hours are spent on the runs ahead of it.
fn can_play(agent: &dyn Agent, environment: &str) -> Result {
    agent.validate()?;
    let environment = relive_env::make(environment, 1).map_err(RlError::from)?;
    agent.policy(&Seat::alone(environment.spec(), Purpose::Evaluation, &[]))?;
    Ok(())
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
            steps: length.steps.unwrap_or(task.steps),
            learner_steps: length.learner_steps,
            episodes: length.episodes.or(task.episodes),
            until: length.until,
            evaluation: options.evaluate.options().map(|each| (each.every, each.episodes)),
        }
    }

    /// The names of what differs in another one.
    fn differs(&self, other: &Recipe) -> Vec<String> {
        let pairs = [
            ("--steps", self.steps != other.steps),
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
    /// What the run came to, if it is finished; none if it was not begun, or was ended on its way.
    ///
    /// # Errors
    /// The run that is there is another one.
    pub(super) fn begun(&self) -> Result<Option<Figures>> {
        if !self.folder.join(runs::ABOUT).is_file() {
            return Ok(None);
        }
        let there = std::fs::read_to_string(self.folder.join(RECIPE)).ok();
        let there = there.and_then(|text| serde_json::from_str::<Recipe>(&text).ok());
        let differing = match &there {
            Some(there) if *there == self.recipe => return runs::ended(&self.folder),
            Some(there) => format!("what differs: {}", self.recipe.differs(there).join(", ")),
            None => "it is no run of a sweep".to_owned(),
        };
        let advice = "give another folder, or remove this one";
        let place = self.folder.display();
        Err(Failure::usage(format!("--out: there is another run in {place} already ({differing}); {advice}")))
    }

    /// Makes its folder, without what a run that did not come to its end has left.
    pub(super) fn clear(&self) -> Result {
        let failed = |error: std::io::Error| {
            Failure::text(Kind::Runtime, format!("{}: {error}", self.folder.display()))
        };
        if self.folder.join(RECIPE).is_file() {
            std::fs::remove_dir_all(&self.folder).map_err(failed)?;
        }
        std::fs::create_dir_all(&self.folder).map_err(failed)?;
        runs::write(&self.folder.join(RECIPE), &self.recipe)
    }

    /// In messages.
    pub(super) fn title(&self) -> String {
        let About { agent, environment, seed, .. } = &self.about;
        format!("{agent} in {environment}, seed {seed}")
    }
}
