//! Runs of agents in native environments.

use std::sync::Arc;

use relive_agents::PpoConfig;
use relive_rl::Result;
use relive_rl::experiment::{Report, RunOptions};
use relive_rl::plan::{Agent, MakeEnvironment, Trained, train};

pub(crate) fn make(name: &'static str) -> MakeEnvironment {
    Arc::new(move |seed| Ok(relive_env::make(name, seed)?))
}

/// Trains, and gives all reports beside what the run has come to.
pub(crate) fn run(agent: impl Agent + 'static, options: &RunOptions) -> Result<(Trained, Vec<Report>)> {
    let agent: Arc<dyn Agent> = Arc::new(agent);
    let name = options.environment.clone();
    let make: MakeEnvironment = Arc::new(move |seed| Ok(relive_env::make(&name, seed)?));
    let mut reports = Vec::new();
    let trained = train(&agent, options, &make, &mut |report| reports.push(report.clone()))?;
    Ok((trained, reports))
}

pub(crate) fn options(environment: &str, env_steps: u64, seed: u64) -> RunOptions {
    RunOptions { environment: environment.to_owned(), env_steps, seed, ..RunOptions::default() }
}

/// All numbers of the weights.
pub(crate) fn numbers(trained: &Trained) -> Vec<u32> {
    let parts = trained.weights.parts().iter();
    parts.flat_map(|(_, part)| part.to_vec::<f32>().unwrap()).map(f32::to_bits).collect()
}

/// Small enough to be run often.
pub(crate) fn small_ppo() -> PpoConfig {
    PpoConfig { num_envs: 4, num_steps: 16, minibatch_size: 32, epochs: 2, hidden: vec![16], ..PpoConfig::default() }
}
