//! What holds for every agent.

use std::sync::Arc;

use relive_agents::{A2cConfig, A3cConfig, ImpalaConfig, SacConfig};
use relive_env::{Action, ArraySpec, Buffer, EnvError, Environment, EnvironmentSpec, TimeStep, ViewMut};
use relive_flow::Flow;
use relive_rl::plan::{Crew, MakeEnvironment, Progress};
use relive_rl::run::{Checkpoints, Evaluation, Report, RunOptions};
use relive_rl::{Agent, Policy, Purpose, Result, RlError, SavedPolicy, Seat};
use relive_tensor::{DType, Nest};

use crate::common::{all, numbers, on_policy, options, run, run_in, small_sac};

/// Steps of a short run.
const STEPS: u64 = 400;

#[test]
fn as_many_workers_as_one_likes_give_the_same_numbers() {
    for (agent, environments) in on_policy() {
        for environment in environments {
            let of = |actors| {
                let options = RunOptions { actors, ..options(environment, STEPS, 3) };
                numbers(&run(&agent, &options).unwrap().0)
            };
            let alone = of(0);
            for actors in [1, 2, 3, 8] {
                assert!(of(actors) == alone, "{} in {environment} with {actors} actors", agent.name());
            }
        }
    }
}

#[test]
fn a3c_with_one_worker_is_a2c() {
    let (a2c, a3c): (Arc<dyn Agent>, Arc<dyn Agent>) =
        (Arc::new(A2cConfig::default()), Arc::new(A3cConfig::default()));
    let of = |agent, environment, actors| {
        numbers(&run(agent, &RunOptions { actors, ..options(environment, STEPS, 3) }).unwrap().0)
    };
    for environment in ["CartPole-v1", "Pendulum-v1"] {
        assert!(of(&a3c, environment, 0) == of(&a2c, environment, 0), "{environment}");
    }
    assert!(run(&a3c, &RunOptions { actors: 3, ..options("CartPole-v1", STEPS, 3) }).is_ok());
}

#[test]
fn one_thread_never_waits_for_itself() {
    let narrow = SacConfig { min_replay_size: 1, n_step: 40, samples_per_insert: 64.0, ..small_sac() };
    let wide = SacConfig { batch_size: 64, samples_per_insert: 0.5, ..narrow.clone() };
    for sac in [narrow, wide] {
        let (ratio, agent): (f64, Arc<dyn Agent>) = (sac.samples_per_insert, Arc::new(sac));
        let summary = run(&agent, &options("Pendulum-v1", 1_000, 1)).unwrap().0.summary;
        assert!((summary.samples_per_insert / ratio - 1.0).abs() < 0.2, "{summary:?}");
    }
}

#[test]
fn a_resumed_run_gives_the_same_numbers() {
    for (agent, environments) in all() {
        for environment in environments {
            let of = |folder: &std::path::Path, steps| {
                let checkpoints = Some(Checkpoints { folder: folder.to_owned(), every: 100 });
                let evaluation = Some(Evaluation { every: 150, episodes: 2 });
                let options = RunOptions { checkpoints, evaluation, ..options(environment, steps, 7) };
                let (trained, reports) = run(&agent, &options).unwrap();
                let mut shown = reports.iter().filter_map(|report| match report {
                    Report::Evaluator(episode) => Some(episode.episode_return.to_bits()),
                    _ => None,
                });
                (numbers(&trained), shown.next_back(), trained.summary.episodes)
            };
            let (whole, in_parts) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
            let expected = of(whole.path(), STEPS);
            of(in_parts.path(), 200);
            assert!(of(in_parts.path(), STEPS) == expected, "{} in {environment}", agent.name());
        }
    }
}

/// Ends every episode after five steps; its third observation, or its third reward, is what it is told to be.
pub(crate) struct Faulty {
    spec: EnvironmentSpec,
    length: u32,
    observation: f32,
    reward: f64,
    fails: bool,
    saves: bool,
}

impl Faulty {
    pub(crate) fn new(observation: f32, reward: f64, fails: bool) -> Faulty {
        let actions = ArraySpec::new("", DType::Float32, [1]).bounded(-1.0, 1.0);
        let spec = EnvironmentSpec::new(ArraySpec::new("", DType::Float32, [1]), actions);
        Faulty { spec, length: 0, observation, reward, fails, saves: true }
    }
}

impl Faulty {
    /// One that cannot tell its state.
    pub(crate) fn forgetful(self) -> Faulty {
        Faulty { saves: false, ..self }
    }

    /// With actions that the agent can take.
    pub(crate) fn for_agent(mut self, agent: &dyn Agent) -> Faulty {
        if agent.policy(&Seat::alone(&self.spec, Purpose::Training, &[])).is_err() {
            self.spec.actions = Nest::Leaf(ArraySpec::discrete("", 2));
        }
        self
    }
}

