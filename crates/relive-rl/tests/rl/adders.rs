//! The items that adders write, read back from the table.

use relive_client::blocking::Client;
use relive_client::{Nest, Sample};
use relive_engine::Engine;
use relive_env::{ArraySpec, Buffer, EnvironmentSpec, TimeStep};
use relive_rl::adders::{Adder, TransitionAdder};
use relive_rl::{RlError, Saveable};
use relive_table::{SelectorKind, TableConfig};
use relive_tensor::DType;

/// Returns the transitions of the episodes in creation order: observation, action, reward, discount, next observation.
fn written(n: usize, g: f32, episodes: &[&[TimeStep]]) -> Vec<(f32, i32, f32, f32, f32)> {
    let whole = written_by(n, g, episodes, false);
    assert_eq!(written_by(n, g, episodes, true), whole, "by adders that each go on after the one before");
    whole
}

/// Returns the transitions of one adder, or of a new adder for each step, restored from the saved state of its
/// predecessor.
fn written_by(n: usize, g: f32, episodes: &[&[TimeStep]], each_anew: bool) -> Vec<(f32, i32, f32, f32, f32)> {
    let engine =
        Engine::builder().table(TableConfig::new("replay").sampler(SelectorKind::Fifo).max_times_sampled(1));
    let client = Client::in_process(engine.build().unwrap()).unwrap();
    let spec = EnvironmentSpec::new(ArraySpec::new("", DType::Float32, [1]), ArraySpec::discrete("", 100));
    let mut adder = TransitionAdder::new(&client, "replay", &spec, n, g).unwrap();
    let mut observation = Buffer::for_nest(&spec.observations, 1).unwrap();
    let mut action = Buffer::for_nest(&spec.actions, 1).unwrap();
    let mut items = 0;
    for steps in episodes {
        let mut see = |adder: &mut TransitionAdder, at: u16, step: Option<TimeStep>| {
            observation.leaf_mut::<f32>(0).unwrap()[0] = f32::from(at);
            match step {
                None => adder.add_first(observation.view()).unwrap(),
                Some(step) => {
                    action.leaf_mut::<i32>(0).unwrap()[0] = i32::from(at) - 1;
                    adder.add(action.view(), step, observation.view()).unwrap();
                }
            }
        };
        see(&mut adder, 0, None);
        for (at, step) in (1..).zip(steps.iter()) {
            if each_anew {
                let saved = adder.save();
                adder = TransitionAdder::new(&client, "replay", &spec, n, g).unwrap();
                adder.restore(&saved).unwrap();
            }
            see(&mut adder, at, Some(*step));
        }
        items += steps.len() + n.min(steps.len()) - 1;
    }
    let first = Buffer::for_nest(&spec.observations, 1).unwrap();
    adder.add_first(first.view()).unwrap();
    client.sample("replay", items).unwrap().iter().map(transition).collect()
}

fn transition(sample: &Sample) -> (f32, i32, f32, f32, f32) {
    let columns = sample.columns().unwrap();
    let number = |index: usize| columns[index].to_vec::<f32>().unwrap()[0];
    (number(3), columns[0].to_vec::<i32>().unwrap()[0], number(4), number(1), number(2))
}

fn episode(rewards: &[f64], discounts: &[f64]) -> Vec<TimeStep> {
    let last = rewards.len() - 1;
    let steps = rewards.iter().zip(discounts).enumerate();
    steps
        .map(|(at, (reward, discount))| match at == last {
            true => TimeStep::truncation(*reward, *discount),
            false => TimeStep { discount: *discount, ..TimeStep::transition(*reward) },
        })
        .collect()
}

#[test]
fn transitions_grow_slide_and_shrink() {
    let steps = episode(&[2.0, 3.0, 5.0, 7.0], &[1.0, 1.0, 1.0, 0.0]);
    let expected = [
        (0.0, 0, 2.0, 1.0, 1.0),
        (0.0, 0, 3.5, 0.5, 2.0),
        (0.0, 0, 4.75, 0.25, 3.0),
        (1.0, 1, 7.25, 0.0, 4.0),
        (2.0, 2, 8.5, 0.0, 4.0),
        (3.0, 3, 7.0, 0.0, 4.0),
    ];
    assert_eq!(written(3, 0.5, &[&steps]), expected);
}

