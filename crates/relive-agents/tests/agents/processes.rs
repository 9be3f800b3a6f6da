//! Runs with processes as workers. In these tests, workers are threads that only share the server; the tests of the
//! command line use real processes.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::{JoinHandle, scope, spawn};
use std::time::Duration;

use parking_lot::Mutex;
use relive_agents::{Demonstrations, DqnConfig};
use relive_client::blocking::Client;
use relive_client::{Nest, Tensor};
use relive_engine::Engine;
use relive_rl::plan::MakeEnvironment;
use relive_rl::processes::{Worked, Worker, work};
use relive_rl::run::{Processes, RunOptions, Stop, Trained, Watch, look};
use relive_rl::{Agent, Result, RlError};
use relive_table::TableConfig;

use crate::common::{all, numbers, on_policy, options, run, small_dqn};
use crate::faulty::Faulty;

fn named(name: &str) -> Result<MakeEnvironment> {
    let name = name.to_owned();
    Ok(MakeEnvironment::new(move |seed| Ok(relive_env::make(&name, seed)?)))
}

fn worker(client: &Client, number: u32) -> Result<Worked> {
    worker_until(client, number, &Stop::new())
}

fn worker_until(client: &Client, number: u32, stop: &Stop) -> Result<Worked> {
    work(&Worker::new(client, number, stop), &relive_agents::from_json, &named)
}

/// Executes a run that serves its own tables to the given number of workers. Returns the results of the run and of the
/// workers.
fn served(
    agent: &Arc<dyn Agent>,
    options: &RunOptions,
    workers: u32,
) -> (Result<Trained>, Vec<Result<Worked>>) {
    let started: Arc<Mutex<Vec<JoinHandle<Result<Worked>>>>> = Arc::default();
    let (starting, stop) = (Arc::clone(&started), Stop::new());
    let actual = stop.clone();
    let watch = Watch::new(move |engine: &Engine| {
        for number in 0..workers {
            let client = Client::in_process(engine.clone()).unwrap();
            // A failed worker is noticed here, even while the run is waiting for it.
            let actual = actual.clone();
            starting.lock().push(spawn(move || Ok(worker_until(&client, number, &actual).unwrap())));
        }
    });
    let (actors, processes) = (usize::try_from(workers).unwrap(), Some(Processes::default()));
    let options = RunOptions { actors, processes, watch: Some(watch), ..options.clone() };
    let trained = run(agent, &options).map(|(trained, _)| trained);
    // A worker that was too late to join would wait for the tables of this run forever.
    stop.stop();
    let worked = std::mem::take(&mut *started.lock());
    (trained, worked.into_iter().map(|worker| worker.join().unwrap()).collect())
}

#[test]
fn rounds_of_processes_give_the_same_results_as_one_thread() {
    for (agent, environments) in on_policy() {
        for environment in environments {
            let options = options(environment, 400, 3);
            let alone = numbers(&run(&agent, &options).unwrap().0);
            for workers in [1, 3] {
                let (trained, worked) = served(&agent, &options, workers);
                assert!(numbers(&trained.unwrap()) == alone, "{} in {environment}", agent.name());
                assert!(worked.iter().all(Result::is_ok), "{worked:?}");
            }
        }
    }
}

#[test]
fn every_agent_learns_from_processes() {
    for (agent, environments) in all() {
        let (trained, worked) = served(&agent, &options(environments[0], 1_000, 1), 2);
        let summary = trained.unwrap().summary;
        assert!(summary.env_steps >= 1_000 && summary.learner_steps > 0, "{}: {summary:?}", agent.name());
        for worked in worked {
            worked.unwrap();
        }
    }
}

#[test]
fn processes_keep_the_samples_per_insert_ratio() {
    let agent: Arc<dyn Agent> = Arc::new(small_dqn());
    let (trained, worked) = served(&agent, &options("catch/0", 4_000, 1), 2);
    let summary = trained.unwrap().summary;
    assert!((summary.samples_per_insert / 32.0 - 1.0).abs() < 0.1, "{summary:?}");
    assert!(worked.into_iter().all(|worked| worked.unwrap().episodes > 0));
}

/// Returns a server's tables, for clients in this process.
fn server() -> (Engine, Client) {
    let engine = Engine::builder().table(TableConfig::new("scratch")).build().unwrap();
    let client = Client::in_process(engine.clone()).unwrap();
    (engine, client)
}

fn on_server(client: &Client, agent: DqnConfig, environment: &str, env_steps: u64) -> Result<Trained> {
    let agent: Arc<dyn Agent> = Arc::new(agent);
    let processes = Some(Processes { server: Some(client.clone()), by_nodes: false });
    Ok(run(&agent, &RunOptions { actors: 1, processes, ..options(environment, env_steps, 1) })?.0)
}

