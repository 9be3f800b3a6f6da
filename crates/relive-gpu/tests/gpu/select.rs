//! Selection: distributions, ranks, and defects of earlier systems that must not recur (listed in `docs/gpu.md`).

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use proptest::prelude::*;
use relive_gpu::select::{
    Order, Part, Pool, Selected, Selection, Selector, Summary, Weights, WeightsConfig, power,
};
use relive_gpu::{ErrorKind, Result};

const KINDS: [Selection; 9] = [
    Selection::Uniform,
    Selection::Weighted,
    Selection::Stratified,
    Selection::Prioritized { beta: 0.4, stratified: false },
    Selection::Prioritized { beta: 1.0, stratified: true },
    Selection::TopK,
    Selection::Fifo,
    Selection::Lifo,
    Selection::WithoutReplacement,
];

fn once(selection: Selection) -> bool {
    use Selection::{Fifo, Lifo, TopK, WithoutReplacement};
    matches!(selection, TopK | Fifo | Lifo | WithoutReplacement)
}

fn weights_of(all: &[f32], exponent: f32, range: std::ops::Range<usize>) -> Weights {
    let config = WeightsConfig {
        capacity: range.len() as u64,
        total_capacity: all.len() as u64,
        first: range.start as u64,
        exponent,
        ..WeightsConfig::new(1)
    };
    let mut weights = Weights::new(config).unwrap();
    weights.load(&all[range]).unwrap();
    weights
}

/// Selects with several ranks, which own the index ranges between these ends. Ranks exchange summaries and parts as
/// bytes.
fn select_in_ranks(
    all: &[f32],
    exponent: f32,
    inserted: &[u64],
    ends: &[usize],
    selector: &Selector,
    selection: Selection,
    count: u64,
) -> Result<Selected> {
    let starts = std::iter::once(0).chain(ends.iter().copied());
    let owned: Vec<_> = starts.zip(ends.iter().copied()).map(|(start, end)| start..end).collect();
    let ranks: Vec<Weights> = owned.iter().map(|range| weights_of(all, exponent, range.clone())).collect();
    let pool = |rank: usize| Pool::with_inserted(&ranks[rank], &inserted[owned[rank].clone()]);
    let mut summaries = Vec::new();
    for rank in 0..ranks.len() {
        let summary = selector.summary(&pool(rank), selection, count)?;
        let bytes = summary.to_bytes();
        assert!(bytes.len() >= 96 && (bytes.len() - 96) % 24 == 0, "{} bytes", bytes.len());
        summaries.push(Summary::from_bytes(&bytes)?);
    }
    let mut parts = Vec::new();
    for (rank, owned) in owned.iter().enumerate() {
        let part = selector.clone().select_with(&pool(rank), &summaries, rank, selection, count)?;
        let own = part.draws().all(|(_, index)| owned.contains(&usize::try_from(index).unwrap()));
        assert!(own, "rank {rank} has draws of others");
        parts.push(Part::from_bytes(&part.to_bytes())?);
    }
    parts.reverse();
    Selector::merge(&parts, selection, Order::AsDrawn)
}

fn even_ends(capacity: usize, ranks: usize) -> Vec<usize> {
    (1..=ranks).map(|rank| capacity * rank / ranks).collect()
}

