//! PPO learns, and gives the same numbers however it is run.

use relive_agents::PpoConfig;

use crate::common::{options, run};

#[test]
fn cart_pole_is_learned() {
    for seed in 1..=5 {
        let start = std::time::Instant::now();
        let (trained, reports) = run(PpoConfig::for_environment("CartPole-v1"), &options("CartPole-v1", 100_000, seed)).unwrap();
        println!("{seed} {:?} {:?} {}", trained.summary, start.elapsed(), reports.len());
    }
}
