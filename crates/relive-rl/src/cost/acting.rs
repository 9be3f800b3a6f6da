//! The cost of acting, by the number of environments.

use std::time::{Duration, Instant};

use relive_random::Key;

use super::costs::ActCost;
use super::threads;
use crate::acting::RolloutWorker;
use crate::contracts::WeightStore;
use crate::plan::{MakeEnvironment, Rows};
use crate::seeds::{EnvironmentUser, actor_key, environment_seed};
use crate::{Agent, Part, PolicyContext, Purpose, Result, Weights};

/// The numbers of environments with which acting is measured.
const ROWS: [usize; 4] = [1, 4, 16, 64];

/// The number of steps between two clock readings.
const STEPS: usize = 8;

/// How long acting is measured with each number of environments.
const WITHIN: Duration = Duration::from_millis(250);

/// If one step in all environments takes longer than this, larger numbers are not measured.
const SLOW: Duration = Duration::from_millis(250);

/// Measures the cost of acting with the given weights, for several numbers of environments.
///
/// # Errors
/// Errors of the environments and the policy.
pub(super) fn measure(
    agent: &dyn Agent,
    environment: &str,
    make: &MakeEnvironment,
    seed: u64,
    weights: &Weights,
) -> Result<Vec<ActCost>> {
    let store = WeightStore::default();
    store.publish(weights.clone());
    let mut measured = Vec::new();
    for rows in ROWS {
        let user: Vec<EnvironmentUser> = (0..rows).map(EnvironmentUser::Actor).collect();
        let seeds: Vec<u64> = user.iter().map(|user| environment_seed(environment, seed, *user)).collect();
        let keys: Vec<Key> = user.iter().map(|user| actor_key(seed, *user)).collect();
        let environments =
            make.rows(Rows { first: 0, seeds: &seeds, generation: 0, purpose: Purpose::Training })?;
        let spec = environments.spec().clone();
        let policy = agent.policy(&PolicyContext::alone(&spec, Purpose::Training, &keys))?;
        let mut worker = RolloutWorker::new(0, environments, policy, store.clone(), environment)?;
        let cost = one(&mut worker, rows)?;
        measured.push(cost);
        if Duration::from_secs_f64(cost.act_s + cost.step_s) > SLOW {
            break;
        }
    }
    Ok(measured)
}

/// Returns the processor time of the thread for one step in all environments.
#[expect(clippy::cast_precision_loss, reason = "it is small")]
fn one(worker: &mut RolloutWorker, rows: usize) -> Result<ActCost> {
    // Warms up the caches.
    worker.rollout(STEPS)?;
    let (begun, on_processor) = (Instant::now(), threads::own()?);
    // The minimum is the measurement least disturbed by other load.
    let (mut act, mut step, mut times) = (Duration::MAX, Duration::MAX, 0.0);
    while begun.elapsed() < WITHIN {
        for acted in worker.rollout(STEPS)?.acted {
            act = act.min(acted.times.of(Part::Act));
            step = step.min(acted.times.of(Part::Step));
        }
        times += STEPS as f64;
    }
    let took = threads::own()?.saturating_sub(on_processor).as_secs_f64() / times;
    let (act, step) = (act.as_secs_f64(), step.as_secs_f64());
    // The thread's other work, such as copying rows, is divided between acting and stepping in proportion.
    let act_s = took * act / (act + step).max(f64::MIN_POSITIVE);
    let step_s = took - act_s;
    Ok(ActCost { rows, act_s, step_s })
}
