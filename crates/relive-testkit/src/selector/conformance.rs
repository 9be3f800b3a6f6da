//! The suite that every selector passes.

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use relive_table::{Select, SelectorKind, Slot};

use super::NaiveSelector;

/// Returns every kind of selector, including extreme exponents.
pub fn kinds() -> Vec<SelectorKind> {
    let exponents = [0.0, 0.6, 1.0, 3.0, -1.5];
    let prioritized = exponents.map(|exponent| SelectorKind::Prioritized { exponent });
    let mut kinds = vec![SelectorKind::Fifo, SelectorKind::Lifo, SelectorKind::Uniform];
    kinds.extend([SelectorKind::WithoutReplacement, SelectorKind::MinHeap, SelectorKind::MaxHeap]);
    kinds.extend(prioritized);
    kinds
}

/// Tests the selectors that `empty` creates against the contract of [`Select`] and the rule of their kind.
///
/// # Panics
/// If a selector violates the contract or the rule.
pub fn conformance<S: Select>(kind: SelectorKind, empty: impl Fn() -> S) {
    nothing_comes_out_of_an_empty_selector(&mut empty());
    slots_are_members_once(&mut empty());
    priorities_are_judged_by_kind(kind, &empty());
    a_refused_priority_changes_nothing(kind, &mut empty());
    for seed in 0..20 {
        random_changes_follow_the_model(kind, &mut empty(), seed);
    }
    the_same_history_gives_the_same_picks(&mut empty(), &mut empty());
    many_picks_are_single_picks_one_after_the_other(&mut empty(), &mut empty());
    who_is_said_to_leave_next_leaves_next(&mut empty());
    picks_come_as_often_as_their_probability_says(kind, &mut empty());
    weightless_slots_are_picked_only_among_themselves(kind, &mut empty());
}

fn rng(seed: u64) -> Xoshiro256PlusPlus {
    Xoshiro256PlusPlus::seed_from_u64(seed)
}

fn add(selector: &mut impl Select, slot: Slot, priority: f64) {
    let rank = selector.admit(None, priority).expect("the suite adds valid priorities");
    assert!(selector.insert(slot, rank), "slot {slot} is new");
}

fn change(selector: &mut impl Select, slot: Slot, priority: f64) {
    let rank = selector.admit(Some(slot), priority).expect("the suite sets valid priorities");
    assert!(selector.update(slot, rank), "slot {slot} is a member");
}

fn nothing_comes_out_of_an_empty_selector(selector: &mut impl Select) {
    assert_eq!(selector.pick(&mut rng(0)), None);
    add(selector, 3, 1.0);
    assert!(selector.remove(3));
    assert!(selector.is_empty());
    assert_eq!(selector.pick(&mut rng(0)), None, "the last member has left");
}

fn slots_are_members_once(selector: &mut impl Select) {
    let rank = selector.admit(None, 1.0).expect("1 is a valid priority everywhere");
    assert!(!selector.update(0, rank) && !selector.remove(0), "slot 0 is no member yet");
    assert!(selector.insert(0, rank) && !selector.insert(0, rank), "slot 0 is a member once");
    assert!(!selector.update(7, rank) && !selector.remove(7), "slot 7 was never a member");
    assert!(!selector.insert(Slot::MAX, rank), "the last number is no slot");
    assert_eq!(selector.len(), 1);
    assert!(selector.remove(0) && !selector.remove(0), "slot 0 leaves once");
    assert!(selector.insert(0, rank), "a removed slot may be added again");
}

fn priorities_are_judged_by_kind(kind: SelectorKind, selector: &impl Select) {
    let model = NaiveSelector::new(kind);
    let edges =
        [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, -0.0, 0.0, 1e-300, 5e-324, 1.0, 1e150, 1e300];
    for priority in edges.into_iter().chain([f64::MAX, f64::MIN]) {
        let accepted = selector.admit(None, priority).is_ok();
        assert_eq!(accepted, model.accepts(None, priority), "{kind} judges {priority}");
    }
}

fn a_refused_priority_changes_nothing(kind: SelectorKind, selector: &mut impl Select) {
    add(selector, 0, 2.0);
    if let Err(error) = selector.admit(Some(0), f64::NAN) {
        assert!(error.to_string().contains(&kind.to_string()), "{error} does not name {kind}");
    }
    let pick = selector.pick(&mut rng(0)).expect("slot 0 is a member");
    assert_eq!((pick.slot, pick.probability, selector.len()), (0, 1.0, 1));
}

/// Uses few slots and few priorities, so that slots are reused and priorities are often equal.
fn random_changes_follow_the_model(kind: SelectorKind, selector: &mut impl Select, seed: u64) {
    const SLOTS: u64 = 40;
    let mut rng = rng(seed);
    let mut model = NaiveSelector::new(kind);
    let mut members = [false; 40];
    for _ in 0..600 {
        let slot = rng.next_u64() % SLOTS;
        let id = Slot::try_from(slot).expect("few slots");
        let priority = f64::from(rng.next_u32() % 5) * 0.75;
        let member = &mut members[id as usize];
        // At first, additions outnumber removals; later, removals outnumber additions.
        match (*member, rng.next_u64() % 3) {
            (false, _) => {
                add(selector, id, priority);
                model.insert(slot, priority);
                *member = true;
            }
            (true, 0) => {
                assert!(selector.remove(id));
                model.remove(slot);
                *member = false;
            }
            (true, _) => {
                change(selector, id, priority);
                model.update(slot, priority);
            }
        }
        assert_eq!(selector.len(), model.len());
        if let Some(pick) = selector.pick(&mut rng) {
            model.check_pick(u64::from(pick.slot), pick.probability);
        }
    }
}

