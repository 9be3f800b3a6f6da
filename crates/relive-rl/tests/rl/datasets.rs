//! Data sets in D4RL's layout.

use std::path::{Path, PathBuf};

use flate2::Crc;
use relive_env::{ArraySpec, Buffer, EnvironmentSpec, StepType, TimeStep};
use relive_rl::RlError;
use relive_rl::recorded::{self, RecordedEpisode};
use relive_tensor::{DType, Nest};

fn spec(environment: &str) -> EnvironmentSpec {
    relive_env::make(environment, 1).unwrap().spec().clone()
}

/// Returns a file that numpy has written.
fn written(name: &str) -> Vec<RecordedEpisode> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    recorded::load(&path, &spec("CartPole-v1")).unwrap()
}

/// Actions, the first number of each observation, and the resulting time steps.
type EpisodeContents = (Vec<i32>, Vec<f32>, Vec<(StepType, f64, f64)>);

fn contents(episode: &RecordedEpisode) -> EpisodeContents {
    let first = |row: usize| episode.observations.row(row).leaf::<f32>(0).unwrap()[0];
    let answers = episode.answers.iter().map(|answer| (answer.step_type, answer.reward, answer.discount));
    let seen = (0..=episode.answers.len()).map(first).collect();
    (episode.actions.leaf::<i32>(0).unwrap().to_vec(), seen, answers.collect())
}

#[test]
fn episodes_end_with_terminals_and_timeouts() {
    use StepType::{Last, Mid};
    let episodes: Vec<_> = written("cartpole.npz").iter().map(contents).collect();
    let first =
        (vec![0, 1, 1], vec![0.0, 0.5, 1.0, 1.0], vec![(Mid, 1.0, 1.0), (Mid, 2.0, 1.0), (Last, 3.0, 0.0)]);
    // The outcome of its last row is unknown, and so is the outcome of the next row.
    let second = (vec![0], vec![1.5, 2.0], vec![(Last, 4.0, 1.0)]);
    assert_eq!(episodes, [first, second]);
}

#[test]
fn given_next_observations_are_used() {
    // No row leads to the next one, so each row is an episode.
    let episodes: Vec<_> = written("cartpole_next.npz").iter().map(contents).collect();
    let expected = [(0, 0.0, 1.0), (1, 0.5, 1.0), (1, 1.0, 0.0), (0, 1.5, 1.0), (1, 2.0, 1.0), (0, 2.5, 1.0)];
    let alone = (1..).zip(expected).map(|(reward, (action, seen, discount))| {
        (vec![action], vec![seen, seen + 100.0], vec![(StepType::Last, f64::from(reward), discount)])
    });
    assert_eq!(episodes, alone.collect::<Vec<_>>());
}

#[test]
fn an_episode_ends_where_the_next_row_is_another_observation() {
    use StepType::{Last, Mid};
    // The third row follows the second one, as the second one follows the first; the fourth does not follow the third.
    let seen = [0.0, 0.1, 0.2, 0.7, 0.8];
    let next = [0.1, 0.2, 0.3, 0.8, 0.9];
    let rows = |values: &[f32]| values.iter().flat_map(|value| [*value; 4]).collect::<Vec<_>>();
    let doubles_of = |values: &[f32]| rows(values).into_iter().map(f64::from).collect::<Vec<_>>();
    let path = file(
        "jumps",
        &archive(&[
            ("observations", array("(5, 4)", &rows(&seen))),
            // Of another type than the observations.
            ("next_observations", doubles("(5, 4)", &doubles_of(&next))),
            ("actions", array("(5,)", &[0.0; 5])),
            ("rewards", array("(5,)", &[1.0; 5])),
            ("terminals", array("(5,)", &[0.0, 0.0, 0.0, 0.0, 1.0])),
        ]),
    );
    let episodes: Vec<_> =
        recorded::load(&path, &spec("CartPole-v1")).unwrap().iter().map(contents).collect();
    let first =
        (vec![0; 3], vec![0.0, 0.1, 0.2, 0.3], vec![(Mid, 1.0, 1.0), (Mid, 1.0, 1.0), (Last, 1.0, 1.0)]);
    let second = (vec![0; 2], vec![0.7, 0.8, 0.9], vec![(Mid, 1.0, 1.0), (Last, 1.0, 0.0)]);
    assert_eq!(episodes, [first, second]);
}

