//! Tests what `docs/clusters.md` states about processes of a run that are killed or stopped: one test for each line.

use std::time::{Duration, Instant};

use crate::rl::{folder, text};
use crate::rl_processes::{children, has_checkpoint, kill};
use crate::running::{PATIENCE, Running, Tables, wait_until};
use crate::support::{Served, command, file, free_address};

/// A run that does not end by itself.
const ENDLESS: &str = "1000000000000";

/// Returns a learner that starts workers, or that workers join, and the address of its tables.
fn driver(agent: &str, actors: &str, more: &[&str]) -> (Running, String) {
    let address = free_address();
    let args = ["rl", "train", agent, "--env", "CartPole-v1", "--on", "processes", "--actors", actors];
    let run = Running::start(&mut command(&[&args[..], &["--listen", &address], more].concat()));
    (run, address)
}

fn worker(address: &str, number: &str) -> Running {
    Running::start(&mut command(&["rl", "worker", "--join", address, "--number", number]))
}

/// "A worker's process ends": a worker takes its place within two seconds, and the contents of the tables are kept.
#[test]
fn a_killed_worker_is_soon_replaced() {
    // A worker has at most one item in flight. In PPO, both workers contribute to each round.
    for (agent, actors, table, in_flight) in
        [("impala", "1", "results", 1), ("dqn", "1", "results", 1), ("ppo", "2", "weights", 2)]
    {
        let (mut driver, address) = driver(agent, actors, &["--steps", ENDLESS]);
        let tables = Tables::at(&address);
        tables.wait_for(5, table);
        let replay = tables.inserted("replay");
        kill(children(driver.child())[0]);
        let pause = tables.wait_for(in_flight + 2, table);
        driver.wait_for_line("ended with signal 9: restarting it");
        assert!(tables.inserted("replay") >= replay);
        println!("{agent}: {pause:?} until the next item of the place");
        assert!(pause < Duration::from_secs(10), "{agent}: {pause:?}");
    }
}

/// "A worker is stopped, or slow": other workers of IMPALA do not wait for it, and it participates again once it
/// continues.
#[test]
fn a_repeatedly_suspended_worker_does_not_block_the_run() {
    let (_driver, address) = driver("impala", "2", &["--no-spawn", "--steps", ENDLESS]);
    let workers = ["0", "1"].map(|number| worker(&address, number));
    let tables = Tables::at(&address);
    tables.wait_for(10, "weights");
    for _ in 0..5 {
        workers[1].signal("STOP");
        tables.wait_for(20, "weights");
        let before = workers[1].ticks();
        tables.wait_for(20, "results");
        assert_eq!(workers[1].ticks(), before, "it is stopped");
        workers[1].signal("CONT");
        wait_until("the worker goes on", || workers[1].ticks() > before + 2);
    }
}

/// "A worker is stopped, or slow": a round of PPO needs every worker, so the run waits, and logs what it is waiting
/// for.
#[test]
fn a_synchronous_run_waits_for_a_suspended_worker_and_reports_it() {
    let (mut driver, address) = driver("ppo", "2", &["--no-spawn", "--steps", ENDLESS]);
    let workers = ["0", "1"].map(|number| worker(&address, number));
    let tables = Tables::at(&address);
    tables.wait_for(3, "weights");
    workers[1].signal("STOP");
    driver.wait_for_line("the run is waiting for `rounds of workers`");
    let before = tables.inserted("weights");
    driver.wait_for_line("the run is waiting for `rounds of workers`");
    assert_eq!(tables.inserted("weights"), before, "nothing is learned meanwhile");
    workers[1].signal("CONT");
    tables.wait_for(3, "weights");
}

/// "A worker joins later": with a free number, it joins a run in progress.
#[test]
fn a_late_worker_joins_the_run() {
    let (driver, address) = driver("impala", "1", &["--no-spawn", "--steps", ENDLESS]);
    let first = worker(&address, "0");
    let tables = Tables::at(&address);
    tables.wait_for(10, "weights");
    let later = worker(&address, "7");
    wait_until("the later worker acts", || later.ticks() > 20);
    tables.wait_for(10, "weights");
    driver.signal("INT");
    driver.succeeds();
    for worker in [first, later] {
        let output = worker.succeeds();
        assert!(output.contains(" episodes, ") && !output.contains(" 0 steps"), "{output}");
    }
}

