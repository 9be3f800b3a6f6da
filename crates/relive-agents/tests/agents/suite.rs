//! The requirements for every agent: one call for each agent, with its particulars.

use std::path::Path;
use std::sync::Arc;

use relive_agents::Demonstrations;
use relive_client::blocking::Client;
use relive_env::{Action, Buffer, Environment, EnvironmentSpec, TimeStep};
use relive_rl::adders::{Adder, TransitionAdder};
use relive_rl::plan::MakeEnvironment;
use relive_rl::recorded::{self, RecordedEpisode};
use relive_rl::run::{Checkpoints, Evaluation, Report, RunOptions, Stop, Trained, Watch};
use relive_rl::{Agent, RlError, SavedPolicy};
use relive_tensor::Nest;

use crate::by_hand::{self, ByHand, MakeHand};
use crate::common::{numbers, options, run, run_in};
use crate::faulty::Faulty;

/// The number of steps of a short run.
const STEPS: u64 = 400;

/// The number of learner steps of a short run that does not act.
const LEARNER_STEPS: u64 = 80;

/// An agent in a small form, and the data that the suite needs.
pub(crate) struct Case {
    pub(crate) agent: Arc<dyn Agent>,
    /// The environments in which it acts, or in which episodes were recorded.
    pub(crate) environments: &'static [&'static str],
    /// Settings with independently computed learning, each with its environment.
    pub(crate) by_hand: Vec<(Arc<dyn Agent>, &'static str, MakeHand)>,
    /// Writes episodes to a folder, for an agent that does not act.
    pub(crate) recorded: Option<fn(&Path)>,
    /// The agent with recorded demonstrations, if it needs them in environments without a demonstrator.
    pub(crate) shown: Option<fn(Demonstrations) -> Arc<dyn Agent>>,
}

/// Runs all tests for an agent.
pub(crate) fn suite(case: Case) {
    let Case { agent, environments, by_hand, recorded, shown } = case;
    assert!(agent.validate().is_ok());
    assert!(!by_hand.is_empty(), "{} is learned by hand", agent.name());
    let data = recorded.map(|record| {
        let folder = tempfile::tempdir().unwrap();
        record(folder.path());
        folder
    });
    let data = data.as_ref().map(tempfile::TempDir::path);
    for (agent, environment, hand) in by_hand {
        let by_hand = ByHand { agent, environment, hand };
        match by_hand.agent.name() {
            "a3c" => by_hand::check_rollouts(&by_hand),
            _ => by_hand::check(&by_hand, data),
        }
    }
    for environment in environments {
        a_resumed_run_gives_the_same_numbers(&agent, environment, data);
        a_saved_policy_acts_as_the_one_that_was_trained(&agent, environment, data);
    }
    actions_that_it_cannot_take_are_refused(&agent, data.is_some());
    match data {
        Some(_) => {
            to_act_is_refused(&agent, environments[0]);
            nothing_is_learned_without_data(&agent, environments[0]);
            what_is_no_number_ends_the_run(&agent, environments[0]);
        }
        None => {
            let folder = tempfile::tempdir().unwrap();
            let demonstrated = shown.map(|shown| shown(demonstrations(folder.path())));
            let elsewhere = demonstrated.as_ref().unwrap_or(&agent);
            faults_are_told_with_their_place(elsewhere);
            environments_that_cannot_be_saved_begin_anew(elsewhere);
            if !agent.tables().unwrap().is_empty() {
                nothing_is_learned_without_data(&agent, environments[0]);
            }
        }
    }
}

/// Demonstrations recorded in the faulty environment while it has no faults.
fn demonstrations(folder: &Path) -> Demonstrations {
    let mut environment = Faulty::new(0.0, 1.0, false).with_choices();
    let spec = environment.spec().clone();
    let episode = RecordedEpisode::play(&mut environment, |_, _, _| Ok(())).unwrap();
    recorded::save(folder, &spec, &[episode]).unwrap();
    Demonstrations { ratio: 0.5, folder: Some(folder.to_owned()), episodes: 1 }
}