/// Returns an array of float32 in numpy's format.
fn array(shape: &str, values: &[f32]) -> Vec<u8> {
    typed("<f4", shape, &values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>())
}

/// Returns an array of float64.
fn doubles(shape: &str, values: &[f64]) -> Vec<u8> {
    typed("<f8", shape, &values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>())
}

fn typed(code: &str, shape: &str, bytes: &[u8]) -> Vec<u8> {
    let head = format!("{{'descr': '{code}', 'fortran_order': False, 'shape': {shape}, }}\n");
    let length = u16::try_from(head.len()).unwrap().to_le_bytes();
    [b"\x93NUMPY\x01\x00", &length[..], head.as_bytes(), bytes].concat()
}

fn small(value: usize) -> [u8; 4] {
    u32::try_from(value).unwrap().to_le_bytes()
}

/// Returns a zip archive of stored files.
fn archive(files: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let (mut bytes, mut directory) = (Vec::new(), Vec::new());
    for (name, file) in files {
        let name = format!("{name}.npy");
        let mut crc = Crc::new();
        crc.update(file);
        let common = [
            &[0; 8][..],
            &crc.sum().to_le_bytes(),
            &small(file.len()),
            &small(file.len()),
            &small(name.len()),
        ]
        .concat();
        directory.extend([&b"PK\x01\x02\x14\x00\x14\x00"[..], &common[..6]].concat());
        directory.extend([&common[6..], &[0; 10][..], &small(bytes.len()), name.as_bytes()].concat());
        bytes.extend([&b"PK\x03\x04\x14\x00"[..], &common, name.as_bytes(), file].concat());
    }
    let count = u16::try_from(files.len()).unwrap().to_le_bytes();
    let end =
        [&b"PK\x05\x06\0\0\0\0"[..], &count, &count, &small(directory.len()), &small(bytes.len()), &[0; 2]];
    [bytes, directory, end.concat()].concat()
}

/// Returns a file with transitions of a pendulum, with one array replaced or omitted.
fn pendulum(other: &str, with: Option<Vec<u8>>) -> Vec<u8> {
    let all = [
        ("observations", array("(2, 3)", &[0.5; 6])),
        ("actions", array("(2, 1)", &[1.0, -2.0])),
        ("rewards", array("(2,)", &[0.0, -1.0])),
        ("terminals", array("(2,)", &[0.0, 1.0])),
    ];
    let kept = all.into_iter().filter(|(name, _)| *name != other);
    archive(&kept.chain(with.map(|array| (other, array))).collect::<Vec<_>>())
}