#[test]
fn a_run_on_a_server_resumes_where_it_stopped() {
    let (_engine, client) = server();
    let first = scope(|threads| {
        let acting = threads.spawn(|| worker(&client, 0));
        let first = on_server(&client, small_dqn(), "catch/0", 500).unwrap();
        assert!(acting.join().unwrap().unwrap().env_steps > 0);
        first
    });
    assert!(worker(&client, 0).unwrap() == Worked::default(), "it is over");
    let shown = look(&client).unwrap().unwrap();
    assert!(shown.contains(r#""phase":"over""#), "{shown}");
    let second = scope(|threads| {
        let acting = threads.spawn(|| {
            // The run is paused until its next driver starts.
            let stop = Stop::new();
            let worker = Worker { awaits_next: true, ..Worker::new(&client, 0, &stop) };
            work(&worker, &relive_agents::from_json, &named)
        });
        let second = on_server(&client, small_dqn(), "catch/0", 1_000).unwrap();
        assert!(acting.join().unwrap().unwrap().env_steps > 0);
        second
    });
    assert!(second.summary.env_steps >= 1_000);
    assert!(second.summary.learner_steps > first.summary.learner_steps);
}

#[test]
fn items_are_divided_among_tables_evenly() {
    let (_engine, client) = server();
    scope(|threads| {
        let acting = threads.spawn(|| worker(&client, 0));
        let sharded = DqnConfig { replay_shards: 4, max_replay_size: 1_000, ..small_dqn() };
        on_server(&client, sharded, "catch/0", 500).unwrap();
        acting.join().unwrap().unwrap();
    });
    let info = client.server_info().unwrap();
    let inserts: Vec<i64> =
        (0..4).map(|shard| info.table(&format!("replay/{shard}")).unwrap().inserts).collect();
    let (least, most) = (inserts.iter().min().unwrap(), inserts.iter().max().unwrap());
    assert!(*least > 50 && most - least <= 1, "{inserts:?}");
    assert!(info.table("replay").is_none());
    // New priorities are written to the table that has the item.
    let changed = (0..4).filter(|shard| {
        let samples = client.sample(&format!("replay/{shard}"), 20).unwrap();
        samples.iter().any(|sample| sample.info().priority != 1.0)
    });
    assert_eq!(changed.count(), 4);
}

#[test]
fn demonstrations_of_an_interrupted_start_are_written_again() {
    let demonstrations = Demonstrations { ratio: 0.5, ..Demonstrations::default() };
    let agent = DqnConfig { demonstrations, ..small_dqn() };
    let shown = |client: &Client| {
        on_server(client, agent.clone(), "deep_sea/0", 0).unwrap();
        client.server_info().unwrap().table("demonstrations").unwrap().current_size
    };
    let (_undisturbed, client) = server();
    let all = shown(&client);
    assert_eq!((all > 1, shown(&client)), (true, all), "a resumed run does not write them again");
    let (_interrupted, client) = server();
    for table in Agent::tables(&agent).unwrap() {
        client.add_table(table).unwrap();
    }
    let columns = ["action", "discount", "next_observation", "observation", "reward"];
    let item = Nest::dict(columns.map(|name| (name, Nest::Leaf(Tensor::scalar(1_i32)))));
    client.insert(&item, &[("demonstrations", 1.0)]).unwrap();
    assert_eq!(shown(&client), all);
}

#[test]
fn other_runs_on_the_server_are_refused_and_change_nothing() {
    let (_engine, client) = server();
    // The run has enough steps from the start, and leaves a job that is over.
    on_server(&client, small_dqn(), "catch/0", 0).unwrap();
    let error = on_server(&client, small_dqn(), "catch/1", 400).unwrap_err();
    assert!(matches!(error, RlError::OtherRun { .. }), "{error}");
    assert!(
        error.to_string().contains("environment: the server's run has catch/0, this run has catch/1"),
        "{error}"
    );
    assert!(error.to_string().contains("relive table drop"), "{error}");
    let ppo: Arc<dyn Agent> = Arc::new(relive_agents::PpoConfig::default());
    let processes = Some(Processes { server: Some(client.clone()), by_nodes: false });
    let error = run(&ppo, &RunOptions { actors: 1, processes, ..options("catch/0", 400, 1) }).map(drop);
    let error = error.unwrap_err().to_string();
    assert!(
        error.contains(
            "agent: the server's run has dqn, this run has ppo; use the values of the server's run"
        ),
        "{error}"
    );
    let other = DqnConfig { learning_rate: 0.5, ..small_dqn() };
    let error = on_server(&client, other, "catch/0", 400).unwrap_err().to_string();
    assert!(error.contains("learning_rate: the server's run has 0.001, this run has 0.5"), "{error}");
    let other = DqnConfig { n_step: 1, ..small_dqn() };
    let error = on_server(&client, other, "catch/0", 400).unwrap_err().to_string();
    assert!(error.contains("n_step: the server's run has 5, this run has 1"), "{error}");
    assert_eq!(worker(&client, 0).unwrap(), Worked::default(), "it is over still");
    on_server(&client, small_dqn(), "catch/0", 0).unwrap();
}

#[test]
fn workers_wait_for_a_new_driver_after_a_failure() {
    let (engine, client) = server();
    let wild = DqnConfig { learning_rate: 1e36, ..small_dqn() };
    let stop = Stop::new();
    scope(|threads| {
        let acting =
            threads.spawn(|| work(&Worker::new(&client, 0, &stop), &relive_agents::from_json, &named));
        let error = on_server(&client, wild, "catch/0", 400).unwrap_err();
        assert!(matches!(error.cause(), RlError::Diverged { .. }), "{error}");
        assert!(!acting.is_finished(), "it goes on, or waits");
        let shown = look(&client).unwrap().unwrap();
        assert!(shown.contains(r#""phase":"left""#), "{shown}");
        stop.stop();
        acting.join().unwrap().unwrap();
        engine.close();
    });
}

#[test]
fn workers_end_when_the_run_that_serves_them_fails() {
    let wild: Arc<dyn Agent> = Arc::new(DqnConfig { learning_rate: 1e36, ..small_dqn() });
    let (sender, ended) = channel();
    let watch = Watch::new(move |engine: &Engine| {
        let (client, sender) = (Client::in_process(engine.clone()).unwrap(), sender.clone());
        spawn(move || sender.send(worker(&client, 0)).unwrap());
    });
    let processes = Some(Processes::default());
    let options = RunOptions { actors: 1, processes, watch: Some(watch), ..options("catch/0", 4_000, 1) };
    let error = run(&wild, &options).unwrap_err();
    assert!(matches!(error.cause(), RlError::Diverged { .. }), "{error}");
    // A worker that is not told would wait for the tables to return.
    let worked = ended.recv_timeout(Duration::from_secs(60)).expect("the worker has ended").unwrap();
    assert!(worked.env_steps > 0);
}

#[test]
fn faults_of_a_worker_end_the_run_and_are_reported() {
    for (agent, _) in all() {
        let taken = Arc::clone(&agent);
        let (_engine, client) = server();
        let faulty = MakeEnvironment::new(move |_| {
            Ok(Box::new(Faulty::new(f32::NAN, 1.0, false).for_agent(taken.as_ref())))
        });
        let processes = Some(Processes { server: Some(client.clone()), by_nodes: false });
        let options = RunOptions { actors: 1, processes, ..options("faulty", 400, 1) };
        let make = |_: &str| Ok(faulty.clone());
        scope(|threads| {
            let acting = threads.spawn(|| {
                let stop = Stop::new();
                work(&Worker::new(&client, 0, &stop), &relive_agents::from_json, &make)
            });
            let error = crate::common::run_in(&agent, &options, &faulty).unwrap_err();
            assert!(matches!(error.cause(), RlError::Worker { worker: 0, .. }), "{error}");
            assert!(error.to_string().contains("observation at [0] is NaN"), "{error}");
            let error = acting.join().unwrap().unwrap_err();
            assert!(matches!(error.cause(), RlError::NotFinite { .. }), "{error}");
        });
    }
}

#[test]
fn a_worker_without_a_part_in_rounds_is_refused() {
    let (agent, _) = on_policy().remove(0);
    let options = options("CartPole-v1", 400, 1);
    let (_engine, client) = server();
    let processes = Some(Processes { server: Some(client.clone()), by_nodes: false });
    scope(|threads| {
        let refused = threads.spawn(|| worker(&client, 1));
        let driving = threads.spawn(|| run(&agent, &RunOptions { actors: 1, processes, ..options.clone() }));
        let error = refused.join().unwrap().unwrap_err().to_string();
        assert!(error.contains("the number of the worker is 1, but it must be below"), "{error}");
        worker(&client, 0).unwrap();
        driving.join().unwrap().unwrap();
    });
    let none = RunOptions { processes: Some(Processes::default()), ..options };
    let error = run(&agent, &none).unwrap_err().to_string();
    assert_eq!(error, "actors is 0, but it must be at least 1 if the actors are processes");
}