/// Returns the options for a run that takes 1/`share` of the steps, by acting or from data.
fn of_share(environment: &str, share: u64, data: Option<&Path>) -> RunOptions {
    match data {
        Some(folder) => RunOptions {
            learner_steps: Some(LEARNER_STEPS / share),
            data: Some(folder.to_owned()),
            ..options(environment, 0, 7)
        },
        None => options(environment, STEPS / share, 7),
    }
}

fn a_resumed_run_gives_the_same_numbers(agent: &Arc<dyn Agent>, environment: &str, data: Option<&Path>) {
    let of = |folder: &Path, share| {
        let every = if data.is_some() { LEARNER_STEPS / 4 } else { STEPS / 4 };
        let checkpoints = Some(Checkpoints { folder: folder.to_owned(), every });
        let evaluation = Some(Evaluation { every: every * 3 / 2, episodes: 2 });
        let options = RunOptions { checkpoints, evaluation, ..of_share(environment, share, data) };
        let (trained, reports) = run(agent, &options).unwrap();
        let mut shown = reports.iter().filter_map(|report| match report {
            Report::Evaluator(episode) => Some(episode.episode_return.to_bits()),
            _ => None,
        });
        (numbers(&trained), shown.next_back(), trained.summary.episodes)
    };
    let (whole, in_parts) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let expected = of(whole.path(), 1);
    assert!(expected.1.is_some(), "{} is shown in {environment}", agent.name());
    of(in_parts.path(), 2);
    assert!(of(in_parts.path(), 1) == expected, "{} in {environment}", agent.name());
}

