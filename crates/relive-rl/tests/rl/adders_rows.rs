//! Sequences, episodes and patterns of rows, read back from the table and compared with a naive implementation of the
//! rules.

use proptest::prelude::*;
use relive_client::blocking::Client;
use relive_client::{Nest, Sample};
use relive_engine::Engine;
use relive_env::{ArraySpec, Buffer, EnvironmentSpec, TimeStep, View};
use relive_rl::adders::{
    Adder, EndOfEpisode, EpisodeAdder, NStepReturn, Priority, SequenceAdder, StructuredAdder,
    TransitionAdder, n_step_configs, sequence_configs, step_spec,
};
use relive_rl::{RlError, Saveable};
use relive_table::{SelectorKind, TableConfig};
use relive_tensor::DType;

/// Observation, action, reward, discount, whether an episode begins.
type Row = (f32, i32, f32, f32, bool);

const PADDING: Row = (0.0, 0, 0.0, 0.0, false);

/// Returns the rows of an episode of `steps` steps, all with different numbers.
fn rows(episode: usize, steps: usize) -> Vec<Row> {
    let number = |t: usize| f32::from(u16::try_from(100 * (episode + 1) + t).unwrap());
    let row = |t: usize| match t < steps {
        true => (number(t), action(t), number(t) + 0.5, discount(t, steps), t == 0),
        false => (number(t), 0, 0.0, 0.0, t == 0),
    };
    (0..=steps).map(row).collect()
}

fn action(t: usize) -> i32 {
    i32::try_from(t).unwrap() + 1
}

/// The last step of an episode has discount 0.
fn discount(t: usize, steps: usize) -> f32 {
    if t + 1 == steps { 0.0 } else { 0.75 }
}

struct Place {
    engine: Engine,
    client: Client,
    spec: EnvironmentSpec,
}

impl Place {
    fn new() -> Place {
        let table = |name| TableConfig::new(name).sampler(SelectorKind::Fifo).max_times_sampled(1);
        let engine = Engine::builder().table(table("replay")).table(table("other")).build().unwrap();
        let spec =
            EnvironmentSpec::new(ArraySpec::new("", DType::Float32, [1]), ArraySpec::discrete("", 100));
        Place { client: Client::in_process(engine.clone()).unwrap(), engine, spec }
    }

    /// Plays an episode, or its first `until` steps.
    fn play(&self, adder: &mut dyn Adder, episode: usize, steps: usize, until: usize) -> Result<(), RlError> {
        let mut observation = Buffer::for_nest(&self.spec.observations, 1).unwrap();
        let mut taken = Buffer::for_nest(&self.spec.actions, 1).unwrap();
        let rows = rows(episode, steps);
        observation.leaf_mut::<f32>(0).unwrap()[0] = rows[0].0;
        adder.add_first(observation.view())?;
        for t in 0..until {
            let (_, action, reward, discount, _) = rows[t];
            observation.leaf_mut::<f32>(0).unwrap()[0] = rows[t + 1].0;
            taken.leaf_mut::<i32>(0).unwrap()[0] = action;
            let (reward, discount) = (f64::from(reward), f64::from(discount));
            let step = if t + 1 == steps {
                TimeStep::truncation(reward, discount)
            } else {
                TimeStep { discount, ..TimeStep::transition(reward) }
            };
            adder.add(taken.view(), step, observation.view())?;
        }
        Ok(())
    }

    fn samples(&self, table: &str) -> Vec<Sample> {
        let items = usize::try_from(self.engine.table(table).unwrap().info().current_size).unwrap();
        if items == 0 { Vec::new() } else { self.client.sample(table, items).unwrap() }
    }

    fn sequences(&self) -> Vec<Vec<Row>> {
        self.samples("replay").iter().map(sequence).collect()
    }
}