fn weight() -> impl Strategy<Value = f32> {
    prop_oneof![2 => Just(0.0f32), 3 => 0.0f32..4.0, 1 => Just(1.0f32), 1 => Just(1e-9f32), 1 => 1e3f32..6e4]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Defects 2, 13, 14 and 15: the weights of other ranks are taken into account, no rank's rows replace another's,
    /// and indices are translated only once.
    #[test]
    fn any_number_of_ranks_selects_the_same_rows(
        all in prop::collection::vec(weight(), 16..1_500),
        exponent in prop_oneof![Just(1.0f32), Just(0.6f32), Just(0.0f32)],
        seed: u64,
        step in 0u64..3,
        cut in 0.0f64..1.0,
        count in 1u64..200,
    ) {
        let inserted: Vec<u64> = (0..all.len() as u64).map(|index| (index * 7919 + seed % 100) % 1_009).collect();
        let selectable = all.iter().filter(|weight| **weight > 0.0).count() as u64;
        let mut selector = Selector::new(seed);
        let single = weights_of(&all, exponent, 0..all.len());
        let pool = Pool::with_inserted(&single, &inserted);
        prop_assume!(selectable > 0);
        for _ in 0..step {
            selector.select(&pool, Selection::Uniform, 1, Order::AsDrawn).unwrap();
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "a cut")]
        let cut = 1 + (cut * (all.len() - 2) as f64) as usize;
        for selection in KINDS {
            let count = if once(selection) { count.min(selectable) } else { count };
            let alone = selector.clone().select(&pool, selection, count, Order::AsDrawn).unwrap();
            prop_assert_eq!(alone.indices.len() as u64, count);
            prop_assert!(alone.indices.iter().all(|index| all[usize::try_from(*index).unwrap()] > 0.0));
            let layouts = [even_ends(all.len(), 2), even_ends(all.len(), 3), even_ends(all.len(), 8), vec![cut, all.len()]];
            for ends in layouts {
                let together = select_in_ranks(&all, exponent, &inserted, &ends, &selector, selection, count).unwrap();
                prop_assert_eq!(&together, &alone, "{:?} with ranks that end at {:?}", selection, ends);
            }
        }
    }

    /// Sums are exact: any sequence of updates has the same result as loading the final weights.
    #[test]
    fn updates_in_any_order_end_in_the_same_state(
        updates in prop::collection::vec((0u64..700, weight()), 0..400),
        exponent in prop_oneof![Just(1.0f32), Just(0.7f32)],
    ) {
        let config = WeightsConfig { exponent, ..WeightsConfig::new(700) };
        let mut updated = Weights::new(config).unwrap();
        let mut naive = vec![0.0; 700];
        for chunk in updates.chunks(37) {
            let (indices, weights): (Vec<u64>, Vec<f32>) = chunk.iter().copied().unzip();
            updated.update(&indices, &weights).unwrap();
            for (index, weight) in chunk {
                naive[usize::try_from(*index).unwrap()] = *weight;
            }
        }
        let mut loaded = Weights::new(config).unwrap();
        loaded.load(&naive).unwrap();
        prop_assert_eq!(&updated, &loaded);
    }

    /// Defects 1 and 4: every kind of selection runs, and gives the result of a plain sort.
    #[test]
    fn selections_without_replacement_match_a_sort(
        all in prop::collection::vec(weight(), 300..3_000),
        count in 1u64..300,
    ) {
        let selectable: Vec<usize> = (0..all.len()).filter(|index| all[*index] > 0.0).collect();
        let count = count.min(selectable.len() as u64);
        let inserted: Vec<u64> = (0..all.len() as u64).map(|index| if index == 5 { 0 } else { index * 31 % 257 }).collect();
        let weights = weights_of(&all, 1.0, 0..all.len());
        let pool = Pool::with_inserted(&weights, &inserted);
        for selection in [Selection::TopK, Selection::Fifo, Selection::Lifo] {
            let mut sorted = selectable.clone();
            match selection {
                Selection::TopK => sorted.sort_by(|a, b| all[*b].total_cmp(&all[*a])),
                Selection::Fifo => sorted.sort_by_key(|index| inserted[*index]),
                _ => sorted.sort_by_key(|index| std::cmp::Reverse(inserted[*index])),
            }
            let expected: Vec<u64> = sorted.iter().map(|index| *index as u64).take(usize::try_from(count).unwrap()).collect();
            let selected = Selector::new(1).select(&pool, selection, count, Order::AsDrawn).unwrap();
            prop_assert_eq!(selected.indices, expected);
        }
    }
}

