//! The effect of each wrapper, and its conformance to the contract.

#![expect(clippy::unwrap_used, reason = "a failed test is one that ends")]

use crate::common::Played;
use crate::common::toy::{Toy, toy_action};
use relive_env::bsuite::{Catch, DeepSea, Logged};
use relive_env::classic::{CartPole, MountainCarContinuous, Pendulum};
use relive_env::conformance::check;
use relive_env::wrappers::{
    ActionRepeat, CanonicalSpec, ConcatObservation, DelayedReward, FrameStacking, ObservationActionReward,
    SinglePrecision, StepLimit,
};
use relive_env::{Action, Buffer, EnvError, Environment, StepType};
use relive_tensor::DType;

fn seed32(seed: u64) -> u32 {
    u32::try_from(seed).unwrap()
}

#[test]
fn a_demonstrator_is_available_through_wrappers_that_keep_actions() {
    let sea = || DeepSea::new(4, 42, 1).unwrap();
    let wrapped: [Box<dyn Environment>; 7] = [
        Box::new(StepLimit::new(sea(), 3).unwrap()),
        Box::new(ActionRepeat::new(sea(), 2).unwrap()),
        Box::new(DelayedReward::new(sea(), Some(2)).unwrap()),
        Box::new(FrameStacking::new(sea(), 2).unwrap()),
        Box::new(ConcatObservation::new(sea()).unwrap()),
        Box::new(ObservationActionReward::new(sea()).unwrap()),
        Box::new(Logged::new(sea())),
    ];
    for mut environment in wrapped {
        let spec = environment.spec().clone();
        let [mut observation, mut action] =
            [&spec.observations, &spec.actions].map(|nest| Buffer::for_nest(nest, 1).unwrap());
        environment.reset(observation.view_mut()).unwrap();
        assert!(environment.demonstrate(action.view_mut()).unwrap(), "{:?}", spec.observations);
    }
}

#[test]
fn the_toy_environment_meets_the_contract() {
    check(Toy::new).unwrap();
}

#[test]
fn wrappers_meet_the_environment_contract() {
    check(|seed| StepLimit::new(Toy::new(seed), 3).unwrap()).unwrap();
    check(|seed| ActionRepeat::new(CartPole::new(seed), 3).unwrap()).unwrap();
    check(|seed| DelayedReward::new(Toy::new(seed), Some(2)).unwrap()).unwrap();
    check(|seed| FrameStacking::new(Toy::new(seed), 3).unwrap()).unwrap();
    check(|seed| FrameStacking::flattened(Catch::new(seed32(seed)), 4).unwrap()).unwrap();
    check(|seed| CanonicalSpec::new(Toy::new(seed)).unwrap()).unwrap();
    check(|seed| CanonicalSpec::clipped(Pendulum::new(seed)).unwrap()).unwrap();
    check(|seed| SinglePrecision::new(Toy::new(seed)).unwrap()).unwrap();
    check(|seed| ObservationActionReward::new(Toy::new(seed)).unwrap()).unwrap();
    check(|seed| ObservationActionReward::new(Catch::new(seed32(seed))).unwrap()).unwrap();
    check(|seed| ConcatObservation::with_order(Toy::new(seed), &["b/x", "a"]).unwrap()).unwrap();
}

#[test]
fn wrappers_stack() {
    check(|seed| {
        let limited = StepLimit::new(Toy::new(seed), 4).unwrap();
        let single = SinglePrecision::new(CanonicalSpec::clipped(limited).unwrap()).unwrap();
        let concatenated = ConcatObservation::with_order(single, &["a", "b/x"]).unwrap();
        FrameStacking::new(DelayedReward::new(concatenated, None).unwrap(), 2).unwrap()
    })
    .unwrap();
}

#[test]
fn a_step_limit_preserves_the_discount_and_shorter_episodes() {
    let mut played = Played::new(StepLimit::new(Catch::new(1), 9).unwrap());
    played.reset();
    let steps: Vec<_> = (0..9).map(|_| played.step(Action::Discrete(1))).collect();
    assert_eq!((steps[8].step_type, steps[8].discount), (StepType::Last, 0.0), "the environment's own end");
    let error = StepLimit::new(Catch::new(1), 0).unwrap_err().to_string();
    assert_eq!(error, "setting at `step limit`: expected 1..=65536, got 0");
}

#[test]
fn action_repeat_discounts_rewards() {
    let mut played = Played::new(ActionRepeat::new(Toy::new(1), 3).unwrap());
    played.reset();
    let action = toy_action([0.5, 1.0], 2);
    let step = played.step(Action::Nest(action.view()));
    // The toy earns 0.1, 0.2, 0.3 … and its discount is 0.5.
    assert_eq!(step.reward, 0.1 + 0.5 * 0.2 + 0.25 * (0.1 * 3.0));
    assert_eq!(step.discount, 0.125);
    let last = played.step(Action::Nest(action.view()));
    assert_eq!((last.step_type, last.discount), (StepType::Last, 0.0), "the fifth step is the last");
    assert!((last.reward - (0.4 + 0.5 * 0.5)).abs() < 1e-12);
}

#[test]
fn delayed_rewards_are_sums() {
    let rewards = |period| {
        let mut played = Played::new(DelayedReward::new(Toy::new(1), period).unwrap());
        let action = toy_action([0.5, 1.0], 2);
        let mut step = || played.step(Action::Nest(action.view())).reward;
        (0..7).map(|_| (step() * 10.0).round()).collect::<Vec<_>>()
    };
    assert_eq!(rewards(Some(2)), [0.0, 0.0, 3.0, 0.0, 7.0, 5.0, 0.0], "FIRST, five steps, FIRST");
    assert_eq!(rewards(None), [0.0, 0.0, 0.0, 0.0, 0.0, 15.0, 0.0]);
}