#[test]
fn adders_can_be_printed() {
    let Place { client, spec, .. } = Place::new();
    let tables = [("other".to_owned(), Priority::Of(Box::new(|_| Ok(1.0))))];
    let sequences = SequenceAdder::new(&client, "replay", &spec, None, 4, 2).unwrap().tables(tables);
    let episodes = EpisodeAdder::new(&client, "replay", &spec, None, 9).unwrap();
    let transitions = TransitionAdder::new(&client, "replay", &spec, 3, 0.9).unwrap();
    let configs = n_step_configs("replay", &step_spec(&spec, None), 2).unwrap();
    let structured = StructuredAdder::new(&client, configs, &spec, None).unwrap();
    for (printed, expected) in [
        (format!("{sequences:?}"), "SequenceAdder { tables: [(\"other\", Of(..))], length: 4, period: 2"),
        (format!("{episodes:?}"), "EpisodeAdder { tables: [(\"replay\", Constant(1.0))], max_length: 9"),
        (format!("{transitions:?}"), "TransitionAdder { tables: [\"replay\"], window: NStepWindow { n: 3"),
        (format!("{structured:?}"), "StructuredAdder { configs: [StructuredConfig { table: \"replay\""),
    ] {
        assert!(printed.starts_with(expected), "{printed}");
    }
}

fn sequence(sample: &Sample) -> Vec<Row> {
    let columns = sample.columns().unwrap();
    let floats = |index: usize| columns[index].to_vec::<f32>().unwrap();
    let (actions, begins) = (columns[0].to_vec::<i32>().unwrap(), columns[4].bytes().unwrap());
    let (discounts, observations, rewards) = (floats(1), floats(2), floats(3));
    (0..actions.len())
        .map(|t| (observations[t], actions[t], rewards[t], discounts[t], begins[t] == 1))
        .collect()
}

/// Returns the sequences according to the rules: they end at rows number `length`, `length + period`, …; `end`
/// determines the treatment of the remaining rows.
fn expected(episodes: &[usize], length: usize, period: usize, end: EndOfEpisode) -> Vec<Vec<Row>> {
    let all: Vec<Vec<Row>> = episodes.iter().enumerate().map(|(e, steps)| rows(e, *steps)).collect();
    let ends = || (length..).step_by(period);
    if end == EndOfEpisode::Continue {
        let rows = all.concat();
        return ends().take_while(|n| *n <= rows.len()).map(|n| rows[n - length..n].to_vec()).collect();
    }
    let of_episode = |rows: &Vec<Row>| {
        let count = rows.len();
        let mut items: Vec<_> =
            ends().take_while(|n| *n < count).map(|n| rows[n - length..n].to_vec()).collect();
        let next = ends().find(|n| *n >= count).unwrap();
        let padded = [rows.clone(), vec![PADDING; next - count]].concat();
        match end {
            EndOfEpisode::Write if count >= length => items.push(rows[count - length..].to_vec()),
            EndOfEpisode::Truncate if next - length < count => items.push(rows[next - length..].to_vec()),
            EndOfEpisode::ZeroPad if next - length < count => items.push(padded[next - length..].to_vec()),
            _ => {}
        }
        items
    };
    all.iter().flat_map(of_episode).collect()
}

fn by_sequence_adder(episodes: &[usize], length: usize, period: usize, end: EndOfEpisode) -> Vec<Vec<Row>> {
    let place = Place::new();
    let adder = SequenceAdder::new(&place.client, "replay", &place.spec, None, length, period).unwrap();
    let mut adder = adder.end_of_episode(end);
    for (episode, steps) in episodes.iter().enumerate() {
        place.play(&mut adder, episode, *steps, *steps).unwrap();
    }
    adder.flush().unwrap();
    place.sequences()
}

/// An adder that is replaced after each step by a new one, restored from its saved state.
struct Replaced<'a>(&'a (dyn Fn() -> SequenceAdder + Sync), SequenceAdder);

impl Adder for Replaced<'_> {
    fn add_first(&mut self, observation: View<'_>) -> Result<(), RlError> {
        self.1.add_first(observation)?;
        self.replace()
    }

    fn add_with_extras(
        &mut self,
        action: View<'_>,
        step: TimeStep,
        observation: View<'_>,
        extras: View<'_>,
    ) -> Result<(), RlError> {
        self.1.add_with_extras(action, step, observation, extras)?;
        self.replace()
    }
}

impl Replaced<'_> {
    fn replace(&mut self) -> Result<(), RlError> {
        self.1.flush()?;
        let saved = self.1.save();
        self.1 = self.0();
        self.1.restore(&saved)
    }
}

