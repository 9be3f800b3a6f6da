//! Several learners of one run.

use std::sync::mpsc::channel;
use std::thread::{JoinHandle, spawn};

use relive_client::blocking::Client;
use relive_engine::Engine;
use relive_rl::learners::{Followed, Follower, learn};
use relive_rl::plan::MakeEnvironment;
use relive_rl::run::{RunOptions, Stop, Trained, Watch, train};
use relive_rl::{Result, RlError, Weights};
use relive_table::TableConfig;

fn make(name: &str) -> MakeEnvironment {
    let name = name.to_owned();
    MakeEnvironment::new(move |seed| Ok(relive_env::make(&name, seed)?))
}

/// A run with several learners. The other learners are threads of this process, and access the tables without a
/// network.
struct LearnerGroup {
    trained: Result<Trained>,
    others: Vec<Result<Followed>>,
}

fn run(agent: &str, settings: &str, options: &RunOptions) -> LearnerGroup {
    let (mut senders, mut others) = (Vec::new(), Vec::<JoinHandle<Result<Followed>>>::new());
    for rank in 1..options.learners.unwrap_or(1) {
        let (sender, receiver) = channel::<Engine>();
        senders.push(sender);
        others.push(spawn(move || {
            let engine = receiver.recv().map_err(|_| RlError::Stopped)?;
            let client = Client::in_process(engine)?;
            let follower = Follower { client: &client, rank, stop: &Stop::new() };
            learn(&follower, &relive_agents::from_json, &|name| Ok(make(name)))
        }));
    }
    let senders = parking_lot::Mutex::new(senders);
    let watch = Watch::new(move |engine| {
        // No learner thread is left if the run was rejected before it began.
        senders.lock().drain(..).for_each(|sender| drop(sender.send(engine.clone())));
    });
    let agent = relive_agents::from_json(agent, settings).unwrap();
    let watched = RunOptions { watch: Some(watch), ..options.clone() };
    let trained = train(&agent, &watched, &make(&options.environment), &mut |_| {});
    drop(watched);
    LearnerGroup { trained, others: others.into_iter().map(|other| other.join().unwrap()).collect() }
}

fn options(environment: &str, env_steps: u64, learners: u32) -> RunOptions {
    RunOptions {
        environment: environment.to_owned(),
        env_steps,
        seed: 3,
        actors: 2,
        learners: Some(learners),
        ..RunOptions::default()
    }
}

fn bytes(weights: &Weights) -> Vec<u8> {
    weights.parts().iter().flat_map(|(_, tensor)| tensor.bytes().unwrap().to_vec()).collect()
}

fn numbers(weights: &Weights) -> Vec<f32> {
    weights.parts().iter().flat_map(|(_, tensor)| tensor.to_vec::<f32>().unwrap()).collect()
}

const OFF_POLICY: &str =
    r#""hidden": [8], "batch_size": 8, "min_replay_size": 64, "samples_per_insert": 4.0"#;
const ACTOR_CRITIC: &str = r#""hidden": [8], "num_envs": 5, "num_steps": 16"#;
const FRAGMENTS: &str = r#""hidden": [8], "num_envs": 4, "sequence_length": 8, "batch_size": 5"#;

