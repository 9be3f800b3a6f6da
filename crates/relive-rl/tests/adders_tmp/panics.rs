//! Panics in one thread of a run, which end it for all.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use relive_client::blocking::Client;
use relive_engine::Engine;
use relive_env::{Action, EnvError, Environment, EnvironmentSpec, TimeStep, ViewMut};
use relive_nn::{Key, Params};
use relive_rl::dqn::DqnConfig;
use relive_rl::experiment::{Evaluation, RunOptions, Stop, Trained, train};
use relive_rl::remote::{RemoteLearner, is_over, learn};
use relive_rl::{
    Actor, Agent, Learner, Pace, Place, Purpose, Result, RlError, Saveable, VariableSource, Variables,
};
use relive_table::TableConfig;

/// Far more than a run takes that ends at once.
const DEADLINE: Duration = Duration::from_secs(60);

/// What comes of `run`, which must not go on for ever.
fn in_time<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> T {
    let (tell, told) = channel();
    std::thread::spawn(move || tell.send(run()));
    told.recv_timeout(DEADLINE).expect("the run ends")
}

/// Far more steps than a run can make.
fn options(actors: usize, evaluation: Option<Evaluation>) -> RunOptions {
    RunOptions { env_steps: u64::MAX, actors, evaluation, ..RunOptions::default() }
}

fn panicked(outcome: Result<Trained>) -> String {
    match outcome {
        Err(RlError::Panicked { who }) => who,
        other => panic!("{other:?}"),
    }
}

/// Catch, whose third step panics.
struct Fragile {
    environment: Box<dyn Environment>,
    steps: u64,
}

impl Environment for Fragile {
    fn spec(&self) -> &EnvironmentSpec {
        self.environment.spec()
    }

    fn reset(&mut self, observation: ViewMut<'_>) -> Result<TimeStep, EnvError> {
        self.environment.reset(observation)
    }

    fn step(&mut self, action: Action<'_>, observation: ViewMut<'_>) -> Result<TimeStep, EnvError> {
        self.steps += 1;
        assert!(self.steps < 3, "step 3 of a test's environment");
        self.environment.step(action, observation)
    }
}

/// Who is said to have panicked, where the environments of these numbers do: 0 is asked for its spec only, those of the actors follow, then the
/// evaluator's.
fn who_panics(actors: usize, evaluation: Option<Evaluation>, fragile: Range<usize>) -> String {
    let made = AtomicUsize::new(0);
    let make = move |seed| {
        let environment = relive_env::make("catch/0", seed)?;
        if fragile.contains(&made.fetch_add(1, Ordering::Relaxed)) {
            return Ok(Box::new(Fragile { environment, steps: 0 }) as Box<dyn Environment>);
        }
        Ok(environment)
    };
    let options = options(actors, evaluation);
    // The learner waits for more experience than there is before the panic.
    panicked(in_time(move || train(&DqnConfig::default(), &options, &make, &mut |_| {})))
}

#[test]
fn an_environment_that_panics_ends_the_run() {
    assert_eq!(who_panics(1, None, 1..2), "an actor");
    let evaluation = Some(Evaluation { every: 9, episodes: 1 });
    for fragile in [1..2, 2..3, 1..3] {
        assert_eq!(who_panics(2, evaluation, fragile), "an actor");
    }
    assert_eq!(who_panics(2, evaluation, 3..4), "the evaluator");
}

/// DQN, whose learner panics at its first step.
struct Clumsy(DqnConfig);

impl Agent for Clumsy {
    fn name(&self) -> &'static str {
        "clumsy"
    }

    fn validate(&self) -> Result<()> {
        Agent::validate(&self.0)
    }

    fn pace(&self) -> Pace {
        self.0.pace()
    }

    fn tables(&self) -> Result<Vec<TableConfig>> {
        Agent::tables(&self.0)
    }

    fn init(&self, spec: &EnvironmentSpec, key: Key) -> Result<Params> {
        Agent::init(&self.0, spec, key)
    }

    fn learner(&self, place: &Place<'_>, prefetch: usize) -> Result<Box<dyn Learner>> {
        Ok(Box::new(Falls(Agent::learner(&self.0, place, prefetch)?)))
    }

    fn actor(
        &self,
        place: &Place<'_>,
        purpose: Purpose,
        variables: Arc<dyn VariableSource>,
    ) -> Result<Box<dyn Actor>> {
        Agent::actor(&self.0, place, purpose, variables)
    }
}

struct Falls(Box<dyn Learner>);

impl Learner for Falls {
    fn step_within(&mut self, _patience: Option<Duration>) -> Result<bool> {
        panic!("the first step of a test's learner")
    }

    fn steps(&self) -> u64 {
        self.0.steps()
    }

    fn variables(&self) -> &Variables {
        self.0.variables()
    }
}

impl Saveable for Falls {
    fn save(&mut self) -> Vec<u8> {
        self.0.save()
    }

    fn restore(&mut self, state: &[u8]) -> Result<()> {
        self.0.restore(state)
    }
}

fn clumsy() -> Clumsy {
    Clumsy(DqnConfig { batch_size: 16, min_replay_size: 50, ..DqnConfig::default() })
}

#[test]
fn a_learner_that_panics_ends_the_run() {
    let make = |seed| Ok(relive_env::make("catch/0", seed)?);
    let evaluation = Some(Evaluation { every: 1_000_000, episodes: 1 });
    let run = move || train(&clumsy(), &options(2, evaluation), &make, &mut |_| {});
    assert_eq!(panicked(in_time(run)), "the learner");
}

#[test]
fn a_remote_learner_that_panics_ends_but_not_the_run() {
    let engine = Engine::builder().table(TableConfig::new("scratch")).build().unwrap();
    let client = Client::in_process(engine).unwrap();
    let of_learner = client.clone();
    let outcome = in_time(move || {
        let (agent, stop, make) = (clumsy(), Stop::new(), |seed| Ok(relive_env::make("catch/0", seed)?));
        let (environment, env_steps) = ("catch/0", u64::MAX);
        let run = RemoteLearner {
            agent: &agent,
            client: &of_learner,
            environment,
            seed: 1,
            env_steps,
            stop: &stop,
        };
        learn(&run, &make, &mut |_| {})
    });
    assert_eq!(panicked(outcome), "the learner");
    assert!(!is_over(&client).unwrap(), "actors wait for the next learner");
}

#[test]
fn a_listener_that_panics_ends_the_run() {
    let make = |seed| Ok(relive_env::make("catch/0", seed)?);
    let run =
        move || train(&DqnConfig::default(), &options(2, None), &make, &mut |_| panic!("a test's listener"));
    let ended = in_time(move || catch_unwind(AssertUnwindSafe(run)).map(drop));
    let told = ended.unwrap_err();
    assert_eq!(told.downcast_ref(), Some(&"a test's listener"));
}
