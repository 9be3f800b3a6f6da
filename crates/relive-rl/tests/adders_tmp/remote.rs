//! Runs around a server.

use std::thread::scope;

use relive_client::blocking::Client;
use relive_engine::Engine;
use relive_rl::dqn::DqnConfig;
use relive_rl::experiment::{Stop, Trained};
use relive_rl::remote::{RemoteActor, RemoteLearner, act, evaluate, is_over, learn};
use relive_rl::{Result, RlError};
use relive_table::TableConfig;

fn small() -> DqnConfig {
    DqnConfig { batch_size: 16, min_replay_size: 50, hidden: vec![8], ..DqnConfig::default() }
}

/// A server's tables, for clients in this process.
fn server() -> (Engine, Client) {
    let engine = Engine::builder().table(TableConfig::new("scratch")).build().unwrap();
    let client = Client::in_process(engine.clone()).unwrap();
    (engine, client)
}

fn learner(client: &Client, agent: &DqnConfig, environment: &str, env_steps: u64) -> Result<Trained> {
    let stop = &Stop::new();
    let run = RemoteLearner { agent, client, environment, seed: 1, env_steps, stop };
    let make = |seed| Ok(relive_env::make(environment, seed)?);
    learn(&run, &make, &mut |_| {})
}

fn actor(client: &Client, agent: &DqnConfig, environment: &str, stop: &Stop) -> Result<()> {
    let run = RemoteActor { agent, client, environment, seed: 2, stop };
    act(&run, 0, &|seed| Ok(relive_env::make(environment, seed)?), &mut |_| {})
}

#[test]
fn whoever_is_of_another_run_is_refused() {
    let (_, client) = server();
    let stop = Stop::new();
    // It has steps enough from the beginning, and leaves a run that is over.
    learner(&client, &small(), "catch/0", 0).unwrap();
    let other_steps = DqnConfig { n_step: 1, ..small() };
    let error = actor(&client, &small(), "catch/1", &stop).unwrap_err().to_string();
    assert!(error.contains("environment is catch/0 there, catch/1 was asked for"), "{error}");
    let error = actor(&client, &other_steps, "catch/0", &stop).unwrap_err().to_string();
    assert!(error.contains("n_step is 5 there, 1 was asked for"), "{error}");
    let watching =
        RemoteActor { agent: &small(), client: &client, environment: "bandit/0", seed: 1, stop: &stop };
    let make = |seed| Ok(relive_env::make("bandit/0", seed)?);
    let error = evaluate(&watching, 1, &make, &mut |_, _| {}).unwrap_err();
    assert!(matches!(error, RlError::OtherRun { .. }), "{error}");
    let error = learner(&client, &small(), "catch/1", 400).unwrap_err();
    assert!(error.to_string().contains("relive table drop"), "{error}");
    // Nothing was changed by those who were refused: the run itself is told as it is.
    assert!(is_over(&client).unwrap());
    learner(&client, &small(), "catch/0", 0).unwrap();
    actor(&client, &small(), "catch/0", &stop).unwrap();
}

#[test]
fn a_learner_that_fails_does_not_end_the_run_of_its_actors() {
    let (engine, client) = server();
    let wild = DqnConfig { learning_rate: 1e36, ..small() };
    let stop = Stop::new();
    scope(|threads| {
        let acting = threads.spawn(|| actor(&client, &wild, "catch/0", &stop));
        let error = learner(&client, &wild, "catch/0", 400).unwrap_err();
        assert!(matches!(error, RlError::Diverged { .. }), "{error}");
        assert!(!is_over(&client).unwrap(), "actors go on, or wait");
        stop.stop();
        // The table may hold the actor back.
        engine.close();
        let _ = acting.join().unwrap();
    });
}