/// The agents, with further settings and an environment for each.
const AGENTS: &[(&str, &str, &str, &str)] = &[
    ("dqn", OFF_POLICY, "", "CartPole-v1"),
    ("dqn", OFF_POLICY, r#", "noisy": true, "replay_shards": 2"#, "CartPole-v1"),
    ("ppo", ACTOR_CRITIC, r#", "minibatch_size": 32, "target_kl": 0.01"#, "CartPole-v1"),
    (
        "ppo",
        ACTOR_CRITIC,
        r#", "normalize_observations": true, "normalize_rewards": true, "anneal": true"#,
        "Pendulum-v1",
    ),
    ("a2c", ACTOR_CRITIC, "", "CartPole-v1"),
    ("impala", FRAGMENTS, r#", "lstm_units": 4, "anneal": true"#, "CartPole-v1"),
    ("appo", FRAGMENTS, r#", "lstm_units": 0, "epochs": 2"#, "Pendulum-v1"),
    ("sac", OFF_POLICY, r#", "normalize_observations": true"#, "Pendulum-v1"),
    ("td3", OFF_POLICY, "", "Pendulum-v1"),
    ("d4pg", OFF_POLICY, "", "Pendulum-v1"),
    ("mpo", OFF_POLICY, "", "Pendulum-v1"),
    ("r2d2", r#""hidden": [8], "lstm_units": 4, "batch_size": 4, "min_replay_size": 8"#, "", "CartPole-v1"),
    ("mcts", OFF_POLICY, r#", "num_simulations": 2"#, "CartPole-v1"),
];

#[test]
fn all_learners_end_with_the_same_weights_bit_for_bit() {
    for (agent, settings, more, environment) in AGENTS {
        let LearnerGroup { trained, others } =
            run(agent, &format!("{{{settings}{more}}}"), &options(environment, 600, 3));
        let trained = trained.unwrap_or_else(|error| panic!("{agent}: {error}"));
        assert!(trained.summary.learner_steps > 2, "{agent}: {:?}", trained.summary);
        assert_eq!(others.len(), 2);
        for other in others {
            let other = other.unwrap_or_else(|error| panic!("{agent}: {error}"));
            assert_eq!(other.steps, trained.summary.learner_steps, "{agent}");
            let weights = other.weights.unwrap();
            assert_eq!(weights.version(), trained.weights.version(), "{agent}");
            assert!(bytes(&weights) == bytes(&trained.weights), "{agent}: other weights");
        }
    }
}

#[test]
fn shared_minibatches_match_the_steps_of_one_learner() {
    for (environment, more) in [("CartPole-v1", ""), ("Pendulum-v1", r#", "normalize_observations": true"#)] {
        // Minibatches of at most 7 cells, which three learners cannot divide evenly.
        let settings = format!(r#"{{{ACTOR_CRITIC}{more}, "minibatch_size": 7, "epochs": 2}}"#);
        let of = |learners| run("ppo", &settings, &options(environment, 80, learners)).trained.unwrap();
        let (alone, shared) = (of(1), of(3));
        assert_eq!(alone.summary.learner_steps, shared.summary.learner_steps);
        for (one, three) in numbers(&alone.weights).iter().zip(numbers(&shared.weights)) {
            assert!((one - three).abs() < 2e-4, "{environment}: {one} {three}");
        }
    }
}

#[test]
fn each_learner_samples_its_own_batches_and_the_ratio_covers_all() {
    let settings = format!("{{{OFF_POLICY}}}");
    let of =
        |learners| run("dqn", &settings, &options("CartPole-v1", 2_000, learners)).trained.unwrap().summary;
    let (alone, shared) = (of(1), of(2));
    for summary in [&alone, &shared] {
        assert!((summary.samples_per_insert - 4.0).abs() < 0.4, "{summary:?}");
    }
    #[expect(clippy::cast_precision_loss, reason = "steps are few")]
    let ratio = alone.learner_steps as f64 / shared.learner_steps as f64;
    assert!((ratio - 2.0).abs() < 0.2, "{alone:?} {shared:?}");
}

#[test]
fn runs_that_cannot_share_learning_are_refused() {
    let of = |agent: &str, settings: &str, change: &dyn Fn(&mut RunOptions)| {
        // The run is rejected before any other learner can join.
        let mut options = RunOptions { watch: Some(Watch::new(|_| {})), ..options("CartPole-v1", 500, 2) };
        change(&mut options);
        let agent = relive_agents::from_json(agent, settings).unwrap();
        train(&agent, &options, &make("CartPole-v1"), &mut |_| {}).unwrap_err().to_string()
    };
    let actual = of("a3c", "{}", &|_| {});
    assert_eq!(
        actual,
        "learners is 2, but it must be 1 for this agent, whose learner cannot share gradients with other learners"
    );
    let actual = of("impala", r#"{"batch_size": 2, "num_envs": 3}"#, &|options| options.learners = Some(3));
    assert!(actual.contains("learners is 3, but it must be at most batch_size, 2"), "{actual}");
    let actual = of("ppo", "{}", &|options| options.learners = Some(0));
    assert_eq!(actual, "learners is 0, but it must be from 1 to 64");
    let actual = of("ppo", "{}", &|options| options.learners = Some(65));
    assert_eq!(actual, "learners is 65, but it must be from 1 to 64");
    let actual = of("ppo", "{}", &|options| options.actors = 0);
    assert!(actual.starts_with("learners is 2, but it must be 1 without actors"), "{actual}");
    let agent = relive_agents::from_json("ppo", "{}").unwrap();
    let unserved = train(&agent, &options("CartPole-v1", 500, 2), &make("CartPole-v1"), &mut |_| {});
    let actual = unserved.unwrap_err().to_string();
    assert_eq!(actual, "several learners needs tables that RunOptions::watch serves");
    // A learner without a run also fails.
    let client =
        Client::in_process(Engine::builder().table(TableConfig::new("other")).build().unwrap()).unwrap();
    let alone = Follower { client: &client, rank: 1, stop: &Stop::new() };
    let joined = learn(&alone, &relive_agents::from_json, &|name: &str| Ok(make(name)));
    assert_eq!(joined.unwrap_err().to_string(), "another learner needs a run of several learners");
}