/// Returns the chi-square statistic of counts against expectations, as its distance from its mean in standard
/// deviations.
fn deviation(counts: &[u64], expected: &[f64]) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "small counts")]
    let terms =
        counts.iter().zip(expected).map(|(count, expected)| (*count as f64 - expected).powi(2) / expected);
    let chi_square: f64 = terms.sum();
    #[expect(clippy::cast_precision_loss, reason = "small counts")]
    let freedom = (counts.len() - 1) as f64;
    (chi_square - freedom) / (2.0 * freedom).sqrt()
}

fn counts(indices: &[u64], capacity: usize) -> Vec<u64> {
    let mut counts = vec![0; capacity];
    for index in indices {
        counts[usize::try_from(*index).unwrap()] += 1;
    }
    counts
}

#[test]
fn draws_follow_the_distribution_of_the_masses() {
    let all: Vec<f32> = (0..3_000u16).map(|index| 0.5 + f32::from(index % 17)).collect();
    for (selection, exponent) in [
        (Selection::Uniform, 1.0),
        (Selection::Weighted, 1.0),
        (Selection::Weighted, 0.6),
        (Selection::Prioritized { beta: 0.5, stratified: false }, 0.6),
    ] {
        let weights = weights_of(&all, exponent, 0..all.len());
        let count = 600_000;
        let selected =
            Selector::new(99).select(&Pool::new(&weights), selection, count, Order::AsDrawn).unwrap();
        let mass = |weight: f32| match selection {
            Selection::Uniform => 1.0,
            _ => f64::from(weight).powf(f64::from(exponent)),
        };
        let total: f64 = all.iter().map(|weight| mass(*weight)).sum();
        let expected: Vec<f64> = all.iter().map(|weight| mass(*weight) / total * 600_000.0).collect();
        let deviation = deviation(&counts(&selected.indices, all.len()), &expected);
        assert!(
            deviation.abs() < 4.0,
            "{selection:?} with exponent {exponent}: {deviation} standard deviations"
        );
        for (index, probability) in selected.indices.iter().zip(&selected.probabilities) {
            let expected = expected[usize::try_from(*index).unwrap()] / 600_000.0;
            assert!((f64::from(*probability) / expected - 1.0).abs() < 1e-4);
        }
    }
}

#[test]
fn stratified_draws_select_each_stratum_once() {
    let all = vec![1.0; 1_000];
    let weights = weights_of(&all, 1.0, 0..all.len());
    let selected =
        Selector::new(5).select(&Pool::new(&weights), Selection::Stratified, 500, Order::AsDrawn).unwrap();
    for (position, index) in (0..).zip(&selected.indices) {
        assert_eq!(index / 2, position, "draw {position} is one of two indices");
    }
    let odd = selected.indices.iter().filter(|index| **index % 2 == 1).count();
    assert!((190..310).contains(&odd), "{odd}");
}

/// Compares the first, second and third index with the indices of sequential draws, each of which removes its index.
#[test]
fn without_replacement_matches_sequential_draws() {
    let all = [1.0f32, 2.0, 0.0, 4.0, 0.5];
    let weights = weights_of(&all, 1.0, 0..5);
    let mut selector = Selector::new(3);
    let mut seen = vec![0u64; 125];
    for _ in 0..60_000 {
        let selected =
            selector.select(&Pool::new(&weights), Selection::WithoutReplacement, 3, Order::AsDrawn).unwrap();
        let [a, b, c] = selected.indices[..] else { panic!("three indices") };
        seen[usize::try_from(a * 25 + b * 5 + c).unwrap()] += 1;
    }
    let (mut found, mut expected) = (Vec::new(), Vec::new());
    for (code, seen) in seen.iter().enumerate() {
        let chosen = [code / 25, code / 5 % 5, code % 5];
        let mut left = 7.5;
        let mut chance = 1.0;
        for (position, index) in chosen.iter().enumerate() {
            let weight = if chosen[..position].contains(index) { 0.0 } else { f64::from(all[*index]) };
            chance *= weight / left;
            left -= weight;
        }
        if chance == 0.0 {
            assert_eq!(*seen, 0, "{chosen:?} is not possible");
        } else {
            found.push(*seen);
            expected.push(chance * 60_000.0);
        }
    }
    let deviation = deviation(&found, &expected);
    assert!(deviation.abs() < 4.0, "{deviation} standard deviations");
}

