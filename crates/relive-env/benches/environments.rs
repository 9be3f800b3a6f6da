//! Steps per second of native environments under a random policy, on one core.
//!
//! A FIRST is not counted as a step, but its time is included, as is the time to draw the actions.
#![expect(clippy::unwrap_used, reason = "a benchmark that fails is one that ends")]

use std::hint::black_box;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use relive_env::bsuite::{self, Catch};
use relive_env::classic::{Acrobot, CartPole, MountainCar, MountainCarContinuous, Pendulum};
use relive_env::random::Generator;
use relive_env::{Action, BatchEnvironment, Buffer, Environment, TimeStep, Vectorized};

/// The number of steps of one measurement.
const STEPS: u64 = 10_000;

type Group<'a> = BenchmarkGroup<'a, WallTime>;

fn alone<E: Environment>(group: &mut Group<'_>, name: &str, mut environment: E) {
    let mut observation = Buffer::for_nest(&environment.spec().observations, 1).unwrap();
    let count = environment.spec().num_actions();
    let mut stream = Generator::new(1);
    group.throughput(Throughput::Elements(STEPS));
    group.bench_function(name, |bencher| {
        bencher.iter(|| {
            let mut steps = 0;
            while steps < STEPS {
                let force;
                let action = match count {
                    Some(count) => Action::Discrete(stream.below(count).into()),
                    None => {
                        force = [single(&mut stream)];
                        Action::Continuous(&force)
                    }
                };
                let step = environment.step(action, observation.view_mut()).unwrap();
                steps += u64::from(!step.first());
                black_box(&mut observation);
            }
        });
    });
}

#[expect(clippy::cast_possible_truncation, reason = "actions are float32")]
fn single(stream: &mut Generator) -> f32 {
    stream.uniform(-1.0, 1.0) as f32
}

fn together(group: &mut Group<'_>, name: &str, mut batch: impl BatchEnvironment) {
    let (mut observations, mut actions) = (batch.observations().unwrap(), batch.actions().unwrap());
    let count = batch.spec().num_actions().unwrap();
    let mut answers = vec![TimeStep::restart(); batch.len()];
    let mut stream = Generator::new(1);
    batch.reset(&mut observations, &mut answers).unwrap();
    group.throughput(Throughput::Elements(batch.len() as u64));
    group.bench_function(name, |bencher| {
        bencher.iter(|| {
            let draw = || i32::try_from(stream.below(count)).unwrap();
            actions.leaf_mut::<i32>(0).unwrap().fill_with(draw);
            batch.step(&actions, &mut observations, &mut answers).unwrap();
            black_box(&mut observations);
        });
    });
}

fn environments(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("one");
    alone(&mut group, "catch", Catch::new(1));
    let boxed: Box<dyn Environment> = Box::new(Catch::new(1));
    alone(&mut group, "catch, boxed", boxed);
    alone(&mut group, "CartPole", CartPole::new(1));
    alone(&mut group, "Acrobot", Acrobot::new(1));
    alone(&mut group, "MountainCar", MountainCar::new(1));
    alone(&mut group, "MountainCarContinuous", MountainCarContinuous::new(1));
    alone(&mut group, "Pendulum", Pendulum::new(1));
    for id in ["cartpole/0", "deep_sea/0", "memory_len/10", "mountain_car/0", "umbrella_length/10"] {
        alone(&mut group, id, bsuite::load(id, 1).unwrap());
    }
    group.finish();
}

/// Here a FIRST counts as a step, since all environments answer together.
fn batches(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("together");
    for count in [16, 1024] {
        let catch = |row| Catch::new(u32::try_from(row).unwrap());
        together(&mut group, &format!("catch, {count} rows"), Vectorized::new(count, catch).unwrap());
        let cartpole = |row| CartPole::new(row as u64);
        together(&mut group, &format!("CartPole, {count} rows"), Vectorized::new(count, cartpole).unwrap());
        let acrobot = |row| Acrobot::new(row as u64);
        together(&mut group, &format!("Acrobot, {count} rows"), Vectorized::new(count, acrobot).unwrap());
    }
    group.finish();
}

criterion_group!(benches, environments, batches);
criterion_main!(benches);