/// "The program that learns ends": workers that were started separately log that they are waiting, and another learner
/// resumes from the checkpoint.
#[test]
fn another_driver_resumes_from_the_checkpoint_with_the_waiting_workers() {
    let (address, saved) = (free_address(), folder());
    let driver = |steps: &str| {
        let args = ["rl", "train", "impala", "--env", "CartPole-v1", "--on", "processes", "--no-spawn"];
        let more = ["--listen", &address, "--checkpoint-dir", text(&saved), "--checkpoint-every", "2000"];
        Running::start(&mut command(&[&args[..], &more, &["--steps", steps]].concat()))
    };
    let mut first = driver(ENDLESS);
    let mut workers = ["0", "1"].map(|number| worker(&address, number));
    wait_until("there is a checkpoint", || has_checkpoint(&saved));
    first.kill();
    for worker in &mut workers {
        worker.wait_for_line("the server does not answer: waiting for it");
    }
    let since = Instant::now();
    let mut second = driver("200000");
    second.wait_for_line("resumed from ");
    Tables::at(&address).wait_for(10, "results");
    println!("another driver goes on with the workers after {:?}", since.elapsed());
    second.succeeds();
    for worker in workers {
        let output = worker.succeeds();
        assert!(output.contains("episodes"), "{output}");
    }
}

/// With the tables on a server, the next driver waits until the previous driver's lease expires, and no item is lost.
#[test]
fn another_driver_takes_over_on_a_server_once_the_lease_expires() {
    let server = Served::start(".toml", "[[table]]\nname = \"scratch\"\n");
    let driver = |steps: &str| {
        let args = ["rl", "train", "dqn", "--env", "CartPole-v1", "--on", "processes", "--no-spawn"];
        Running::start(&mut command(
            &[&args[..], &["--server", &server.address, "--steps", steps, "--actors", "1"]].concat(),
        ))
    };
    let mut first = driver(ENDLESS);
    let mut worker = worker(&server.address, "0");
    let tables = Tables::at(&server.address);
    wait_until("the run learns", || tables.inserted("weights") >= 5);
    first.kill();
    let replay = tables.inserted("replay");
    worker.wait_for_line("no driver is active: waiting for one");
    let since = Instant::now();
    let mut second = driver("10000");
    second.wait_for_line("waiting 5 s for its heartbeat");
    tables.wait_for(1, "weights");
    println!("the next driver learns after {:?}", since.elapsed());
    assert!(since.elapsed() < PATIENCE / 4, "{:?}", since.elapsed());
    second.succeeds();
    assert!(tables.inserted("replay") >= replay, "the experience is there still");
    worker.succeeds();
}

/// "The `--server` with the tables exits": the driver and the worker log that they are waiting, and continue with the
/// tables of the server's last checkpoint.
#[test]
fn a_run_resumes_when_its_killed_server_is_restarted() {
    let (config, saved) = (file(".toml", "[[table]]\nname = \"scratch\"\n"), folder());
    let serve = |port: &str| {
        let serve = ["serve", "--config", text(&config), "--port", port, "--checkpoint-tables"];
        Served::spawn(&mut command(&[&serve[..], &["--checkpoint-dir", text(&saved)]].concat()))
    };
    let mut server = serve("0");
    let address = server.address.clone();
    let (_, port) = address.rsplit_once(':').unwrap();
    let train = ["rl", "train", "dqn", "--env", "CartPole-v1", "--on", "processes", "--no-spawn"];
    let more = ["--server", &address, "--actors", "1", "--steps", ENDLESS];
    let mut driver = Running::start(&mut command(&[&train[..], &more].concat()));
    let mut worker = worker(&address, "0");
    let tables = Tables::at(&address);
    wait_until("the run learns", || tables.inserted("weights") >= 5);
    tables.0.with_timeout(PATIENCE).checkpoint().unwrap();
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    driver.wait_for_line("the server does not answer: waiting for it");
    worker.wait_for_line("the server does not answer: waiting for it");
    let _back = serve(port);
    driver.wait_for_line("continuing");
    worker.wait_for_line("continuing");
    let replay = tables.inserted("replay");
    assert!(replay > 0, "it has the tables of the run");
    wait_until("the worker's items come again", || tables.inserted("replay") > replay);
    tables.wait_for(5, "weights");
    driver.signal("INT");
    driver.succeeds();
    worker.succeeds();
}
