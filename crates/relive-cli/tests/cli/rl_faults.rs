//! What `docs/clusters.md` says about processes of a run that are killed or stopped: one test for each line.

use std::time::{Duration, Instant};

use crate::rl::{folder, text};
use crate::rl_processes::{children, has_checkpoint, kill};
use crate::running::{PATIENCE, Running, Tables, wait_until};
use crate::support::{Served, command, file, free_address};

/// A run that does not end by itself.
const ENDLESS: &str = "1000000000000";

/// A learner with workers of its own, or with others that join, and the address of its tables.
fn driver(agent: &str, actors: &str, more: &[&str]) -> (Running, String) {
    let address = free_address();
    let args = ["rl", "train", agent, "--env", "CartPole-v1", "--on", "processes", "--actors", actors];
    let run = Running::start(&mut command(&[&args[..], &["--listen", &address], more].concat()));
    (run, address)
}

fn worker(address: &str, number: &str) -> Running {
    Running::start(&mut command(&["rl", "worker", "--join", address, "--number", number]))
}

/// "A worker's process ends": its place works again within two seconds, and what the tables have is there still.
#[test]
fn the_place_of_a_killed_worker_works_again_soon() {
    // A worker has one item on its way at most. In a round of PPO each of the two workers has a part.
    for (agent, actors, table, in_flight) in
        [("impala", "1", "results", 1), ("dqn", "1", "results", 1), ("ppo", "2", "weights", 2)]
    {
        let (mut driver, address) = driver(agent, actors, &["--steps", ENDLESS]);
        let tables = Tables::at(&address);
        tables.wait_for(5, table);
        let replay = tables.inserted("replay");
        kill(children(driver.child())[0]);
        let pause = tables.wait_for(in_flight + 2, table);
        driver.says("ended with signal 9: restarting it");
        assert!(tables.inserted("replay") >= replay);
        println!("{agent}: {pause:?} until the next item of the place");
        assert!(pause < Duration::from_secs(10), "{agent}: {pause:?}");
    }
}

/// "A worker is stopped, or slow": other workers of IMPALA do not wait for it, and it takes part again.
#[test]
fn a_worker_that_is_stopped_again_and_again_holds_nobody_up() {
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

/// "A worker is stopped, or slow": a round of PPO has a part of each worker, so that the run waits, and says for what.
#[test]
fn a_synchronous_run_waits_for_a_worker_that_is_stopped_and_says_so() {
    let (mut driver, address) = driver("ppo", "2", &["--no-spawn", "--steps", ENDLESS]);
    let workers = ["0", "1"].map(|number| worker(&address, number));
    let tables = Tables::at(&address);
    tables.wait_for(3, "weights");
    workers[1].signal("STOP");
    driver.says("the run is waiting for `rounds of workers`");
    let before = tables.inserted("weights");
    driver.says("the run is waiting for `rounds of workers`");
    assert_eq!(tables.inserted("weights"), before, "nothing is learned meanwhile");
    workers[1].signal("CONT");
    tables.wait_for(3, "weights");
}

/// "A worker joins later": with a number that is free, it takes part in a run that goes on.
#[test]
fn a_worker_that_comes_later_takes_part() {
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
        let told = worker.succeeds();
        assert!(told.contains(" episodes, ") && !told.contains(" 0 steps"), "{told}");
    }
}

/// "The program that learns ends": workers that others have started say that they wait, and another one goes on from
/// the checkpoint.
#[test]
fn another_driver_takes_over_from_the_checkpoint_with_the_workers_that_wait() {
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
        worker.says("the server does not answer: waiting for it");
    }
    let since = Instant::now();
    let mut second = driver("200000");
    second.says("resumed from ");
    Tables::at(&address).wait_for(10, "results");
    println!("another driver goes on with the workers after {:?}", since.elapsed());
    second.succeeds();
    for worker in workers {
        let told = worker.succeeds();
        assert!(told.contains("episodes"), "{told}");
    }
}

/// The same where the tables are on a server: the next driver waits for the lease of the one before, and no item is
/// lost.
#[test]
fn another_driver_takes_over_on_a_server_after_the_lease() {
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
    worker.says("no driver is active: waiting for one");
    let since = Instant::now();
    let mut second = driver("40000");
    second.says("waiting 5 s for its heartbeat");
    tables.wait_for(1, "weights");
    println!("the next driver learns after {:?}", since.elapsed());
    assert!(since.elapsed() < PATIENCE / 4, "{:?}", since.elapsed());
    second.succeeds();
    assert!(tables.inserted("replay") >= replay, "the experience is there still");
    worker.succeeds();
}

/// "The `--server` with the tables ends": driver and worker say that they wait, and go on with the tables of its last
/// checkpoint.
#[test]
fn a_run_goes_on_when_its_killed_server_is_back() {
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
    driver.says("the server does not answer: waiting for it");
    worker.says("the server does not answer: waiting for it");
    let _back = serve(port);
    driver.says("continuing");
    worker.says("continuing");
    let replay = tables.inserted("replay");
    assert!(replay > 0, "it has the tables of the run");
    wait_until("the worker's items come again", || tables.inserted("replay") > replay);
    tables.wait_for(5, "weights");
    driver.signal("INT");
    driver.succeeds();
    worker.succeeds();
}
