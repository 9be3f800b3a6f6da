//! Every environment keeps the contract.
#![expect(clippy::unwrap_used, reason = "a failed test is one that ends")]

use relive_env::bsuite::Catch;
use relive_env::classic::{Acrobot, CartPole, MountainCar, MountainCarContinuous, Pendulum};
use relive_env::conformance::check;

fn seed32(seed: u64) -> u32 {
    u32::try_from(seed).unwrap()
}

#[test]
fn bsuite() {
    check(|seed| Catch::new(seed32(seed))).unwrap();
}

#[test]
fn classic_control() {
    check(Acrobot::new).unwrap();
    check(CartPole::new).unwrap();
    check(MountainCar::new).unwrap();
    check(MountainCarContinuous::new).unwrap();
    check(Pendulum::new).unwrap();
}
