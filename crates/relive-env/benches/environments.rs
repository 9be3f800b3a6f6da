//! Steps per second of native environments under a random policy, on one core.
//!
//! A FIRST counts as no step, but takes its time.

#![expect(clippy::unwrap_used, reason = "a benchmark that fails is one that ends")]

use std::hint::black_box;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use relive_env::bsuite::Catch;
use relive_env::classic::CartPole;
use relive_env::random::Generator;
use relive_env::{Action, Buffer, Environment};

/// Steps of one measured turn.
const STEPS: u64 = 10_000;

fn alone<E: Environment>(group: &mut BenchmarkGroup<'_, WallTime>, name: &str, mut environment: E) {
    let mut observation = Buffer::for_nest(&environment.spec().observations, 1).unwrap();
    let count = environment.spec().num_actions().unwrap();
    let mut stream = Generator::new(1);
    group.throughput(Throughput::Elements(STEPS));
    group.bench_function(name, |bencher| {
        bencher.iter(|| {
            let mut steps = 0;
            while steps < STEPS {
                let action = Action::Discrete(stream.below(count).into());
                let step = environment.step(action, observation.view_mut()).unwrap();
                steps += u64::from(!step.first());
                black_box(&mut observation);
            }
        });
    });
}

fn environments(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("environment");
    alone(&mut group, "catch", Catch::new(1));
    alone(&mut group, "cartpole", CartPole::new(1));
    let boxed: Box<dyn Environment> = Box::new(Catch::new(1));
    alone(&mut group, "catch, boxed", boxed);
    group.finish();
}

criterion_group!(benches, environments);
criterion_main!(benches);