impl Environment for Faulty {
    fn spec(&self) -> &EnvironmentSpec {
        &self.spec
    }

    fn reset(&mut self, mut observation: ViewMut<'_>) -> Result<TimeStep, EnvError> {
        self.length = 0;
        observation.leaf_mut::<f32>(0)?.fill(0.0);
        Ok(TimeStep::restart())
    }

    fn step(&mut self, _: Action<'_>, mut observation: ViewMut<'_>) -> Result<TimeStep, EnvError> {
        if self.length == 5 {
            return self.reset(observation);
        }
        self.length += 1;
        let is_third = self.length == 3;
        if is_third && self.fails {
            return Err(EnvError::Failed("the motor has stopped".to_owned()));
        }
        observation.leaf_mut::<f32>(0)?.fill(if is_third { self.observation } else { 0.5 });
        let reward = if is_third { self.reward } else { 1.0 };
        Ok(if self.length == 5 { TimeStep::termination(reward) } else { TimeStep::transition(reward) })
    }

    fn save(&mut self) -> Option<Vec<u8>> {
        self.saves.then(|| self.length.to_le_bytes().to_vec())
    }

    fn restore(&mut self, state: &[u8]) -> Result<(), EnvError> {
        self.length = state.first().map_or(0, |length| (*length).into());
        Ok(())
    }
}

fn told(actors: usize, faulty: fn() -> Faulty) -> Vec<String> {
    let outcome = |agent: Arc<dyn Agent>| {
        let options = RunOptions { actors, ..options("faulty", STEPS, 1) };
        let taken = Arc::clone(&agent);
        let make = MakeEnvironment::new(move |_| Ok(Box::new(faulty().for_agent(taken.as_ref()))));
        run_in(&agent, &options, &make).unwrap_err().to_string()
    };
    all().into_iter().map(|(agent, _)| outcome(agent)).collect()
}

#[test]
fn faults_of_environments_are_told_with_their_place_and_nothing_hangs() {
    for actors in [0, 2] {
        for text in told(actors, || Faulty::new(f32::NAN, 1.0, false)) {
            assert!(text.contains("shard ") && text.contains("step 3 of episode 1"), "{text}");
            assert!(text.contains("observation at [0] is NaN"), "{text}");
        }
        for text in told(actors, || Faulty::new(0.0, f64::INFINITY, false)) {
            assert!(text.contains("the reward is inf"), "{text}");
        }
        for text in told(actors, || Faulty::new(0.0, 1.0, true)) {
            assert!(text.contains("shard ") && text.contains("the motor has stopped"), "{text}");
        }
    }
}

#[test]
fn environments_that_no_agent_can_act_in_are_refused() {
    let spec = || {
        let actions = Nest::dict([("a", ArraySpec::discrete("", 2)), ("b", ArraySpec::discrete("", 2))]);
        EnvironmentSpec::new(ArraySpec::new("", DType::Float32, [1]), actions)
    };
    for (agent, _) in all() {
        let make = MakeEnvironment::new(move |_| {
            Ok(Box::new(Faulty { spec: spec(), ..Faulty::new(0.0, 0.0, false) }))
        });
        let error = run_in(&agent, &options("odd", STEPS, 1), &make).unwrap_err();
        assert!(
            matches!(&error, RlError::Unsuited { got, .. } if got.contains("a number in 0..2")),
            "{error}"
        );
    }
}

#[test]
fn more_workers_than_environments_are_refused() {
    for (agent, environments) in on_policy() {
        let many = RunOptions { actors: 9, ..options(environments[0], STEPS, 1) };
        let error = run(&agent, &many).unwrap_err().to_string();
        assert_eq!(error, "actors is 9, but it must be at most the number of the agent's environments");
    }
}

/// An agent whose rollouts have no steps.
struct Still(Arc<dyn Agent>);

impl Agent for Still {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn settings(&self) -> Vec<(String, String)> {
        self.0.settings()
    }

    fn validate(&self) -> Result<()> {
        self.0.validate()
    }

    fn policy(&self, seat: &Seat<'_>) -> Result<Box<dyn Policy>> {
        self.0.policy(seat)
    }

    fn plan(&self, crew: &Crew) -> Result<Flow<Progress>> {
        crew.rollouts(0).and_then(|_| self.0.plan(crew))
    }
}

#[test]
fn rollouts_of_no_steps_are_refused() {
    let (agent, environments) = on_policy().remove(0);
    let still: Arc<dyn Agent> = Arc::new(Still(agent));
    let error = run(&still, &options(environments[0], STEPS, 1)).unwrap_err().to_string();
    assert_eq!(error, "the number of steps of a rollout is 0, but it must be at least 1");
}

