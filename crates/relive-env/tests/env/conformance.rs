//! Every environment obeys the contract.
#![expect(clippy::unwrap_used, reason = "a failed test is one that ends")]

use relive_env::bsuite::{
    Bandit, Cartpole, CartpoleSwingup, Catch, DeepSea, DiscountingChain, Logged, MemoryChain,
    MountainCar as BsuiteCar, Reward, UmbrellaChain, load,
};
use relive_env::classic::{Acrobot, CartPole, MountainCar, MountainCarContinuous, Pendulum};
use relive_env::conformance::check;
use relive_env::control;

fn seed32(seed: u64) -> u32 {
    u32::try_from(seed).unwrap()
}

#[test]
fn bsuite() {
    check(|seed| Bandit::new(seed32(seed))).unwrap();
    check(|seed| Cartpole::new(seed32(seed))).unwrap();
    check(|seed| CartpoleSwingup::new(0.5, 1.0, seed32(seed))).unwrap();
    check(|seed| Catch::new(seed32(seed))).unwrap();
    check(|seed| DeepSea::new(6, 42, seed32(seed)).unwrap()).unwrap();
    check(|seed| DeepSea::stochastic(4, 42, seed32(seed)).unwrap()).unwrap();
    check(|seed| DiscountingChain::new(seed32(seed))).unwrap();
    check(|seed| MemoryChain::new(3, 4, seed32(seed)).unwrap()).unwrap();
    check(|seed| BsuiteCar::new(seed32(seed))).unwrap();
    check(|seed| UmbrellaChain::new(5, 3, seed32(seed)).unwrap()).unwrap();
    check(|seed| Logged::new(load("catch_noise/7", seed32(seed)).unwrap())).unwrap();
    check(|seed| Reward::with_noise(Catch::new(1), 0.5, seed32(seed))).unwrap();
    check(|seed| Reward::scaled(Catch::new(seed32(seed)), 30.0)).unwrap();
}

#[test]
fn classic_control() {
    check(Acrobot::new).unwrap();
    check(CartPole::new).unwrap();
    check(MountainCar::new).unwrap();
    check(MountainCarContinuous::new).unwrap();
    check(Pendulum::new).unwrap();
}

#[test]
fn screens() {
    check(relive_env::pixels::PixelCatch::new).unwrap();
}

#[test]
fn swing_ups() {
    check(control::AcrobotSwingup::new).unwrap();
    check(control::CartpoleSwingup::new).unwrap();
    check(control::PendulumSwingup::new).unwrap();
    let name = |task: &str| format!("control/{task}-swingup");
    for task in ["acrobot", "cartpole", "pendulum"] {
        assert_eq!(relive_env::make(&name(task), 1).unwrap().spec().num_actions(), None);
    }
}