fn by_adders_that_go_on(
    episodes: &[usize],
    length: usize,
    period: usize,
    end: EndOfEpisode,
) -> Vec<Vec<Row>> {
    let place = Place::new();
    let make = || {
        let adder = SequenceAdder::new(&place.client, "replay", &place.spec, None, length, period);
        adder.unwrap().end_of_episode(end)
    };
    let mut adder = Replaced(&make, make());
    for (episode, steps) in episodes.iter().enumerate() {
        place.play(&mut adder, episode, *steps, *steps).unwrap();
    }
    adder.1.flush().unwrap();
    place.sequences()
}

fn by_patterns(episodes: &[usize], length: usize, period: usize, end: EndOfEpisode) -> Vec<Vec<Row>> {
    let place = Place::new();
    let step = step_spec(&place.spec, None);
    let configs = sequence_configs("replay", &step, length, period, end).unwrap();
    let mut adder = StructuredAdder::new(&place.client, configs, &place.spec, None).unwrap();
    for (episode, steps) in episodes.iter().enumerate() {
        place.play(&mut adder, episode, *steps, *steps).unwrap();
    }
    place.sequences()
}

#[test]
fn sequences_end_as_configured() {
    use EndOfEpisode as End;
    let episode = rows(0, 4);
    let written = |end| by_sequence_adder(&[4], 3, 2, end);
    let first = episode[..3].to_vec();
    assert_eq!(written(End::ZeroPad), [first.clone(), episode[2..].to_vec()], "five rows fill two periods");
    let five = rows(0, 5);
    let written = |end| by_sequence_adder(&[5], 3, 2, end);
    let (first, second) = (five[..3].to_vec(), five[2..5].to_vec());
    assert_eq!(written(End::ZeroPad), [first.clone(), second.clone(), vec![five[4], five[5], PADDING]]);
    assert_eq!(written(End::Truncate), [first.clone(), second.clone(), five[4..].to_vec()]);
    assert_eq!(written(End::Write), [first.clone(), second.clone(), five[3..].to_vec()]);
    assert_eq!(written(End::Continue), [first, second]);
}

#[test]
fn short_episodes_are_padded_cut_or_dropped() {
    use EndOfEpisode as End;
    let (one, padding) = (rows(0, 1), vec![PADDING; 2]);
    assert_eq!(by_sequence_adder(&[1], 4, 4, End::ZeroPad), [[one.clone(), padding].concat()]);
    assert_eq!(by_sequence_adder(&[1], 4, 4, End::Truncate), [one]);
    assert_eq!(by_sequence_adder(&[1], 4, 4, End::Write), Vec::<Vec<Row>>::new());
    let across = by_sequence_adder(&[1, 2], 4, 4, End::Continue);
    assert_eq!(across, [[rows(0, 1), rows(1, 2)[..2].to_vec()].concat()]);
    assert!(across[0][2].4, "the row tells that an episode begins");
}

