//! Every selector passes the conformance suite, both on its own and as a variant of the enum.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use relive_table::selector::{Direction, Fifo, Heap, Lifo, Prioritized, Uniform, WithoutReplacement};
use relive_table::{PriorityError, Select, Selector, SelectorKind};
use relive_testkit::selector::{conformance, kinds};

#[test]
fn every_kind_conforms() {
    for kind in kinds() {
        conformance(kind, || Selector::new(kind));
    }
}

#[test]
fn every_selector_passes_conformance() {
    conformance(SelectorKind::Fifo, Fifo::default);
    conformance(SelectorKind::Lifo, Lifo::default);
    conformance(SelectorKind::Uniform, Uniform::default);
    conformance(SelectorKind::WithoutReplacement, WithoutReplacement::default);
    conformance(SelectorKind::MinHeap, || Heap::new(Direction::Min));
    conformance(SelectorKind::MaxHeap, || Heap::new(Direction::Max));
    conformance(SelectorKind::Prioritized { exponent: 0.8 }, || Prioritized::new(0.8));
}

#[test]
fn each_unweightable_priority_is_refused_with_its_own_reason() {
    let kind = SelectorKind::Prioritized { exponent: 2.0 };
    let mut selector = Selector::new(kind);
    let refusal = |selector: &Selector, priority| selector.admit(None, priority).unwrap_err();
    assert_eq!(refusal(&selector, f64::INFINITY), PriorityError::Infinite { selector: kind });
    assert_eq!(refusal(&selector, -0.5), PriorityError::Negative { selector: kind, priority: -0.5 });
    assert_eq!(refusal(&selector, 1e200), PriorityError::Weight { selector: kind, priority: 1e200 });
    let rank = selector.admit(None, 9e153).unwrap();
    assert!(selector.insert(0, rank));
    let total = refusal(&selector, 9e153).to_string();
    assert!(
        total.starts_with("the weight 8.1e307 of priority 9e153 plus the other items' 8.1e307"),
        "{total}"
    );
    assert!(selector.admit(Some(0), 9e153).is_ok(), "an update does not add to what it replaces");
}

#[test]
fn a_negative_exponent_reverses_the_order() {
    let kind = SelectorKind::Prioritized { exponent: -1.0 };
    let mut selector = Selector::new(kind);
    for (slot, priority) in [(0, 1.0), (1, 4.0), (2, 0.0)] {
        let rank = selector.admit(None, priority).unwrap();
        assert!(selector.insert(slot, rank));
    }
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(3);
    let pick = core::iter::repeat_with(|| selector.pick(&mut rng).unwrap()).find(|pick| pick.slot == 1);
    assert_eq!(pick.map(|pick| pick.probability), Some(0.2));
    assert_eq!(selector.admit(None, 1e-320), Err(PriorityError::Weight { selector: kind, priority: 1e-320 }));
}

#[test]
fn without_replacement_every_slot_is_sampled_once_per_epoch() {
    let mut selector = WithoutReplacement::default();
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(8);
    let add = |selector: &mut WithoutReplacement, slot| {
        let rank = selector.admit(None, 1.0).unwrap();
        assert!(selector.insert(slot, rank));
    };
    (0..50).for_each(|slot| add(&mut selector, slot));
    for _epoch in 0..3 {
        let mut seen: Vec<_> = (0..50).map(|_| selector.pick(&mut rng).unwrap().slot).collect();
        seen.sort_unstable();
        assert_eq!(seen, (0..50).collect::<Vec<_>>());
        assert_eq!(selector.remaining(), 0);
    }
    // In the middle of an epoch, some picked and some unpicked slots are removed, and new ones are inserted.
    let picked: Vec<_> = (0..25).map(|_| selector.pick(&mut rng).unwrap().slot).collect();
    let mut left: Vec<_> = (0..50).filter(|slot| !picked.contains(slot)).collect();
    assert!(selector.remove(picked[0]) && selector.remove(picked[24]));
    assert!(selector.remove(left.remove(3)) && selector.remove(left.remove(17)));
    add(&mut selector, 90);
    add(&mut selector, picked[0]);
    left.extend([90, picked[0]]);
    assert_eq!(selector.remaining(), left.len());
    let mut rest: Vec<_> = (0..left.len()).map(|_| selector.pick(&mut rng).unwrap().slot).collect();
    rest.sort_unstable();
    left.sort_unstable();
    assert_eq!(rest, left);
    // The last pick of an epoch is certain; after it, all slots can be picked again.
    assert_eq!(selector.remaining(), 0);
    assert_eq!(selector.pick(&mut rng).unwrap().probability, 1.0 / selector.len() as f64);
}