/// The bound that rejects indices early must not reject any index that arrives among the first. The result is compared
/// with a sort of all keys, over many tiles.
#[test]
fn without_replacement_does_not_depend_on_the_number_of_threads() {
    let all: Vec<f32> = (0..300_000u32)
        .map(|index| if index % 5 == 0 { 0.0 } else { power(0.1 + (index % 1_013) as f32, 2.0) / 1e3 })
        .collect();
    let inserted = vec![0; all.len()];
    let select = |threads: usize, count: u64| {
        let config = WeightsConfig { threads, ..WeightsConfig::new(300_000) };
        let mut weights = Weights::new(config).unwrap();
        weights.load(&all).unwrap();
        let selection = Selection::WithoutReplacement;
        Selector::new(11).select(&Pool::new(&weights), selection, count, Order::AsDrawn).unwrap()
    };
    // Selects all selectable indices, so that none can be rejected. Its first entries must equal a smaller selection.
    let everything = select(1, 240_000);
    for count in [1, 2, 1_000, 50_000] {
        for threads in [1, 3] {
            let some = select(threads, count);
            assert_eq!(
                some.indices,
                everything.indices[..usize::try_from(count).unwrap()],
                "{count} in {threads}"
            );
        }
    }
    let ends = [99_999, 100_002, 300_000];
    let selector = Selector::new(11);
    let ranks = select_in_ranks(&all, 1.0, &inserted, &ends, &selector, Selection::WithoutReplacement, 1_000)
        .unwrap();
    assert_eq!(ranks.indices, everything.indices[..1_000]);
}

/// Defects 3 and 5: sums extend beyond one block of a kernel, and late entries are not lost in the rounding of early
/// ones.
#[test]
fn late_entries_keep_their_probability_after_large_early_ones() {
    let mut all = vec![1.0f32; 200_000];
    all[0] = 60_000.0;
    all[1] = 0.0;
    let weights = weights_of(&all, 1.0, 0..all.len());
    assert!((weights.mass() - 259_998.0).abs() < 1e-9);
    let count = 520_000;
    let selected =
        Selector::new(8).select(&Pool::new(&weights), Selection::Weighted, count, Order::AsDrawn).unwrap();
    let counts = counts(&selected.indices, all.len());
    assert_eq!(counts[1], 0);
    let tenths: Vec<u64> = counts[2..].chunks(19_999).map(|tenth| tenth.iter().sum()).collect();
    let mut expected = vec![2.0 * 19_999.0; 10];
    expected.resize(tenths.len(), 2.0 * 8.0);
    let deviation = deviation(&tenths, &expected);
    assert!(deviation.abs() < 4.0, "{deviation} standard deviations: {tenths:?}");
}

#[test]
fn importance_weights_match_the_paper() {
    let all: Vec<f32> = (1..=100u8).map(f32::from).collect();
    let weights = weights_of(&all, 0.6, 0..100);
    let selection = Selection::Prioritized { beta: 0.4, stratified: true };
    let selected = Selector::new(2).select(&Pool::new(&weights), selection, 64, Order::AsDrawn).unwrap();
    let raw = |probability: f32| (100.0 * f64::from(probability)).powf(-0.4);
    let largest = selected.probabilities.iter().map(|probability| raw(*probability)).fold(0.0, f64::max);
    for (importance, probability) in selected.importance.iter().zip(&selected.probabilities) {
        assert!((f64::from(*importance) - raw(*probability) / largest).abs() < 1e-6);
    }
    assert!(selected.importance.contains(&1.0));
}

