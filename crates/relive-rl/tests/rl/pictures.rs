//! Observations that stay bytes.

use relive_client::blocking::Client;
use relive_client::{BatchOptions, SampleBatch};
use relive_engine::Engine;
use relive_env::pixels::PixelCatch;
use relive_env::{Action, ArraySpec, Buffer, Environment, EnvironmentSpec};
use relive_rl::adders::{Adder, EndOfEpisode, SequenceAdder, TransitionAdder};
use relive_rl::plan::{Sequences, Transitions};
use relive_table::TableConfig;
use relive_tensor::Nest;

/// Returns a batch of the items that an adder creates from an episode.
fn batch<A: Adder>(make: impl Fn(&Client, &EnvironmentSpec) -> A) -> (EnvironmentSpec, SampleBatch) {
    let engine = Engine::builder().table(TableConfig::new("replay")).build().unwrap();
    let client = Client::in_process(engine).unwrap();
    let mut environment = PixelCatch::new(1);
    let spec = environment.spec().clone();
    let mut screen = Buffer::for_nest(&spec.observations, 1).unwrap();
    let mut action = Buffer::for_nest(&spec.actions, 1).unwrap();
    let mut adder = make(&client, &spec);
    let mut step = environment.reset(screen.row_mut(0)).unwrap();
    adder.add_first(screen.view()).unwrap();
    while !step.last() {
        environment.demonstrate(action.row_mut(0)).unwrap();
        step = environment.step(Action::Nest(action.row(0)), screen.row_mut(0)).unwrap();
        adder.add(action.view(), step, screen.view()).unwrap();
    }
    let mut batches = client.batches("replay", BatchOptions::new(16)).unwrap();
    (spec, batches.next_within(None).unwrap().unwrap())
}

/// Returns the numbers that networks without convolutions read.
fn numbers(pictures: &[u8]) -> Vec<f32> {
    pictures.iter().map(|byte| f32::from(*byte) * (1.0 / 255.0)).collect()
}

#[test]
fn transitions_have_the_same_images_as_floats_and_as_bytes() {
    let (spec, batch) = batch(|client, spec| TransitionAdder::new(client, "replay", spec, 3, 0.9).unwrap());
    let read = |mut transitions: Transitions| {
        transitions.read(std::slice::from_ref(&batch)).unwrap();
        transitions
    };
    let plain = read(Transitions::new(&spec, 0.9).unwrap());
    let seen = read(Transitions::new(&spec, 0.9).unwrap().with_pictures());
    let [now, next] = seen.pictures().unwrap();
    assert_eq!((numbers(now), numbers(next)), (plain.observations, plain.next_observations));
    assert_ne!(now, next);
    assert!(plain.actions == seen.actions && plain.rewards == seen.rewards);
    assert!(seen.observations.is_empty() && seen.next_observations.is_empty());
    let floats = EnvironmentSpec::new(ArraySpec::new("", relive_tensor::DType::Float32, [2]), spec.actions);
    assert!(Transitions::new(&floats, 0.9).unwrap().with_pictures().pictures().is_none());
}

#[test]
fn sequences_have_the_same_images_as_floats_and_as_bytes() {
    let (spec, batch) = batch(|client, spec| {
        let adder = SequenceAdder::new(client, "replay", spec, None, 8, 4).unwrap();
        adder.end_of_episode(EndOfEpisode::Truncate)
    });
    let read = |mut sequences: Sequences| {
        sequences.read(std::slice::from_ref(&batch)).unwrap();
        sequences
    };
    let plain = read(Sequences::new(&spec, &Nest::None, 0.9).unwrap());
    let seen = read(Sequences::new(&spec, &Nest::None, 0.9).unwrap().with_pictures());
    assert_eq!((seen.rows, seen.batch), (8, 16));
    assert_eq!(numbers(seen.pictures().unwrap()), plain.observations);
    assert!(seen.observations.is_empty() && plain.pictures().is_none());
}
