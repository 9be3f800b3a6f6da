//! bsuite's environments, compared with the originals.

#![expect(clippy::unwrap_used, reason = "a failed test is one that ends")]

use std::collections::BTreeMap;

use crate::common::{Fnv, Played};
use relive_env::bsuite::{
    Bandit, BsuiteEnvironment, Cartpole, CartpoleSwingup, Catch, DeepSea, DiscountingChain, MemoryChain,
    MountainCar, Reward, Totals, UmbrellaChain,
};
use relive_env::random::RandomState;
use relive_env::{Action, StepType, TimeStep};
use serde::Deserialize;
use serde_json::Value;

const SEED: u32 = 5;
const ACTION_SEED: u32 = 17;

type Boxed = Box<dyn BsuiteEnvironment>;

#[derive(Deserialize)]
struct Expected {
    name: String,
    episodes: u64,
    steps: u64,
    total_return: f64,
    info: BTreeMap<String, f64>,
    hash: String,
}

/// Creates an environment like `make_bsuite.py`.
fn make(name: &str) -> Boxed {
    match name {
        "bandit" => Box::new(Bandit::new(3)),
        "catch" => Box::new(Catch::new(SEED)),
        "catch_noise" => Box::new(Reward::with_noise(Catch::new(SEED), 0.3, SEED)),
        "catch_scale" => Box::new(Reward::scaled(Catch::new(SEED), 30.0)),
        "cartpole" => Box::new(Cartpole::new(SEED)),
        "cartpole_swingup" => Box::new(CartpoleSwingup::new(0.25, 0.75, SEED)),
        "mountain_car" => Box::new(MountainCar::new(SEED)),
        "deep_sea" => Box::new(DeepSea::new(10, 42, SEED).unwrap()),
        "deep_sea_small" => Box::new(DeepSea::new(4, 42, SEED).unwrap()),
        "deep_sea_stochastic" => Box::new(DeepSea::stochastic(12, 42, SEED).unwrap()),
        "discounting_chain" => Box::new(DiscountingChain::new(3)),
        "memory_len" => Box::new(MemoryChain::new(7, 1, SEED).unwrap()),
        "memory_size" => Box::new(MemoryChain::new(2, 12, SEED).unwrap()),
        "umbrella" => Box::new(UmbrellaChain::new(20, 14, SEED).unwrap()),
        _ => panic!("{name} has no totals"),
    }
}

