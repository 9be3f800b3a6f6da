//! Classic control tasks, compared with Gymnasium's observation for observation.
#![expect(clippy::cast_possible_truncation, reason = "actions are float32")]
#![expect(clippy::unwrap_used, reason = "a failed test is one that ends")]

use crate::common::{Fnv, Played};
use relive_env::classic::{Acrobot, CartPole, MountainCar, MountainCarContinuous, Pendulum};
use relive_env::random::RandomState;
use relive_env::{Action, Environment, TimeStep};
use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
struct Trajectory {
    task: String,
    seed: u32,
    rows: Vec<Vec<Value>>,
    hashes: Vec<String>,
    episodes: u64,
    returns: Vec<f64>,
}

fn make(task: &str, seed: u32) -> Box<dyn Environment> {
    match task {
        "CartPole-v1" => Box::new(CartPole::new(seed.into())),
        "Acrobot-v1" => Box::new(Acrobot::new(seed.into())),
        "MountainCar-v0" => Box::new(MountainCar::new(seed.into())),
        "MountainCarContinuous-v0" => Box::new(MountainCarContinuous::new(seed.into())),
        "Pendulum-v1" => Box::new(Pendulum::new(seed.into())),
        _ => panic!("{task} has no trajectory"),
    }
}

fn act(played: &mut Played<Box<dyn Environment>>, stream: &mut RandomState) -> TimeStep {
    match played.environment.spec().num_actions() {
        Some(count) => played.step(Action::Discrete(stream.randint(0, count.into()))),
        None => played.step(Action::Continuous(&[stream.uniform(-2.2, 2.2) as f32])),
    }
}

fn same_observation(observation: &[f32], expected: &Value, place: &str) {
    let expected: Vec<f32> = serde_json::from_value(expected.clone()).unwrap();
    assert_eq!(observation, expected, "{place}");
}

/// Observations after a reset may differ in the last bit: numpy has its own algorithm for cosines of float32.
fn near_observation(observation: &[f32], expected: &Value, place: &str) {
    let expected: Vec<f32> = serde_json::from_value(expected.clone()).unwrap();
    assert_eq!(observation.len(), expected.len(), "{place}");
    for (value, expected) in observation.iter().zip(expected) {
        assert!(value.to_bits().abs_diff(expected.to_bits()) <= 1, "{place}: {value}, not {expected}");
    }
}

fn compare(trajectory: &Trajectory) {
    let Trajectory { task, seed, rows, hashes, .. } = trajectory;
    let mut played = Played::new(make(task, *seed));
    let mut stream = RandomState::new(*seed);
    let mut digest = Fnv::new();
    let (mut returns, mut episode_return) = (Vec::new(), 0.0);
    played.reset();
    near_observation(played.observation(), &rows[0][0], task);
    let per_hash = 1000;
    for index in 0..hashes.len() * per_hash {
        let place = format!("{task}, seed {seed}, step {index}");
        let step = act(&mut played, &mut stream);
        digest.add_bytes(played.bytes());
        digest.add_bytes(&step.reward.to_le_bytes());
        episode_return += step.reward;
        if let Some(row) = rows.get(index + 1) {
            same_observation(played.observation(), &row[0], &place);
            assert_eq!(Value::from(step.reward), row[1], "{place}");
            assert_eq!(Value::from(step.last() && step.discount == 0.0), row[2], "{place}");
            let cut_short = row[3] == true && row[2] == false;
            assert_eq!(step.last() && step.discount == 1.0, cut_short, "{place}");
        }
        if step.last() {
            returns.push(std::mem::take(&mut episode_return));
            assert!(played.step(Action::Discrete(-7)).first());
            if let Some(first) = rows.get(index + 1).and_then(|row| row.get(4)) {
                near_observation(played.observation(), first, &place);
            }
        }
        if (index + 1) % per_hash == 0 {
            assert_eq!(format!("{:016x}", digest.0), hashes[index / per_hash], "up to {place}");
        }
    }
    assert_eq!(returns.len() as u64, trajectory.episodes, "{task}");
    returns.truncate(50);
    assert_eq!(returns, trajectory.returns, "{task}");
}

fn all_of(task: &str) {
    let document = include_str!("../golden/gymnasium.json");
    let trajectories: Vec<Trajectory> = serde_json::from_str(document).unwrap();
    let found: Vec<_> = trajectories.iter().filter(|trajectory| trajectory.task == task).collect();
    assert_eq!(found.len(), 3, "{task}");
    found.into_iter().for_each(compare);
}

#[test]
fn cartpole() {
    all_of("CartPole-v1");
}

#[test]
fn acrobot() {
    all_of("Acrobot-v1");
}

#[test]
fn mountain_car() {
    all_of("MountainCar-v0");
}

#[test]
fn mountain_car_continuous() {
    all_of("MountainCarContinuous-v0");
}

#[test]
fn pendulum() {
    all_of("Pendulum-v1");
}
