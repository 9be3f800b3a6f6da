//! Many environments stepped together, compared with each alone.

#![expect(clippy::unwrap_used, reason = "a failed test is one that ends")]

use crate::common::Played;
use crate::common::toy::Toy;
use proptest::prelude::*;
use relive_env::bsuite::Catch;
use relive_env::classic::{CartPole, MountainCarContinuous};
use relive_env::{
    Action, BatchEnvironment, Buffer, EnvError, Environment, RandomPolicy, StepType, TimeStep, Vectorized,
};

/// Steps a batch, and the same environments one by one, with the same actions.
fn compare<E: Environment>(
    batch: &mut impl BatchEnvironment,
    make: impl Fn(usize) -> E,
    steps: usize,
    seed: u64,
) {
    let count = batch.len();
    let mut alone: Vec<_> = (0..count).map(|row| Played::new(make(row))).collect();
    let (mut observations, mut actions) = (batch.observations().unwrap(), batch.actions().unwrap());
    let mut answers = vec![TimeStep::restart(); count];
    let mut policy = RandomPolicy::new(&batch.spec().actions, seed);
    batch.reset(&mut observations, &mut answers).unwrap();
    alone.iter_mut().for_each(|played| assert!(played.reset().first()));
    for _ in 0..steps {
        (0..count).for_each(|row| policy.act(actions.row_mut(row)).unwrap());
        batch.step(&actions, &mut observations, &mut answers).unwrap();
        for (row, played) in alone.iter_mut().enumerate() {
            assert_eq!(played.step(Action::Nest(actions.row(row))), answers[row], "row {row}");
            for leaf in 0..observations.num_leaves() {
                let together = observations.row(row).leaf_bytes(leaf).map(<[u8]>::to_vec);
                assert_eq!(
                    played.buffer.leaf_bytes(leaf).map(<[u8]>::to_vec),
                    together,
                    "row {row}, leaf {leaf}"
                );
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn vectorized_environments_match_single_ones(count in 1_usize..12, seed: u64) {
        let cartpole = |row: usize| CartPole::new(seed ^ row as u64);
        compare(&mut Vectorized::new(count, cartpole).unwrap(), cartpole, 60, seed);
        let toy = |row: usize| Toy::new(seed ^ row as u64);
        compare(&mut Vectorized::new(count, toy).unwrap(), toy, 20, seed);
    }

    #[test]
    fn the_same_seed_and_actions_give_the_same_trajectory(seed: u64, actions: Vec<f32>) {
        let run = || {
            let mut played = Played::new(MountainCarContinuous::new(seed));
            let mut step = |force: &f32| {
                let force = if force.is_finite() { *force } else { 0.0 };
                let step = played.step(Action::Continuous(&[force]));
                (step, played.observation().to_vec())
            };
            actions.iter().map(&mut step).collect::<Vec<_>>()
        };
        prop_assert_eq!(run(), run());
    }
}

#[test]
fn each_environment_resets_independently() {
    let mut batch = Vectorized::new(3, |row| Catch::new(u32::try_from(row).unwrap())).unwrap();
    let (mut observations, actions) = (batch.observations().unwrap(), batch.actions().unwrap());
    let mut answers = vec![TimeStep::restart(); 3];
    for expected in [StepType::First, StepType::Mid] {
        batch.step(&actions, &mut observations, &mut answers).unwrap();
        assert!(answers.iter().all(|step| step.step_type == expected));
    }
    for _ in 0..8 {
        batch.step(&actions, &mut observations, &mut answers).unwrap();
    }
    assert!(answers.iter().all(TimeStep::last));
    batch.step(&actions, &mut observations, &mut answers).unwrap();
    assert!(answers.iter().all(TimeStep::first));
}

#[test]
fn saved_batches_of_environments_resume() {
    let make = || Vectorized::new(4, |row| CartPole::new(row as u64)).unwrap();
    let (mut saved, mut restored) = (make(), make());
    let (mut observations, actions) = (saved.observations().unwrap(), saved.actions().unwrap());
    let mut other = observations.clone();
    let mut answers = vec![TimeStep::restart(); 4];
    let mut others = answers.clone();
    for _ in 0..13 {
        saved.step(&actions, &mut observations, &mut answers).unwrap();
    }
    restored.restore(&saved.save().unwrap()).unwrap();
    for _ in 0..20 {
        saved.step(&actions, &mut observations, &mut answers).unwrap();
        restored.step(&actions, &mut other, &mut others).unwrap();
        assert_eq!((&observations, &answers), (&other, &others));
    }
    assert!(matches!(restored.restore(&[1, 2, 3]), Err(EnvError::State(_))));
}

fn with_wrong_action(batch: &mut impl BatchEnvironment, row: usize) -> String {
    let (mut observations, mut actions) = (batch.observations().unwrap(), batch.actions().unwrap());
    let mut answers = vec![TimeStep::restart(); batch.len()];
    batch.reset(&mut observations, &mut answers).unwrap();
    actions.leaf_mut::<i32>(0).unwrap()[row] = 2;
    batch.step(&actions, &mut observations, &mut answers).unwrap_err().to_string()
}

#[test]
fn errors_name_their_row() {
    let make = |row: usize| CartPole::new(row as u64);
    let expected = "action at `row 5`: expected a number from 0 to 1, got 2";
    assert_eq!(with_wrong_action(&mut Vectorized::new(7, make).unwrap(), 5), expected);
}

#[test]
fn mismatched_buffers_are_refused() {
    let make = |row: usize| CartPole::new(row as u64);
    let catch = Vectorized::new(4, |_| Catch::new(1)).unwrap();
    let mut batch = Vectorized::new(4, make).unwrap();
    let mut answers = vec![TimeStep::restart(); 4];
    let refused = |result: Result<(), EnvError>| matches!(result, Err(EnvError::Observation(_)));
    assert!(refused(batch.reset(&mut catch.observations().unwrap(), &mut answers)));
    let mut few = Buffer::for_nest(&batch.spec().observations, 3).unwrap();
    assert!(refused(batch.reset(&mut few, &mut answers)));
    compare(&mut batch, make, 5, 1);
}

#[test]
fn impossible_batches_are_refused() {
    let none = Vectorized::new(0, |_| Catch::new(1)).unwrap_err().to_string();
    assert_eq!(none, "setting at `number of environments`: expected 1..=16777216, got 0");
    let boxed = |row: usize| -> Box<dyn Environment> {
        if row == 2 { Box::new(CartPole::new(1)) } else { Box::new(Catch::new(1)) }
    };
    let unlike = Vectorized::new(4, boxed).unwrap_err().to_string();
    assert!(unlike.starts_with("spec at `row 2`: expected environments with the same spec"), "{unlike}");
}
