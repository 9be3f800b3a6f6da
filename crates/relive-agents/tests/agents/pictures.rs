//! Agents with images as observations.

use std::sync::Arc;

use relive_agents::{DqnConfig, ImpalaConfig, R2d2Config};
use relive_rl::Agent;
use relive_rl::run::{Checkpoints, RunOptions};

use crate::common::{numbers, options, run, small_dqn, small_r2d2};

const STEPS: u64 = 60;

fn all() -> [Arc<dyn Agent>; 4] {
    let dqn = DqnConfig { batch_size: 4, samples_per_insert: 1.0, min_replay_size: 10, ..small_dqn() };
    let (sequence_length, num_envs, batch_size, hidden) = (5, 2, 2, vec![8]);
    let impala = ImpalaConfig {
        sequence_length,
        num_envs,
        batch_size,
        hidden,
        lstm_units: 4,
        ..ImpalaConfig::default()
    };
    [
        Arc::new(DqnConfig { duelling: true, ..dqn.clone() }),
        Arc::new(dqn),
        Arc::new(R2d2Config { batch_size: 2, min_replay_size: 4, ..small_r2d2() }),
        Arc::new(impala),
    ]
}

#[test]
fn a_run_on_images_learns_and_resumes_identically() {
    for agent in all() {
        let of = |folder: &std::path::Path, steps| {
            let checkpoints = Some(Checkpoints { folder: folder.to_owned(), every: 20 });
            run(&agent, &RunOptions { checkpoints, ..options("pixels/catch", steps, 7) }).unwrap().0
        };
        let (whole, in_parts) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let expected = of(whole.path(), STEPS);
        assert!(expected.summary.learner_steps > 0, "{:?}", expected.summary);
        // The first convolution: 32 filters of 8 x 8 over one channel.
        let has_convolution =
            expected.weights.parts().iter().any(|(_, part)| part.shape().dims() == [8, 8, 1, 32]);
        assert!(has_convolution, "{}", agent.name());
        of(in_parts.path(), 40);
        assert!(numbers(&of(in_parts.path(), STEPS)) == numbers(&expected), "{}", agent.name());
    }
}

#[test]
fn images_are_processed_by_actors_beside_a_learner() {
    for agent in all() {
        let options = RunOptions { actors: 2, ..options("pixels/catch", STEPS, 1) };
        assert!(run(&agent, &options).is_ok());
    }
}