#[test]
fn environments_that_cannot_be_saved_begin_anew_unless_they_are_looked_ahead_in() {
    for (agent, _) in all() {
        let folder = tempfile::tempdir().unwrap();
        let checkpoints = Some(Checkpoints { folder: folder.path().to_owned(), every: 10 });
        let saved = RunOptions { checkpoints, ..options("faulty", STEPS, 1) };
        let taken = Arc::clone(&agent);
        let make = MakeEnvironment::new(move |_| {
            Ok(Box::new(Faulty::new(0.0, 1.0, false).forgetful().for_agent(taken.as_ref())))
        });
        let outcome = run_in(&agent, &saved, &make);
        if agent.settings().contains(&("model".to_owned(), "\"simulator\"".to_owned())) {
            let error = outcome.unwrap_err().to_string();
            assert!(error.contains("an environment that can save its state"), "{error}");
        } else {
            let (first, _) = outcome.unwrap();
            let longer = RunOptions { env_steps: 2 * STEPS, ..saved };
            let (second, _) = run_in(&agent, &longer, &make).unwrap();
            assert!(second.summary.env_steps > first.summary.env_steps, "it went on from the checkpoint");
            assert!(second.summary.episodes >= first.summary.episodes, "{:?}", second.summary);
        }
    }
}

#[test]
fn a_run_of_other_settings_is_not_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let checkpoints = Some(Checkpoints { folder: folder.path().to_owned(), every: 100 });
    let agents = all();
    let (first, second) = (&agents[0].0, &agents[1].0);
    let of = |agent, seed| {
        run(agent, &RunOptions { checkpoints: checkpoints.clone(), ..options("CartPole-v1", 200, seed) })
    };
    of(first, 1).unwrap();
    let error = of(second, 1).unwrap_err().to_string();
    assert!(error.contains("agent is ppo there, a2c was asked for"), "{error}");
    let error = of(first, 2).unwrap_err().to_string();
    assert!(error.contains("seed is 1 there, 2 was asked for"), "{error}");
}

#[test]
fn a_saved_policy_acts_as_the_one_that_was_trained() {
    for (agent, environments) in all() {
        for name in environments {
            let (trained, _) = run(&agent, &options(name, STEPS, 1)).unwrap();
            let mut policy = SavedPolicy::of(agent.as_ref(), &trained).unwrap();
            let bytes = policy.to_bytes().unwrap();
            let mut loaded = SavedPolicy::from_bytes(&bytes, &relive_agents::from_json).unwrap();
            assert_eq!((loaded.agent(), loaded.to_bytes().unwrap() == bytes), (agent.name(), true));
            let mut environment = relive_env::make(name, 2).unwrap();
            let mut observation = Buffer::for_nest(&environment.spec().observations, 1).unwrap();
            let mut actions = Buffer::for_nest(&environment.spec().actions, 2).unwrap();
            environment.reset(observation.view_mut()).unwrap();
            for _ in 0..30 {
                policy.act(observation.view(), actions.row_mut(0)).unwrap();
                loaded.act(observation.view(), actions.row_mut(1)).unwrap();
                let action = actions.row(0);
                assert_eq!(action.leaf_bytes(0), actions.row(1).leaf_bytes(0));
                environment.step(Action::Nest(action), observation.view_mut()).unwrap();
            }
            for cut in [0, 8, bytes.len() / 2, bytes.len() - 1] {
                assert!(SavedPolicy::from_bytes(&bytes[..cut], &relive_agents::from_json).is_err());
            }
        }
    }
}

#[test]
fn a_run_that_is_too_short_for_a_batch_or_for_its_workers_is_refused() {
    let impala = |batch_size| -> Arc<dyn Agent> {
        let small =
            ImpalaConfig { sequence_length: 10, num_envs: 4, hidden: vec![8], ..ImpalaConfig::default() };
        Arc::new(ImpalaConfig { batch_size, ..small })
    };
    let steps = |batch_size, actors, env_steps| {
        let options = RunOptions { actors, ..options("catch/0", env_steps, 1) };
        run(&impala(batch_size), &options).map(|(trained, _)| trained.summary.env_steps)
    };
    assert!(steps(8, 0, 80).unwrap() < 2 * 80, "the batch that reaches the number");
    let error = steps(9, 0, 80).unwrap_err().to_string();
    let told = "the number of steps of a batch is 120, but it must be at most the steps of the run, 80: a batch has 12 fragments (batch_size 9)";
    assert!(error.starts_with(told), "{error}");
    assert!(steps(1, 8, 80).is_ok());
    let error = steps(1, 9, 80).unwrap_err().to_string();
    assert!(
        error.starts_with("actors is 9, but it must be fewer: a fragment of each is 90 steps"),
        "{error}"
    );
}
