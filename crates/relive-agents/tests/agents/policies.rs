//! Trained policies: saved, loaded and used to act.

use std::sync::Arc;

use relive_agents::DqnConfig;
use relive_env::{Action, ArraySpec, Buffer, Environment};
use relive_rl::{Agent, RlError, SavedPolicy};
use relive_tensor::{DType, Nest};

use crate::common::{options, run};

fn trained(name: &str, config: DqnConfig, env_steps: u64) -> SavedPolicy {
    let agent: Arc<dyn Agent> = Arc::new(config);
    let (trained, _) = run(&agent, &options(name, env_steps, 1)).unwrap();
    SavedPolicy::of(agent.as_ref(), &trained).unwrap()
}

fn loaded(file: &[u8]) -> relive_rl::Result<SavedPolicy> {
    SavedPolicy::from_bytes(file, &relive_agents::from_json)
}

fn mean_return(policy: &mut SavedPolicy, episodes: u32) -> f64 {
    let mut environment = relive_env::make("catch/0", 77).unwrap();
    let mut observation = Buffer::for_nest(&environment.spec().observations, 1).unwrap();
    let mut action = Buffer::for_nest(&environment.spec().actions, 1).unwrap();
    let mut total = 0.0;
    for _ in 0..episodes {
        let mut step = environment.reset(observation.view_mut()).unwrap();
        while !step.last() {
            policy.act(observation.view(), action.view_mut()).unwrap();
            step = environment.step(Action::Nest(action.view()), observation.view_mut()).unwrap();
            total += step.reward;
        }
    }
    total / f64::from(episodes)
}

#[test]
fn a_trained_policy_performs_well_after_saving() {
    let mut policy = trained("catch/0", DqnConfig::default(), 9_000);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("catch.safetensors");
    policy.save(&path).unwrap();
    let load = || SavedPolicy::load(&path, &relive_agents::from_json);
    let mut copy = load().unwrap();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left there");
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    policy.save(&link).unwrap();
    assert!(link.is_symlink() && load().is_ok());
    let error = policy.save("/dev/full").unwrap_err().to_string();
    assert!(error.contains("/dev/full"), "{error}");
    let after = mean_return(&mut copy, 100);
    assert!(after >= 0.9, "{after}");
    assert_eq!(after.to_bits(), mean_return(&mut policy, 100).to_bits());
}

#[test]
fn the_policy_returns_action_values() {
    let mut policy = trained("catch/0", DqnConfig { hidden: vec![8], ..DqnConfig::default() }, 9);
    let mut environment = relive_env::make("catch/0", 1).unwrap();
    let mut observation = Buffer::for_nest(&environment.spec().observations, 1).unwrap();
    let mut action = Buffer::for_nest(&environment.spec().actions, 1).unwrap();
    environment.reset(observation.view_mut()).unwrap();
    policy.act(observation.view(), action.view_mut()).unwrap();
    let values = policy.extra("values").unwrap().to_vec::<f32>().unwrap();
    let greatest = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let taken = usize::try_from(action.leaf::<i32>(0).unwrap()[0]).unwrap();
    assert_eq!((values.len(), values[taken].to_bits()), (3, greatest.to_bits()));
    assert!(policy.extra("log_probability").is_none());
}

#[test]
fn observations_of_other_environments_are_refused() {
    let mut policy = trained("CartPole-v1", DqnConfig { hidden: vec![8], ..DqnConfig::default() }, 9);
    let mut action = Buffer::for_nest(&policy.spec().actions, 1).unwrap();
    let mut describe = |nest: Nest<ArraySpec>| {
        let buffer = Buffer::for_nest(&nest, 1).unwrap();
        policy.act(buffer.view(), action.view_mut()).unwrap_err().to_string()
    };
    let leaf = |dtype, dims: &[u32]| Nest::Leaf(ArraySpec::new("", dtype, dims));
    let wide = describe(leaf(DType::Float64, &[4]));
    assert!(wide.contains("float32") && wide.contains("float64"), "{wide}");
    let many = describe(Nest::List(vec![leaf(DType::Float32, &[4]), leaf(DType::Float32, &[1])]));
    assert!(many.contains('2'), "{many}");
}

#[test]
fn files_that_are_not_policies_are_refused() {
    let policy = trained("catch/0", DqnConfig { hidden: vec![8, 8], ..DqnConfig::default() }, 9);
    let file = policy.to_bytes().unwrap();
    for end in [0, 7, 100, file.len() - 1] {
        assert!(matches!(loaded(&file[..end]), Err(RlError::DamagedPolicy { .. })), "{end}");
    }
    let mut wild = file.clone();
    let last = wild.len() - size_of::<f32>();
    wild[last..].copy_from_slice(&f32::NAN.to_le_bytes());
    let error = loaded(&wild).map(|_| ()).unwrap_err().to_string();
    assert!(
        error.starts_with("the policy file is damaged: ") && error.contains("NaN or infinite"),
        "{error}"
    );
    let describe = |from: &str, to: &str| {
        let place = file.windows(from.len()).position(|bytes| bytes == from.as_bytes()).unwrap();
        let mut changed = file.clone();
        changed[place..place + to.len()].copy_from_slice(to.as_bytes());
        loaded(&changed).map(|_| ()).unwrap_err().to_string()
    };
    assert!(describe("relive.policy", "another.thing").contains("no entry relive.policy"));
    assert!(
        describe(r#"version\":4"#, r#"version\":3"#)
            .contains("it has version 3, but this program reads version 4")
    );
    assert!(describe(r"[8,8]", r"[8,9]").contains("the weights of a policy"));
    assert!(describe(r#"agent\":\"dqn"#, r#"agent\":\"dqx"#).contains("dqx"));
    let nowhere = SavedPolicy::load("/nowhere/at/all", &relive_agents::from_json);
    assert!(nowhere.map(|_| ()).unwrap_err().to_string().starts_with("/nowhere/at/all: "));
}

#[test]
fn an_exploring_policy_draws_its_actions_with_a_seed() {
    let make = relive_agents::from_json;
    let policy = trained("catch/0", DqnConfig { epsilon: 0.5, ..DqnConfig::default() }, 9);
    let actions = |mut policy: SavedPolicy| -> Vec<i32> {
        let mut observation = Buffer::for_nest(&policy.spec().observations, 1).unwrap();
        observation.leaf_mut::<f32>(0).unwrap().fill(1.0);
        let mut action = Buffer::for_nest(&policy.spec().actions, 1).unwrap();
        let mut act = || {
            policy.act(observation.view(), action.view_mut()).unwrap();
            action.leaf::<i32>(0).unwrap()[0]
        };
        (0..100).map(|_| act()).collect()
    };
    let drawn = |seed| actions(policy.exploring(&make, seed).unwrap());
    let best = actions(loaded(&policy.exploring(&make, 1).unwrap().to_bytes().unwrap()).unwrap());
    assert!(best.iter().all(|action| *action == best[0]), "a file contains only the weights");
    let others = drawn(1).iter().filter(|action| **action != best[0]).count();
    // Two thirds of the random half.
    assert!((20..47).contains(&others), "{others}");
    assert_eq!(drawn(1), drawn(1));
    assert_ne!(drawn(1), drawn(2));
}
