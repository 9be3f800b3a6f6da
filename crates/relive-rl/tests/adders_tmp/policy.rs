//! What was learned, kept and acted by.

use relive_env::{Action, ArraySpec, Buffer, Environment};
use relive_nn::Key;
use relive_rl::RlError;
use relive_rl::dqn::{DqnConfig, Policy, QNetwork};
use relive_rl::experiment::{Report, RunOptions, Stop, Trained, train};
use relive_tensor::{DType, Nest};

fn untrained(name: &str, duelling: bool) -> Policy {
    let environment = relive_env::make(name, 1).unwrap();
    let config = DqnConfig { duelling, hidden: vec![8, 8], ..DqnConfig::default() };
    let network = QNetwork::new(environment.spec(), &config).unwrap();
    let params = network.init(Key::from_seed(3));
    Policy::new(network, params)
}

fn trained(options: &RunOptions) -> Trained {
    let config = DqnConfig::default();
    train(&config, options, &|seed| Ok(relive_env::make("catch/0", seed)?), &mut |_| {}).unwrap()
}

fn mean_return(policy: &mut Policy, episodes: u32) -> f64 {
    let mut environment = relive_env::make("catch/0", 77).unwrap();
    let mut observation = Buffer::for_nest(&environment.spec().observations, 1).unwrap();
    let mut total = 0.0;
    for _ in 0..episodes {
        let mut step = environment.reset(observation.view_mut()).unwrap();
        while !step.last() {
            let action = i64::try_from(policy.act(observation.view()).unwrap()).unwrap();
            step = environment.step(Action::Discrete(action), observation.view_mut()).unwrap();
            total += step.reward;
        }
    }
    total / f64::from(episodes)
}

#[test]
fn a_trained_policy_plays_well_after_it_was_saved() {
    let options = RunOptions { env_steps: 9_000, seed: 1, ..RunOptions::default() };
    let trained = trained(&options);
    let mut policy = Policy::of(&trained, &DqnConfig::default()).unwrap();
    let other = DqnConfig { hidden: vec![7], ..DqnConfig::default() };
    assert!(Policy::of(&trained, &other).unwrap_err().to_string().contains("parameters, but these settings"));
    let folder = std::env::temp_dir().join(format!("relive-policy-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("catch.safetensors");
    policy.save(&path).unwrap();
    let mut loaded = Policy::load(&path).unwrap();
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1, "nothing else is left there");
    let link = folder.join("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    policy.save(&link).unwrap();
    assert!(link.is_symlink() && Policy::load(&path).is_ok());
    let error = policy.save("/dev/full").unwrap_err().to_string();
    assert!(error.contains("/dev/full"), "{error}");
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(loaded.shape(), policy.shape());
    let after = mean_return(&mut loaded, 100);
    assert!(after >= 0.9, "{after}");
    assert_eq!(after.to_bits(), mean_return(&mut policy, 100).to_bits());
}

#[test]
fn all_kinds_of_networks_come_back() {
    for (name, duelling) in [("CartPole-v1", false), ("deep_sea/0", true), ("umbrella_length/1", true)] {
        let mut policy = untrained(name, duelling);
        let mut copy = Policy::from_bytes(&policy.to_bytes().unwrap()).unwrap();
        let mut environment = relive_env::make(name, 5).unwrap();
        let mut observation = Buffer::for_nest(&environment.spec().observations, 1).unwrap();
        environment.reset(observation.view_mut()).unwrap();
        assert_eq!(copy.values(observation.view()).unwrap(), policy.values(observation.view()).unwrap());
    }
}

#[test]
fn the_first_of_equal_actions_is_taken() {
    let environment = relive_env::make("catch/0", 1).unwrap();
    let network = QNetwork::new(environment.spec(), &DqnConfig::default()).unwrap();
    let mut params = network.init(Key::from_seed(1));
    params.values_mut().fill(0.0);
    let observation = Buffer::for_nest(&environment.spec().observations, 1).unwrap();
    assert_eq!(Policy::new(network, params).act(observation.view()).unwrap(), 0);
}

#[test]
fn observations_of_others_are_refused() {
    let mut policy = untrained("CartPole-v1", false);
    let mut told = |nest: Nest<ArraySpec>| {
        let buffer = Buffer::for_nest(&nest, 1).unwrap();
        policy.act(buffer.view()).unwrap_err().to_string()
    };
    let leaf = |dtype, dims: &[u32]| Nest::Leaf(ArraySpec::new("", dtype, dims));
    let wide = told(leaf(DType::Float64, &[4]));
    assert_eq!(wide, "environment: observation expected 16 bytes of float32, got 32 bytes of float64");
    let many = told(Nest::List(vec![leaf(DType::Float32, &[4]), leaf(DType::Float32, &[1])]));
    assert_eq!(many, "environment: observation expected 1 leaves, got 2");
}

#[test]
fn files_that_are_no_policies_are_refused() {
    let file = untrained("catch/0", false).to_bytes().unwrap();
    for end in [0, 7, 100, file.len() - 1] {
        assert!(matches!(Policy::from_bytes(&file[..end]), Err(RlError::Parameters(_))), "{end}");
    }
    let told = |from: &str, to: &str| {
        let place = file.windows(from.len()).position(|bytes| bytes == from.as_bytes()).unwrap();
        let mut changed = file.clone();
        changed[place..place + to.len()].copy_from_slice(to.as_bytes());
        Policy::from_bytes(&changed).unwrap_err().to_string()
    };
    assert!(told("relive.policy", "another.thing").contains("nothing under relive.policy"));
    assert!(told(r#"version\":1"#, r#"version\":2"#).contains("it is of \"dqn\", version 2"));
    assert!(told(r#"[8,8]"#, r#"[8,9]"#).contains("has shape"));
    assert!(told(r#"actions\":3"#, r#"actions\":0"#).contains("the number of actions is 0"));
    assert!(Policy::load("/nowhere/at/all").unwrap_err().to_string().starts_with("/nowhere/at/all: "));
}

#[test]
fn a_run_that_is_told_to_stop_gives_what_it_has() {
    for actors in [0, 2] {
        let stop = Stop::new();
        let options =
            RunOptions { env_steps: u64::MAX, seed: 1, actors, stop: stop.clone(), ..RunOptions::default() };
        let config = DqnConfig { min_replay_size: 50, batch_size: 16, ..DqnConfig::default() };
        let make = |seed| Ok(relive_env::make("catch/0", seed)?);
        let Trained { summary, .. } = train(&config, &options, &make, &mut |report| {
            if matches!(report, Report::Actor(episode) if episode.episode == 40) {
                stop.stop();
            }
        })
        .unwrap();
        assert!(summary.episodes >= 40 && summary.learner_steps > 0, "{actors} actors: {summary:?}");
    }
}