fn file(name: &str, bytes: &[u8]) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{name}.npz", std::process::id()));
    std::fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn unusable_data_is_reported_with_file_and_array() {
    let nan = array("(2,)", &[0.0, f32::NAN]);
    let cases = [
        ("none", None, None),
        (
            "terminals",
            None,
            Some("array `terminals`: it is missing; the file has observations, actions, rewards"),
        ),
        ("rewards", Some(array("(3,)", &[0.0; 3])), Some("it has 2 rows, but `rewards` has 3")),
        ("rewards", Some(nan), Some("array `rewards`: row 1 has NaN")),
        (
            "observations",
            Some(array("(2, 4)", &[0.5; 8])),
            Some("array `observations`: its shape is [2, 4], but the environment has float32 (3,)"),
        ),
        (
            "actions",
            Some(array("(2, 1)", &[1.0, 5.0])),
            Some("array `actions`: row 1 has 5, but the environment has float32 (1,) in -2..=2"),
        ),
        ("actions", Some(array("(2, 1)", &[1.0, 2.01])), None),
        (
            "timeouts",
            Some(array("(1,)", &[1.0])),
            Some("array `timeouts`: it has 1 rows, but `rewards` has 2"),
        ),
        (
            "terminals",
            Some(array("(2,)", &[0.0, 0.5])),
            Some("array `terminals`: row 1 has 0.5, but it must be 1 (the episode ends there) or 0"),
        ),
        ("timeouts", Some(array("(2,)", &[2.0, 0.0])), Some("array `timeouts`: row 0 has 2, but")),
        (
            "observations",
            Some(doubles("(2, 3)", &[0.5, 0.5, 0.5, 0.5, 1e300, 0.5])),
            Some("array `observations`: row 1 has 1e300; agents learn only from finite float32 numbers"),
        ),
        ("rewards", Some(doubles("(2,)", &[-1e39, 0.0])), Some("array `rewards`: row 0 has -1e39;")),
        (
            "truncations",
            Some(array("(2,)", &[1.0, 0.0])),
            Some("array `truncations`: it must be called `timeouts`; rename it"),
        ),
        ("rewards", Some(b"numbers".to_vec()), Some("array `rewards`: it is not a numpy array")),
    ];
    for (number, (name, with, expected)) in cases.into_iter().enumerate() {
        let path = file(&format!("case{number}"), &pendulum(name, with));
        let loaded = recorded::load(&path, &spec("Pendulum-v1"));
        match expected {
            None => assert_eq!(loaded.unwrap().len(), 1, "{name}"),
            Some(expected) => {
                let error = loaded.unwrap_err().to_string();
                assert!(error.contains(expected) && error.contains(path.to_str().unwrap()), "{error}");
            }
        }
    }
    let error = recorded::load(
        file("discrete", &pendulum("actions", Some(array("(2,)", &[0.0, 1.5])))),
        &spec("CartPole-v1"),
    );
    assert!(error.unwrap_err().to_string().contains("observations"), "shapes are looked at first");
}

#[test]
fn damaged_files_are_refused_without_out_of_bounds_reads() {
    let whole = pendulum("none", None);
    let refused = |bytes: &[u8], name: &str| recorded::load(file(name, bytes), &spec("Pendulum-v1")).is_err();
    assert!(refused(b"", "empty") && refused(b"no archive at all, but long enough to be one", "text"));
    // Every byte of the archive matters, except versions, times and comments.
    let mut changed = 0;
    for place in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[place] ^= 0x55;
        changed += usize::from(refused(&bytes, "flipped"));
    }
    assert!(changed * 2 > whole.len(), "{changed} of {}", whole.len());
    for length in 0..whole.len() {
        assert!(refused(&whole[..length], "short"), "{length}");
    }
}

/// Returns an episode of a pendulum; `seen` replaces the first number of the observation after the first step.
fn swung(seen: f32) -> RecordedEpisode {
    let mut environment = relive_env::make("Pendulum-v1", 1).unwrap();
    let mut episode = RecordedEpisode::play(&mut environment, |_, _, _| Ok(())).unwrap();
    episode.observations.row_mut(1).leaf_mut::<f32>(0).unwrap()[0] = seen;
    episode
}

