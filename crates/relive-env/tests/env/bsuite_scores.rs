//! Scores, compared with bsuite's own.

#![expect(clippy::cast_precision_loss, reason = "counts are small")]

use std::collections::BTreeMap;

use relive_env::bsuite::{BsuiteId, Experiment, LogRow, Run, Tag, score, summarize};
use relive_env::random::RandomState;
use serde::Deserialize;

#[derive(Deserialize)]
struct Expected {
    seed: u32,
    scores: BTreeMap<String, f64>,
}

/// Returns a log row like `make_bsuite_scores.py`.
fn made_up(id: BsuiteId, episode: u64, luck: f64) -> LogRow {
    let (name, episodes) = (id.experiment().name(), episode as f64);
    let (car, swingup) = (name.starts_with("mountain_car"), name == "cartpole_swingup");
    let raw_return = if car { -(100.0 + 1000.0 * luck) * episodes } else { 1000.0 * luck * episodes };
    let totals = [
        ("total_regret", episodes * luck * 0.8),
        ("raw_return", raw_return),
        ("best_episode", if swingup { 200.0 * luck } else { 1000.0 * luck }),
        ("total_bad_episodes", episodes * (0.7 + 0.3 * luck)),
        ("total_perfect", episodes * (0.5 + 0.5 * luck)),
    ];
    let total_return = if swingup { 700.0 * luck * episodes } else { (1.0 + 0.1 * luck) * episodes };
    let totals = totals.map(|(name, value)| (name.to_owned(), value)).to_vec();
    LogRow { episode, total_return, totals, ..LogRow::default() }
}

fn runs(seed: u32) -> Vec<Run> {
    let mut stream = RandomState::new(seed);
    let mut run = |id: BsuiteId| {
        let episodes = [1, 100, 120, 1_000, 10_000];
        let played = episodes.into_iter().filter(|episode| *episode <= id.experiment().num_episodes());
        Run { id, rows: played.map(|episode| made_up(id, episode, stream.random_sample())).collect() }
    };
    BsuiteId::all().map(&mut run).collect()
}

#[test]
fn scores_match_bsuite() {
    let document: Vec<Expected> = serde_json::from_str(include_str!("../golden/bsuite_scores.json")).unwrap();
    for Expected { seed, scores } in document {
        let summary = summarize(&runs(seed)).unwrap();
        assert_eq!(summary.experiments.len(), scores.len());
        for (experiment, score, finished) in &summary.experiments {
            let expected = scores[experiment.name()];
            assert!((score - expected).abs() < 1e-12, "seed {seed}, {experiment}: {score}, not {expected}");
            assert!(finished);
        }
        for (tag, score) in summary.tags {
            let of_it = |e: &&Experiment| e.tags().contains(&tag);
            let parts: Vec<f64> = Experiment::ALL.iter().filter(of_it).map(|e| scores[e.name()]).collect();
            let expected = parts.iter().sum::<f64>() / parts.len() as f64;
            assert!((score - expected).abs() < 1e-12, "{tag}: {score}, not {expected}");
        }
    }
}

#[test]
fn an_unfinished_run_is_reported() {
    let mut runs: Vec<Run> =
        runs(0).into_iter().filter(|run| run.id.experiment() == Experiment::Catch).collect();
    runs[3].rows.pop();
    let summary = summarize(&runs).unwrap();
    assert_eq!(summary.experiments.len(), 1);
    assert!(!summary.experiments[0].2);
    assert_eq!(
        summary.tags.iter().map(|(tag, _)| *tag).collect::<Vec<_>>(),
        [Tag::Basic, Tag::CreditAssignment]
    );
}

#[test]
fn runs_without_scorable_data_are_reported() {
    let mut runs: Vec<Run> =
        runs(0).into_iter().filter(|run| run.id.experiment() == Experiment::Catch).collect();
    assert!(
        score(Experiment::Bandit, &runs).unwrap_err().to_string().contains("expected bandit, got catch/0")
    );
    assert!(score(Experiment::Catch, &[]).unwrap_err().to_string().contains("a logged episode, got none"));
    runs[0].rows.iter_mut().for_each(|row| row.totals.clear());
    let error = score(Experiment::Catch, &runs).unwrap_err().to_string();
    assert_eq!(error, "setting at `catch/0`: expected a column total_regret, got a log without it");
}

#[test]
fn digits_are_scored_by_regret_and_final_accuracy() {
    let row = |episode: u64, regret: f64| LogRow {
        episode,
        totals: vec![("total_regret".to_owned(), regret)],
        ..LogRow::default()
    };
    let run = |index, rows| Run { id: BsuiteId::new(Experiment::Mnist, index).unwrap(), rows };
    // In the last thousand episodes of the first run, the regret per episode is 0.2, which means 90 % of the digits. In
    // the last thousand episodes of the other run, the regret means 60 %.
    let first = run(0, vec![row(8_000, 8_500.0), row(9_000, 8_800.0), row(10_000, 9_000.0)]);
    let other = run(1, vec![row(9_000, 8_200.0), row(10_000, 9_000.0)]);
    let regret = 1.0 - 0.9 / 1.8;
    assert!(
        (score(Experiment::Mnist, std::slice::from_ref(&first)).unwrap() - 0.5 * (regret + 0.9)).abs()
            < 1e-12
    );
    let summary = summarize(&[first, other]).unwrap();
    assert!((summary.experiments[0].1 - 0.5 * (regret + 0.75)).abs() < 1e-12, "{summary:?}");
}