fn a_saved_policy_acts_as_the_one_that_was_trained(
    agent: &Arc<dyn Agent>,
    environment: &str,
    data: Option<&Path>,
) {
    let (trained, _): (Trained, _) = run(agent, &of_share(environment, 1, data)).unwrap();
    let mut policy = SavedPolicy::of(agent.as_ref(), &trained).unwrap();
    let bytes = policy.to_bytes().unwrap();
    let mut loaded = SavedPolicy::from_bytes(&bytes, &relive_agents::from_json).unwrap();
    assert_eq!((loaded.agent(), loaded.to_bytes().unwrap() == bytes), (agent.name(), true));
    let mut environment = relive_env::make(environment, 2).unwrap();
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

fn actions_that_it_cannot_take_are_refused(agent: &Arc<dyn Agent>, is_recorded: bool) {
    let two = || {
        let number = || relive_env::ArraySpec::discrete("", 2);
        let actions = Nest::dict([("a", number()), ("b", number())]);
        let observations = relive_env::ArraySpec::new("", relive_tensor::DType::Float32, [1]);
        EnvironmentSpec::new(observations, actions)
    };
    let make = MakeEnvironment::new(move |_| Ok(Box::new(Faulty::new(0.0, 0.0, false).with_spec(two()))));
    let asked = match is_recorded {
        true => RunOptions { learner_steps: Some(10), ..options("odd", 0, 1) },
        false => options("odd", STEPS, 1),
    };
    let error = run_in(agent, &asked, &make).map(drop).unwrap_err();
    let RlError::Unsuited { expected, got } = &error else { panic!("{}: {error}", agent.name()) };
    assert!(got.contains("a number from 0 to 1") && !expected.is_empty(), "{error}");
}

fn faults_are_told_with_their_place(agent: &Arc<dyn Agent>) {
    let describe = |actors, faulty: fn() -> Faulty| {
        let (options, taken) = (RunOptions { actors, ..options("faulty", STEPS, 1) }, Arc::clone(agent));
        let make = MakeEnvironment::new(move |_| Ok(Box::new(faulty().for_agent(taken.as_ref()))));
        run_in(agent, &options, &make).map(drop).unwrap_err().to_string()
    };
    for actors in [0, 2] {
        let text = describe(actors, || Faulty::new(f32::NAN, 1.0, false));
        assert!(text.contains("shard ") && text.contains("step 3 of episode 1"), "{text}");
        assert!(text.contains("observation at [0] is NaN"), "{text}");
        let text = describe(actors, || Faulty::new(0.0, f64::INFINITY, false));
        assert!(text.contains("the reward is inf"), "{text}");
        let text = describe(actors, || Faulty::new(0.0, 1.0, true));
        assert!(text.contains("shard ") && text.contains("the motor has stopped"), "{text}");
    }
}

/// Agents that look ahead in their environments reject such environments.
fn environments_that_cannot_be_saved_begin_anew(agent: &Arc<dyn Agent>) {
    let folder = tempfile::tempdir().unwrap();
    let checkpoints = Some(Checkpoints { folder: folder.path().to_owned(), every: 10 });
    let saved = RunOptions { checkpoints, ..options("faulty", STEPS, 1) };
    let taken = Arc::clone(agent);
    let make = MakeEnvironment::new(move |_| {
        Ok(Box::new(Faulty::new(0.0, 1.0, false).forgetful().for_agent(taken.as_ref())))
    });
    let outcome = run_in(agent, &saved, &make);
    if agent.settings().contains(&("model".to_owned(), "\"simulator\"".to_owned())) {
        let error = outcome.map(drop).unwrap_err().to_string();
        assert!(error.contains("an environment that can save its state"), "{error}");
        return;
    }
    let (first, _) = outcome.unwrap();
    let longer = RunOptions { env_steps: 2 * STEPS, ..saved };
    let (second, _) = run_in(agent, &longer, &make).unwrap();
    assert!(second.summary.env_steps > first.summary.env_steps, "it went on from the checkpoint");
    assert!(second.summary.episodes >= first.summary.episodes, "{:?}", second.summary);
}

/// Tests that, without actors and with an empty table, the run waits, and that a stop ends the wait.
fn nothing_is_learned_without_data(agent: &Arc<dyn Agent>, environment: &str) {
    let stop = Stop::default();
    let stopping = stop.clone();
    let watch = Some(Watch::new(move |_| stopping.stop()));
    let options = RunOptions { learner_steps: Some(10), stop, watch, ..options(environment, 0, 3) };
    let summary = run(agent, &options).unwrap().0.summary;
    assert_eq!((summary.env_steps, summary.learner_steps), (0, 0), "{}", agent.name());
}

fn to_act_is_refused(agent: &Arc<dyn Agent>, environment: &str) {
    let error = run(agent, &options(environment, 100, 1)).map(drop).unwrap_err().to_string();
    assert!(error.contains("env_steps is 100") && error.contains("does not act"), "{error}");
}

fn what_is_no_number_ends_the_run(agent: &Arc<dyn Agent>, environment: &str) {
    let name = environment.to_owned();
    let broken = Watch::new(move |engine| {
        let client = Client::in_process(engine.clone()).unwrap();
        let spec = relive_env::make(&name, 1).unwrap().spec().clone();
        let mut observation = Buffer::for_nest(&spec.observations, 1).unwrap();
        let action = Buffer::for_nest(&spec.actions, 1).unwrap();
        let mut adder = TransitionAdder::new(&client, "replay", &spec, 1, 0.99).unwrap();
        adder.add_first(observation.view()).unwrap();
        observation.leaf_mut::<f32>(0).unwrap().fill(f32::NAN);
        for _ in 0..20 {
            adder.add(action.view(), TimeStep::transition(1.0), observation.view()).unwrap();
        }
    });
    let options = RunOptions { learner_steps: Some(100), watch: Some(broken), ..options(environment, 0, 3) };
    let error = run(agent, &options).map(drop).unwrap_err();
    assert!(matches!(error.cause(), RlError::Diverged { .. }), "{}: {error}", agent.name());
}