fn ends() -> impl Strategy<Value = EndOfEpisode> {
    use EndOfEpisode as End;
    prop::sample::select(vec![End::ZeroPad, End::Truncate, End::Write, End::Continue])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn sequences_match_the_adder_rules(
        length in 1_usize..6,
        period in 1_usize..8,
        end in ends(),
        episodes in prop::collection::vec(1_usize..14, 1..4),
    ) {
        let expected = expected(&episodes, length, period, end);
        prop_assert_eq!(&by_sequence_adder(&episodes, length, period, end), &expected);
        prop_assert_eq!(&by_adders_that_go_on(&episodes, length, period, end), &expected);
        if matches!(end, EndOfEpisode::Write | EndOfEpisode::Truncate) {
            prop_assert_eq!(&by_patterns(&episodes, length, period, end), &expected);
        }
    }

    #[test]
    fn transition_patterns_match_the_transition_adder(
        n in 1_usize..5,
        episodes in prop::collection::vec(1_usize..8, 1..4),
    ) {
        const DISCOUNT: f32 = 0.5;
        let place = Place::new();
        let configs = n_step_configs("replay", &step_spec(&place.spec, None), n).unwrap();
        let mut patterns = StructuredAdder::new(&place.client, configs, &place.spec, None).unwrap();
        let mut plain = TransitionAdder::new(&place.client, "other", &place.spec, n, DISCOUNT).unwrap();
        for (episode, steps) in episodes.iter().enumerate() {
            place.play(&mut patterns, episode, *steps, *steps).unwrap();
            place.play(&mut plain, episode, *steps, *steps).unwrap();
        }
        plain.add_first(Buffer::for_nest(&place.spec.observations, 1).unwrap().view()).unwrap();
        let numbers = |sample: &Sample, column: usize| sample.columns().unwrap()[column].to_vec::<f32>().unwrap();
        let action = |sample: &Sample| sample.columns().unwrap()[0].to_vec::<i32>().unwrap()[0];
        let by_patterns: Vec<_> = place.samples("replay").iter().map(|sample| {
            let made = NStepReturn::of(&numbers(sample, 3), &numbers(sample, 1), DISCOUNT);
            let observations = numbers(sample, 2);
            (observations[0], action(sample), made.reward, made.discount, observations[1])
        }).collect();
        let by_adder: Vec<_> = place.samples("other").iter().map(|sample| {
            let one = |column| numbers(sample, column)[0];
            (one(3), action(sample), one(4), one(1), one(2))
        }).collect();
        prop_assert_eq!(by_patterns, by_adder);
    }
}

#[test]
fn an_episode_is_an_item() {
    let place = Place::new();
    let mut adder = EpisodeAdder::new(&place.client, "replay", &place.spec, None, 4).unwrap();
    place.play(&mut adder, 0, 3, 3).unwrap();
    place.play(&mut adder, 1, 3, 2).unwrap();
    place.play(&mut adder, 2, 1, 1).unwrap();
    assert_eq!(place.sequences(), [rows(0, 3), rows(2, 1)], "what is abandoned leaves nothing");
    let error = place.play(&mut adder, 3, 4, 4).unwrap_err().to_string();
    assert_eq!(
        error,
        "the length of an episode is 5 rows or more, but it must be at most max_sequence_length rows"
    );
}

#[test]
fn episodes_are_padded_on_request() {
    let place = Place::new();
    let adder = EpisodeAdder::new(&place.client, "replay", &place.spec, None, 4).unwrap();
    let mut adder = adder.padded(Clone::clone);
    place.play(&mut adder, 0, 1, 1).unwrap();
    assert_eq!(place.sequences(), [[rows(0, 1), vec![PADDING; 2]].concat()]);
}

#[test]
fn an_abandoned_episode_ends_no_sequence() {
    for patterns in [false, true] {
        let place = Place::new();
        let (client, spec, end) = (&place.client, &place.spec, EndOfEpisode::Truncate);
        let mut adder: Box<dyn Adder> = if patterns {
            let configs = sequence_configs("replay", &step_spec(spec, None), 2, 2, end).unwrap();
            Box::new(StructuredAdder::new(client, configs, spec, None).unwrap())
        } else {
            Box::new(SequenceAdder::new(client, "replay", spec, None, 2, 2).unwrap().end_of_episode(end))
        };
        place.play(adder.as_mut(), 0, 9, 3).unwrap();
        place.play(adder.as_mut(), 1, 2, 2).unwrap();
        let expected = [rows(0, 9)[..2].to_vec(), rows(1, 2)[..2].to_vec(), rows(1, 2)[2..].to_vec()];
        assert_eq!(place.sequences(), expected, "patterns: {patterns}");
    }
}