#[test]
fn selections_continue_after_a_checkpoint() {
    let all: Vec<f32> = (0..500u16).map(|index| f32::from(index % 7)).collect();
    let mut weights = weights_of(&all, 0.5, 0..500);
    let mut selector = Selector::new(4);
    let draw = |selector: &mut Selector, weights: &Weights| {
        selector.select(&Pool::new(weights), Selection::WithoutReplacement, 20, Order::ByIndex).unwrap()
    };
    let first = draw(&mut selector, &weights);
    let saved = (selector.to_bytes(), weights.weights().to_vec());
    let expected = [draw(&mut selector, &weights), draw(&mut selector, &weights)];
    let mut resumed = Selector::from_bytes(&saved.0).unwrap();
    weights = weights_of(&saved.1, 0.5, 0..500);
    assert_eq!(resumed.step(), 1);
    assert_eq!([draw(&mut resumed, &weights), draw(&mut resumed, &weights)], expected);
    assert_ne!(first, expected[0]);
    assert!(expected[0].indices.is_sorted());
    let cut = Selector::from_bytes(&saved.0[..20]).unwrap_err();
    assert_eq!(
        (cut.kind(), cut.to_string().contains("ends at byte 20, but 8 bytes were expected from byte 16")),
        (ErrorKind::Corrupt, true)
    );
}

/// Defect 20: a missing rank, or a rank at another step, is an error and never gives a wrong list.
#[test]
fn ranks_that_disagree_are_detected() {
    let all = vec![1.0; 100];
    let ranks = [weights_of(&all, 1.0, 0..50), weights_of(&all, 1.0, 50..100)];
    let [mut first, mut second] = [Selector::new(1), Selector::new(1)];
    let (kind, count) = (Selection::Weighted, 10);
    let summaries = [
        first.summary(&Pool::new(&ranks[0]), kind, count).unwrap(),
        second.summary(&Pool::new(&ranks[1]), kind, count).unwrap(),
    ];
    let text = |result: Result<Part>| result.unwrap_err().to_string();
    let missing = first.select_with(&Pool::new(&ranks[0]), &summaries[..1], 0, kind, count);
    assert!(text(missing).contains("a summary is missing"));
    let swapped = [summaries[1].clone(), summaries[0].clone()];
    assert!(
        text(first.select_with(&Pool::new(&ranks[0]), &swapped, 1, kind, count))
            .contains("in the order of ranks")
    );
    assert!(
        text(first.select_with(&Pool::new(&ranks[1]), &summaries, 0, kind, count))
            .contains("does not match the weights")
    );
    let part = first.select_with(&Pool::new(&ranks[0]), &summaries, 0, kind, count).unwrap();
    let late = first.select_with(&Pool::new(&ranks[0]), &summaries, 0, kind, count);
    assert!(text(late).contains("the step"));
    let other = second.select_with(&Pool::new(&ranks[1]), &summaries, 1, Selection::Uniform, count);
    assert!(text(other).contains("the kind of selection"));
    assert!(
        Selector::merge(std::slice::from_ref(&part), kind, Order::AsDrawn)
            .unwrap_err()
            .to_string()
            .contains("a part")
    );
    let merged = |parts: &[Part]| Selector::merge(parts, kind, Order::AsDrawn).unwrap_err().to_string();
    assert!(merged(&[part.clone(), part]).contains("missing or duplicated"));
    assert!(merged(&[]).contains("there are no parts"));
}