#[test]
fn unusable_recordings_are_reported_once() {
    let folder = tempfile::tempdir().unwrap();
    let there = |name: &str| folder.path().join(name);
    let spec = spec("Pendulum-v1");
    let episodes = [swung(0.5), swung(f32::INFINITY)];
    let error = recorded::save(there("odd"), &spec, &episodes).unwrap_err().to_string();
    let expected_text = "odd: episode 1, step 1: the observation at [0] is inf, but agents learn only from finite float32 numbers";
    assert!(error.ends_with(expected_text) && !there("odd").exists(), "{error}");

    recorded::save(there("whole"), &spec, &episodes[..1]).unwrap();
    assert_eq!(recorded::load(there("whole"), &spec).unwrap().len(), 1);
    std::fs::create_dir(there("empty")).unwrap();
    let of_another = relive_env::make("CartPole-v1", 1).unwrap().spec().clone();
    for (name, spec, expected) in [
        ("nowhere", &spec, "no folder of recorded episodes"),
        ("empty", &spec, "there is no checkpoint of recorded episodes in it"),
        (
            "whole",
            &of_another,
            "episode 0: its actions are float32 of [201, 1] for all steps, but the environment has",
        ),
    ] {
        let error = recorded::load(there(name), spec).unwrap_err();
        assert!(matches!(error, RlError::Recording { .. }), "{error}");
        let (error, place) = (error.to_string(), there(name).display().to_string());
        assert!(error.starts_with(&format!("{place}: ")) && error.contains(expected), "{error}");
        assert_eq!(error.matches(&place).count(), 1, "{error}");
    }
}

/// Returns an episode of CartPole with the types of Python's numbers, which differ from those of the environment.
fn with_python_types(last_action: i64) -> (EnvironmentSpec, RecordedEpisode) {
    let observation = ArraySpec::new("observation", DType::Float64, [4]);
    let wide = EnvironmentSpec {
        observations: Nest::Leaf(observation),
        actions: Nest::Leaf(ArraySpec::new("action", DType::Int64, [])),
        ..spec("CartPole-v1")
    };
    let mut observations = Buffer::for_nest(&wide.observations, 3).unwrap();
    observations.row_mut(2).leaf_mut::<f64>(0).unwrap()[0] = 0.5;
    let mut actions = Buffer::for_nest(&wide.actions, 2).unwrap();
    actions.row_mut(1).leaf_mut::<i64>(0).unwrap()[0] = last_action;
    let answers = vec![TimeStep::transition(1.0), TimeStep::termination(1.0)];
    (wide, RecordedEpisode { observations, actions, answers })
}

#[test]
fn recorded_numbers_are_converted_to_the_types_of_the_environment() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("recorded");
    let (wide, episode) = with_python_types(1);
    recorded::save(&place, &wide, &[episode]).unwrap();
    let loaded = recorded::load(&place, &spec("CartPole-v1")).unwrap();
    let (actions, seen, answers) = contents(&loaded[0]);
    assert_eq!((actions, seen), (vec![0, 1], vec![0.0, 0.0, 0.5]));
    assert_eq!(answers.last(), Some(&(StepType::Last, 1.0, 0.0)));

    let (wide, episode) = with_python_types(2);
    recorded::save(&place, &wide, &[episode]).unwrap();
    let error = recorded::load(&place, &spec("CartPole-v1")).unwrap_err().to_string();
    assert!(error.contains("episode 0: step 1: one of its actions is 2, but the environment has"), "{error}");
}

#[test]
fn numbers_outside_of_half_open_bounds_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("recorded");
    let (mut wide, episode) = with_python_types(1);
    recorded::save(&place, &wide, &[episode]).unwrap();
    for (minimum, maximum) in [(2.0, f64::INFINITY), (f64::NEG_INFINITY, -2.0)] {
        let action = ArraySpec::new("action", DType::Float32, []).bounded(minimum, maximum);
        wide.actions = Nest::Leaf(action);
        let error = recorded::load(&place, &wide).unwrap_err().to_string();
        assert!(error.contains("step 0: one of its actions is 0, but the environment has"), "{error}");
    }
}

#[test]
fn flags_are_converted_to_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("recorded");
    let (mut wide, mut episode) = with_python_types(1);
    wide.actions = Nest::Leaf(ArraySpec::new("action", DType::Bool, []));
    episode.actions = Buffer::for_nest(&wide.actions, 2).unwrap();
    episode.actions.leaf_bytes_mut(0).unwrap()[1] = 1;
    recorded::save(&place, &wide, &[episode]).unwrap();
    let loaded = recorded::load(&place, &spec("CartPole-v1")).unwrap();
    assert_eq!(contents(&loaded[0]).0, [0, 1]);
}