#[test]
fn priorities_are_computed_for_each_table() {
    let place = Place::new();
    let mean_reward = |trajectory: &Nest<relive_client::Column>| {
        let Nest::Dict(fields) = trajectory else { return Ok(0.0) };
        let Some(Nest::Leaf(rewards)) = fields.get("reward") else { return Ok(0.0) };
        let rewards = rewards.to_tensor()?.to_vec::<f32>().unwrap_or_default();
        Ok(f64::from(rewards.iter().sum::<f32>()))
    };
    let adder = SequenceAdder::new(&place.client, "replay", &place.spec, None, 2, 2).unwrap();
    let tables = [
        ("replay".to_owned(), Priority::Of(Box::new(mean_reward))),
        ("other".to_owned(), Priority::Constant(3.0)),
    ];
    let mut adder = adder.tables(tables);
    place.play(&mut adder, 0, 3, 3).unwrap();
    let priorities =
        |table| place.samples(table).iter().map(|sample| sample.info().priority).collect::<Vec<_>>();
    let rewards: Vec<f64> = rows(0, 3).iter().map(|row| f64::from(row.2)).collect();
    assert_eq!(priorities("replay"), [rewards[0] + rewards[1], rewards[2] + rewards[3]]);
    assert_eq!(priorities("other"), [3.0, 3.0]);
}

#[test]
fn extras_are_stored_with_each_step() {
    let place = Place::new();
    let extras = Nest::dict([("state", Nest::Leaf(ArraySpec::new("", DType::Float32, [2])))]);
    let mut adder = SequenceAdder::new(&place.client, "replay", &place.spec, Some(&extras), 2, 2).unwrap();
    let mut state = Buffer::for_nest(&extras, 1).unwrap();
    let (observation, action) = (
        Buffer::for_nest(&place.spec.observations, 1).unwrap(),
        Buffer::for_nest(&place.spec.actions, 1).unwrap(),
    );
    adder.add_first(observation.view()).unwrap();
    state.leaf_mut::<f32>(0).unwrap().copy_from_slice(&[1.0, 2.0]);
    let step = TimeStep::termination(1.0);
    adder.add_with_extras(action.view(), step, observation.view(), state.view()).unwrap();
    let samples = place.samples("replay");
    assert_eq!(samples[0].columns().unwrap()[2].to_vec::<f32>().unwrap(), [1.0, 2.0, 0.0, 0.0]);
    adder.add_first(observation.view()).unwrap();
    let error = adder.add(action.view(), step, observation.view()).unwrap_err().to_string();
    assert_eq!(error, "extras is 0 leaves, but it must be the number in the adder's spec");
    let mut plain = TransitionAdder::new(&place.client, "other", &place.spec, 1, 0.9).unwrap();
    plain.add_first(observation.view()).unwrap();
    let error = plain.add_with_extras(action.view(), step, observation.view(), state.view()).unwrap_err();
    assert!(error.to_string().contains("extras is 1 leaves"), "{error}");
}

#[test]
fn unsupported_adder_arguments_are_reported() {
    let place = Place::new();
    let (client, spec) = (&place.client, &place.spec);
    let sequence = |length, period| SequenceAdder::new(client, "replay", spec, None, length, period);
    assert!(sequence(0, 1).is_err_and(|error| error.to_string().starts_with("sequence_length is 0")));
    assert!(sequence(1, 0).is_err_and(|error| error.to_string().starts_with("period is 0")));
    let episode = EpisodeAdder::new(client, "replay", spec, None, 1);
    assert!(episode.is_err_and(|error| error.to_string().starts_with("max_sequence_length is 1")));
    let step = step_spec(spec, None);
    let refused = sequence_configs("replay", &step, 2, 1, EndOfEpisode::ZeroPad).unwrap_err();
    assert!(refused.to_string().contains("must be Write or Truncate"), "{refused}");
    assert!(n_step_configs("replay", &step, 0).is_err());
    let (observation, action) =
        (Buffer::for_nest(&spec.observations, 1).unwrap(), Buffer::for_nest(&spec.actions, 1).unwrap());
    let add = |adder: &mut dyn Adder| {
        let step = TimeStep::transition(0.0);
        adder.add_with_extras(action.view(), step, observation.view(), View::empty()).unwrap_err()
    };
    let configs = n_step_configs("replay", &step, 2).unwrap();
    let errors = [
        add(&mut sequence(2, 1).unwrap()),
        add(&mut EpisodeAdder::new(client, "replay", spec, None, 5).unwrap()),
        add(&mut StructuredAdder::new(client, configs, spec, None).unwrap()),
    ];
    for error in errors {
        assert!(matches!(error, RlError::Order { call: "add", .. }), "{error}");
    }
}