#[test]
fn short_episodes_are_not_mixed() {
    let two = episode(&[1.0, 1.0], &[1.0, 0.0]);
    let one = episode(&[4.0], &[1.0]);
    let expected = [
        (0.0, 0, 1.0, 1.0, 1.0),
        (0.0, 0, 2.0, 0.0, 2.0),
        (1.0, 1, 1.0, 0.0, 2.0),
        (0.0, 0, 4.0, 1.0, 1.0),
        (0.0, 0, 1.0, 1.0, 1.0),
        (0.0, 0, 2.0, 0.0, 2.0),
        (1.0, 1, 1.0, 0.0, 2.0),
    ];
    assert_eq!(written(3, 1.0, &[&two, &one, &two]), expected);
}

#[test]
fn one_step_gives_the_plain_transition() {
    let steps = episode(&[1.0, 2.0], &[1.0, 0.5]);
    assert_eq!(written(1, 0.9, &[&steps]), [(0.0, 0, 1.0, 1.0, 1.0), (1.0, 1, 2.0, 0.5, 2.0)]);
}

#[test]
fn an_episode_must_be_started_first() {
    let client =
        Client::in_process(Engine::builder().table(TableConfig::new("replay")).build().unwrap()).unwrap();
    let spec =
        EnvironmentSpec::new(Nest::Leaf(ArraySpec::new("", DType::Float32, [])), ArraySpec::discrete("", 2));
    let mut adder = TransitionAdder::new(&client, "replay", &spec, 2, 0.9).unwrap();
    let (observation, action) =
        (Buffer::for_nest(&spec.observations, 1).unwrap(), Buffer::for_nest(&spec.actions, 1).unwrap());
    let error = adder.add(action.view(), TimeStep::transition(1.0), observation.view()).unwrap_err();
    assert!(matches!(error, RlError::Order { call: "add", .. }), "{error}");
    assert!(TransitionAdder::new(&client, "replay", &spec, 0, 0.9).is_err());
}

#[test]
fn extras_come_from_the_first_step() {
    let engine =
        Engine::builder().table(TableConfig::new("replay").sampler(SelectorKind::Fifo).max_times_sampled(1));
    let client = Client::in_process(engine.build().unwrap()).unwrap();
    let spec = EnvironmentSpec::new(ArraySpec::new("", DType::Float32, [1]), ArraySpec::discrete("", 100));
    let of_actor = Nest::dict([("policy", ArraySpec::new("policy", DType::Float32, [2]))]);
    let made = || TransitionAdder::new(&client, "replay", &spec, 2, 1.0).unwrap().with_extras(&of_actor);
    let mut adder = made();
    let mut observation = Buffer::for_nest(&spec.observations, 1).unwrap();
    let action = Buffer::for_nest(&spec.actions, 1).unwrap();
    let mut extras = Buffer::for_nest(&of_actor, 1).unwrap();
    adder.add_first(observation.view()).unwrap();
    let error = adder.add(action.view(), TimeStep::transition(1.0), observation.view()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "extras is 0 leaves, but it must be the number that the adder was created for"
    );
    for (at, step) in
        [(1_u8, TimeStep::transition(1.0)), (2, TimeStep::transition(1.0)), (3, TimeStep::termination(1.0))]
    {
        let saved = adder.save();
        adder = made();
        adder.restore(&saved).unwrap();
        extras.leaf_mut::<f32>(0).unwrap().copy_from_slice(&[f32::from(at), 0.5]);
        observation.leaf_mut::<f32>(0).unwrap()[0] = f32::from(at);
        adder.add_with_extras(action.view(), step, observation.view(), extras.view()).unwrap();
    }
    let numbers = |sample: &Sample, column: usize| sample.columns().unwrap()[column].to_vec::<f32>().unwrap();
    let samples = client.sample("replay", 4).unwrap();
    // The columns in the order of their names: action, discount, extras, next_observation, observation, reward.
    let actual: Vec<_> = samples.iter().map(|sample| (numbers(sample, 4)[0], numbers(sample, 2))).collect();
    let from = |observation: f32| (observation, vec![observation + 1.0, 0.5]);
    assert_eq!(actual, [from(0.0), from(0.0), from(1.0), from(2.0)]);
}