fn the_same_history_gives_the_same_picks(one: &mut impl Select, other: &mut impl Select) {
    let (mut rng_of_one, mut rng_of_other) = (rng(5), rng(5));
    for slot in 0..100 {
        add(one, slot, f64::from(slot % 7));
        add(other, slot, f64::from(slot % 7));
        assert_eq!(one.pick(&mut rng_of_one), other.pick(&mut rng_of_other));
    }
    assert_eq!(rng_of_one, rng_of_other, "both drew as many words");
}

fn many_picks_are_single_picks_one_after_the_other(one: &mut impl Select, other: &mut impl Select) {
    let (mut rng_of_many, mut rng_of_single) = (rng(6), rng(6));
    for (size, count) in [(0, 3), (1, 5), (9, 1), (200, 77), (400, 32)] {
        let first = Slot::try_from(one.len()).expect("few slots");
        (first..size).for_each(|slot| add(one, slot, f64::from(slot % 7)));
        (first..size).for_each(|slot| add(other, slot, f64::from(slot % 7)));
        let mut many = Vec::new();
        one.pick_many(count, &mut rng_of_many, &mut many);
        let single: Vec<_> = (0..count).map_while(|_| other.pick(&mut rng_of_single)).collect();
        assert_eq!(many, single, "{count} of {size}");
    }
    assert_eq!(rng_of_many, rng_of_single, "both drew as many words");
}

/// Predictions of the next slots to leave stay correct even while newer slots are added.
fn who_is_said_to_leave_next_leaves_next(selector: &mut impl Select) {
    let mut rng = rng(7);
    assert_eq!(selector.next_to_leave(5).count(), 0, "there is no member to remove");
    for slot in 0..50 {
        add(selector, slot, f64::from(slot % 7));
    }
    for slot in [3, 0, 20] {
        assert!(selector.remove(slot));
    }
    for newer in 50..60 {
        let foretold: Vec<Slot> = selector.next_to_leave(5).collect();
        assert!(foretold.len() <= 5);
        for slot in foretold {
            assert_eq!(selector.pick(&mut rng).map(|pick| pick.slot), Some(slot));
            assert!(selector.remove(slot));
        }
        add(selector, newer, 1.0);
    }
    assert!(selector.next_to_leave(usize::MAX).count() <= selector.len());
}

/// Frequencies of 100,000 picks are within five standard deviations of their expectation.
fn picks_come_as_often_as_their_probability_says(kind: SelectorKind, selector: &mut impl Select) {
    const PICKS: u32 = 100_000;
    let mut model = NaiveSelector::new(kind);
    for slot in 0..20 {
        let priority = f64::from(slot) / 4.0;
        add(selector, slot, priority);
        model.insert(u64::from(slot), priority);
    }
    let mut counts = [0_u32; 20];
    let mut rng = rng(11);
    for _ in 0..PICKS {
        let pick = selector.pick(&mut rng).expect("there are members");
        counts[pick.slot as usize] += 1;
    }
    for (slot, probability) in model.probabilities() {
        let count = counts.get_mut(usize::try_from(slot).expect("few slots")).expect("20 slots");
        let expected = probability * f64::from(PICKS);
        let deviation = (expected * (1.0 - probability)).sqrt();
        let off = (f64::from(*count) - expected).abs();
        assert!(off <= 5.0 * deviation, "{kind} picked {slot} {count} times of {expected}");
        *count = 0;
    }
    assert_eq!(counts, [0; 20], "{kind} picked slots of probability 0");
}

/// Weights from the smallest to the largest float, with many zeros between them.
fn weightless_slots_are_picked_only_among_themselves(kind: SelectorKind, selector: &mut impl Select) {
    let SelectorKind::Prioritized { .. } = kind else { return };
    let mut model = NaiveSelector::new(kind);
    let mut rng = rng(23);
    for slot in 0..500_u32 {
        let priority = match rng.next_u32() % 8 {
            0 => 10_f64.powi(i32::try_from(rng.next_u32() % 160).expect("below 160") - 80),
            _ => 0.0,
        };
        add(selector, slot, priority);
        model.insert(u64::from(slot), priority);
    }
    let possible: Vec<u64> = model.probabilities().into_iter().map(|(id, _)| id).collect();
    for _ in 0..20_000 {
        let pick = selector.pick(&mut rng).expect("there are members");
        assert!(possible.contains(&u64::from(pick.slot)), "{kind} picked slot {} of weight 0", pick.slot);
        assert!(pick.probability > 0.0);
    }
    for slot in 0..500_u32 {
        change(selector, slot, 0.0);
    }
    let pick = selector.pick(&mut rng).expect("there are members");
    assert_eq!(pick.probability, 1.0 / 500.0, "without weights, all items have the same probability");
}