#[test]
fn frames_are_stacked_newest_last() {
    let mut plain = Played::new(MountainCarContinuous::new(3));
    let mut stacked = Played::new(FrameStacking::new(MountainCarContinuous::new(3), 3).unwrap());
    let mut frames = vec![vec![0.0; 2]; 2];
    plain.reset();
    stacked.reset();
    for _ in 0..5 {
        frames.push(plain.observation().to_vec());
        let last = &frames[frames.len() - 3..];
        let expected: Vec<f32> =
            (0..2).flat_map(|place| last.iter().map(move |frame| frame[place])).collect();
        assert_eq!(stacked.observation(), expected);
        plain.step(Action::Continuous(&[0.7]));
        stacked.step(Action::Continuous(&[0.7]));
    }
    let shape = |flat: bool| {
        let catch = Catch::new(1);
        let wrapped = if flat { FrameStacking::flattened(catch, 4) } else { FrameStacking::new(catch, 4) };
        wrapped.unwrap().spec().observations.leaves().next().unwrap().shape.to_string()
    };
    assert_eq!((shape(false), shape(true)), ("[10,5,4]".to_owned(), "[10,20]".to_owned()));
}

#[test]
fn canonical_actions_are_scaled_to_the_bounds() {
    let mut plain = Played::new(Pendulum::new(3));
    let mut canonical = Played::new(CanonicalSpec::new(Pendulum::new(3)).unwrap());
    plain.reset();
    canonical.reset();
    for (action, torque) in [(-1.0, -2.0), (0.25, 0.5), (1.0, 2.0)] {
        let expected = plain.step(Action::Continuous(&[torque]));
        assert_eq!(canonical.step(Action::Continuous(&[action])), expected);
    }
    let mut clipped = Played::new(CanonicalSpec::clipped(Toy::new(1)).unwrap());
    clipped.reset();
    clipped.step(Action::Nest(toy_action([7.0, -7.0], 1).view()));
    assert_eq!(clipped.environment.inner().last_force, [1.0, 0.0], "the toy's bounds");
}

#[test]
fn single_precision_applies_to_all_leaves() {
    let mut played = Played::new(SinglePrecision::new(Toy::new(1)).unwrap());
    let spec = played.environment.spec();
    let dtypes: Vec<_> =
        spec.observations.leaves().chain(spec.actions.leaves()).map(|leaf| leaf.dtype).collect();
    let (float, int) = (DType::Float32, DType::Int32);
    assert_eq!(dtypes, [float, float, int, DType::UInt8, int, float]);
    assert_eq!((spec.rewards.dtype, spec.discounts.dtype), (float, float));
    played.reset();
    let mut action = Buffer::for_nest(&played.environment.spec().actions, 1).unwrap();
    action.leaf_mut::<i32>(0).unwrap()[0] = 2;
    action.leaf_mut::<f32>(1).unwrap().fill(0.25);
    let step = played.step(Action::Nest(action.view()));
    assert_eq!(step.reward, f64::from(0.1_f32));
    assert_eq!(played.environment.inner().last_force, [0.25, 0.25]);
    assert_eq!(played.buffer.leaf::<i32>(2).unwrap(), [-1], "the toy counts its steps down");
}

#[test]
fn observations_include_the_previous_action_and_reward() {
    let mut played = Played::new(ObservationActionReward::new(DeepSea::new(4, 42, 1).unwrap()).unwrap());
    let paths: Vec<String> = {
        let leaves = played.environment.spec().observations.flatten_with_paths();
        leaves.iter().map(|(path, _)| path.to_string()).collect()
    };
    assert_eq!(paths, ["observation", "action", "reward"]);
    let seen = |played: &Played<ObservationActionReward<DeepSea>>| {
        (played.buffer.leaf::<i32>(1).unwrap()[0], played.buffer.leaf::<f64>(2).unwrap()[0])
    };
    played.reset();
    assert_eq!(seen(&played), (0, 0.0));
    for _ in 0..4 {
        let step = played.step(Action::Discrete(1));
        assert_eq!(seen(&played), (1, step.reward));
    }
    assert!(played.step(Action::Discrete(1)).first());
    assert_eq!(seen(&played), (0, 0.0));
}

#[test]
fn leaves_are_joined_in_order() {
    let mut plain = Played::new(Toy::new(1));
    let mut joined = Played::new(ConcatObservation::with_order(Toy::new(1), &["b/x", "a"]).unwrap());
    plain.reset();
    joined.reset();
    let parts = [plain.buffer.leaf::<f64>(1).unwrap(), plain.buffer.leaf::<f64>(0).unwrap()].concat();
    assert_eq!(joined.buffer.leaf::<f64>(0).unwrap(), parts);
    let error_of = |result: Result<ConcatObservation<Toy>, EnvError>| result.unwrap_err().to_string();
    assert!(
        error_of(ConcatObservation::new(Toy::new(1))).contains("expected leaves of one type, got float64")
    );
    let error = error_of(ConcatObservation::with_order(Toy::new(1), &["c"]));
    assert_eq!(error, "setting at `order`: expected one of a, b/x, b/y, c/0, got c");
}