#[test]
fn invalid_weights_and_selections_are_refused() {
    let mut weights = weights_of(&[1.0, 2.0, 0.0], 1.0, 0..3);
    let before = weights.clone();
    for bad in [f32::NAN, -1.0, f32::INFINITY, 65_537.0] {
        let error = weights.update(&[0, 1], &[5.0, bad]).unwrap_err();
        assert!(error.to_string().contains("entry 1 of an update (index 1)"), "{error}");
        let error = weights.load(&[1.0, bad, 2.0]).unwrap_err();
        assert!(error.to_string().contains("the weight of index 1 within the rank"), "{error}");
    }
    assert!(weights.update(&[3], &[1.0]).unwrap_err().to_string().contains("the indices 0 to 2"));
    let error = weights.update(&[0, 1], &[1.0]).unwrap_err();
    assert!(error.to_string().contains("2 indices with 1 weights"), "{error}");
    assert_eq!(weights, before, "a refused update changes nothing");
    let mut selector = Selector::new(0);
    let few = selector.select(&Pool::new(&weights), Selection::TopK, 3, Order::AsDrawn).unwrap_err();
    assert_eq!(few.kind(), ErrorKind::Unavailable);
    let no_numbers = selector.select(&Pool::new(&weights), Selection::Fifo, 1, Order::AsDrawn).unwrap_err();
    assert!(no_numbers.to_string().contains("3 indices, got 0"));
    let beta = Selection::Prioritized { beta: -0.1, stratified: false };
    let error = selector.select(&Pool::new(&weights), beta, 1, Order::AsDrawn).unwrap_err();
    assert!(error.to_string().contains("-0.1"), "{error}");
    let empty = Weights::new(WeightsConfig::new(10)).unwrap();
    let nothing = selector.select(&Pool::new(&empty), Selection::Uniform, 1, Order::AsDrawn).unwrap_err();
    assert!(nothing.to_string().contains("0 have a weight above 0"));
    assert_eq!(selector.step(), 0, "a refused selection is no step");
}

#[test]
fn shares_of_data_parallel_ranks_form_the_whole_list() {
    let weights = weights_of(&[1.0; 64], 1.0, 0..64);
    let selected =
        Selector::new(6).select(&Pool::new(&weights), Selection::Uniform, 11, Order::ByIndex).unwrap();
    let shares: Vec<u64> = (0..4).flat_map(|rank| selected.share(rank, 4).indices).collect();
    assert_eq!(shares, selected.indices);
    assert_eq!(selected.share(3, 4).indices.len(), 2);
}

/// If the grid would distort the probabilities, every rank refuses the selection with an error that names the remedy;
/// with the remedy applied, the draws are correct.
#[test]
fn weights_below_grid_resolution_are_refused() {
    let weights = |exponent, max_weight| {
        let mut weights =
            Weights::new(WeightsConfig { exponent, max_weight, ..WeightsConfig::new(4) }).unwrap();
        weights.load(&[1.0, 2.0, 3.0, 10.0]).unwrap();
        weights
    };
    let coarse = weights(3.0, 65_536.0);
    for selection in [Selection::Weighted, Selection::Stratified, Selection::WithoutReplacement] {
        let error = Selector::new(1).select(&Pool::new(&coarse), selection, 3, Order::AsDrawn).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains("max_weight close to the largest expected weight"), "{error}");
    }
    for selection in [Selection::Uniform, Selection::TopK] {
        Selector::new(1).select(&Pool::new(&coarse), selection, 3, Order::AsDrawn).unwrap();
    }
    let fine = weights(3.0, 10.0);
    let drawn =
        Selector::new(1).select(&Pool::new(&fine), Selection::Weighted, 40_000, Order::AsDrawn).unwrap();
    let expected: Vec<f64> = [1.0, 8.0, 27.0, 1000.0].iter().map(|mass| mass / 1036.0 * 40_000.0).collect();
    let deviation = deviation(&counts(&drawn.indices, 4), &expected);
    assert!(deviation.abs() < 4.0, "{deviation} standard deviations");
    let error = Weights::new(WeightsConfig { exponent: 8.0, ..WeightsConfig::new(4) }).unwrap_err();
    assert!(error.to_string().contains("give a lower max_weight"), "{error}");
}