fn totals(environment: &Boxed) -> BTreeMap<String, f64> {
    environment.totals().into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn play(expected: &Expected) {
    let name = &expected.name;
    let mut played = Played::new(make(name));
    let count = played.environment.spec().num_actions().unwrap();
    let mut stream = RandomState::new(ACTION_SEED);
    let (mut steps, mut total_return, mut digest) = (0, 0.0, Fnv::new());
    for _ in 0..expected.episodes {
        let mut step = played.reset();
        digest.add_words(played.bytes());
        while !step.last() {
            step = played.step(Action::Discrete(stream.randint(0, count.into())));
            steps += 1;
            total_return += step.reward;
            digest.add_words(played.bytes());
            digest.add_words(&step.reward.to_le_bytes());
        }
    }
    assert_eq!(steps, expected.steps, "{name}");
    assert_eq!(totals(&played.environment), expected.info, "{name}");
    assert_eq!(total_return, expected.total_return, "{name}");
    assert_eq!(format!("{:016x}", digest.0), expected.hash, "{name}");
}

#[test]
fn random_play_matches_the_totals_of_the_original() {
    let expected: Vec<Expected> = serde_json::from_str(include_str!("../golden/bsuite_totals.json")).unwrap();
    assert_eq!(expected.len(), 14);
    expected.iter().for_each(play);
}

/// Returns the settings of the recorded trajectories.
fn recorded(name: &str) -> Boxed {
    match name {
        "bandit" => Box::new(Bandit::new(3)),
        "catch" => Box::new(Catch::new(5)),
        "catch_noise" => Box::new(Reward::with_noise(Catch::new(5), 0.3, 9)),
        "catch_scale" => Box::new(Reward::scaled(Catch::new(5), 30.0)),
        "cartpole" => Box::new(Cartpole::new(5)),
        "cartpole_swingup" => Box::new(CartpoleSwingup::new(0.5, 1.0, 5)),
        "mountain_car" => Box::new(MountainCar::with_max_steps(60, 5)),
        "deep_sea10" => Box::new(DeepSea::new(10, 42, 5).unwrap()),
        "deep_sea10_stoch" => Box::new(DeepSea::stochastic(10, 42, 5).unwrap()),
        "discounting_chain" => Box::new(DiscountingChain::new(2)),
        "memory_len3" => Box::new(MemoryChain::new(3, 1, 0).unwrap()),
        "memory_size5" => Box::new(MemoryChain::new(2, 5, 0).unwrap()),
        "umbrella" => Box::new(UmbrellaChain::new(4, 3, 0).unwrap()),
        _ => panic!("{name} has no trajectory"),
    }
}

/// Returns the sum of an observation, and the sum of its elements multiplied by their positions, counted from 1.
fn sums(observation: &[f32]) -> [f64; 2] {
    let plain = observation.iter().map(|value| f64::from(*value)).sum();
    let places = (1..).map(f64::from);
    [plain, observation.iter().zip(places).map(|(value, place)| f64::from(*value) * place).sum()]
}

fn row(action: i64, step: TimeStep, observation: &[f32]) -> Value {
    let [plain, weighted] = sums(observation);
    let kind = match step.step_type {
        StepType::First => 0,
        StepType::Mid => 1,
        StepType::Last => 2,
    };
    let [reward, discount] = [step.reward, step.discount].map(|number| (!step.first()).then_some(number));
    serde_json::json!([action, kind, reward, discount, plain, weighted])
}

fn same_row(actual: &Value, expected: &Value, place: &str) {
    let numbers = |row: &Value| row.as_array().unwrap().iter().map(Value::as_f64).collect::<Vec<_>>();
    let (actual, expected) = (numbers(actual), numbers(expected));
    assert_eq!(actual[..4], expected[..4], "{place}: action, kind, reward, discount");
    for (actual, expected) in actual.iter().zip(&expected).skip(4) {
        let apart = (actual.unwrap() - expected.unwrap()).abs();
        assert!(apart < 1e-5, "{place}: sums {actual:?}, not {expected:?}");
    }
}

#[test]
fn bsuite_trajectories_match_the_recordings() {
    let document: BTreeMap<String, Value> =
        serde_json::from_str(include_str!("../golden/bsuite_trajectories.json")).unwrap();
    let trajectories: Vec<_> = document.iter().filter(|(_, entry)| entry["rows"].is_array()).collect();
    assert_eq!(trajectories.len(), 13);
    for (name, entry) in trajectories {
        let mut played = Played::new(recorded(name));
        let count = i64::from(played.environment.spec().num_actions().unwrap());
        assert_eq!(Some(count), entry["num_actions"].as_i64(), "{name}");
        played.reset();
        for (index, expected) in (0..).zip(entry["rows"].as_array().unwrap()) {
            let action = (7 * index + 3) % count;
            let step = played.step(Action::Discrete(action));
            same_row(&row(action, step, played.observation()), expected, &format!("{name}, step {index}"));
        }
        let info: BTreeMap<String, f64> = serde_json::from_value(entry["info"].clone()).unwrap();
        assert_eq!(totals(&played.environment), info, "{name}");
    }
}

#[test]
fn bandit_mappings_match_the_recordings() {
    let document: Value = serde_json::from_str(include_str!("../golden/bsuite_trajectories.json")).unwrap();
    for (seed, rewards) in document["bandit_rewards"].as_object().unwrap() {
        let mut played = Played::new(Bandit::new(seed.parse().unwrap()));
        for (arm, reward) in (0..).zip(rewards.as_array().unwrap()) {
            played.reset();
            let paid = played.step(Action::Discrete(arm)).reward;
            assert!((paid - reward.as_f64().unwrap()).abs() < 1e-9, "seed {seed}, arm {arm}: {paid}");
        }
    }
    let map: Vec<Vec<u32>> = serde_json::from_value(document["deep_sea10_mapping_seed42"].clone()).unwrap();
    let mut played = Played::new(DeepSea::new(10, 42, 0).unwrap());
    played.reset();
    for (place, row) in map.iter().enumerate() {
        assert_eq!(played.environment.task().action_right(), Some(row[place]));
        played.step(Action::Discrete(row[place].into()));
    }
    assert_eq!(played.environment.totals()[0], ("total_bad_episodes", 0.0));
}
