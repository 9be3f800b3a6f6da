//! The conformance suite detects faulty environments.

#![expect(clippy::unwrap_used, reason = "a failed test is one that ends")]

use relive_env::bsuite::Catch;
use relive_env::conformance::{Violation, check};
use relive_env::{Action, EnvError, Environment, EnvironmentSpec, TimeStep, ViewMut};

#[derive(Clone, Copy, PartialEq)]
enum Fault {
    /// Continues to act after the last step.
    NoReset,
    /// Returns MID for a reset.
    ResetIsMid,
    /// Leaves an element of the observation unwritten.
    HalfWritten,
    /// Writes a number beyond its bounds.
    OutOfBounds,
    /// Takes any action.
    TakesAll,
    /// Has different episodes each time it is created.
    Unseeded,
    /// Omits a field when it is saved.
    HalfSaved,
    /// Returns a discount of 2.
    Discount,
    /// Acts on an action that it rejects.
    RefusesLate,
}

struct Faulty {
    inner: Catch,
    fault: Fault,
    /// Whether the inner environment's episode is over.
    over: bool,
    shift: bool,
}

impl Faulty {
    fn corrupt(&mut self, mut step: TimeStep, observation: &mut ViewMut<'_>, before: f32) -> TimeStep {
        self.over = step.last();
        let cells = observation.leaf_mut::<f32>(0).unwrap();
        match self.fault {
            Fault::HalfWritten => cells[0] = before,
            Fault::OutOfBounds if step.mid() => cells[3] = 1.5,
            Fault::HalfSaved if self.shift => cells[4] = 1.0,
            Fault::Discount if step.mid() => step.discount = 2.0,
            _ => {}
        }
        self.shift |= step.last();
        step
    }
}

impl Environment for Faulty {
    fn spec(&self) -> &EnvironmentSpec {
        self.inner.spec()
    }

    fn reset(&mut self, mut observation: ViewMut<'_>) -> Result<TimeStep, EnvError> {
        let before = observation.leaf_mut::<f32>(0)?[0];
        let step = self.inner.reset(observation.reborrow())?;
        let step = self.corrupt(step, &mut observation, before);
        Ok(if self.fault == Fault::ResetIsMid { TimeStep::transition(0.0) } else { step })
    }

    fn step(&mut self, action: Action<'_>, mut observation: ViewMut<'_>) -> Result<TimeStep, EnvError> {
        let before = observation.leaf_mut::<f32>(0)?[0];
        if self.over && self.fault == Fault::NoReset {
            self.inner.reset(observation.reborrow())?;
        }
        let mut answer = self.inner.step(action, observation.reborrow());
        match (self.fault, &answer) {
            (Fault::TakesAll, Err(EnvError::Action(_))) => answer = Ok(TimeStep::transition(0.0)),
            (Fault::RefusesLate, Err(EnvError::Action(_))) => {
                self.inner.step(Action::Discrete(0), observation.reborrow())?;
            }
            _ => {}
        }
        Ok(self.corrupt(answer?, &mut observation, before))
    }

    fn save(&mut self) -> Option<Vec<u8>> {
        self.inner.save()
    }

    fn restore(&mut self, state: &[u8]) -> Result<(), EnvError> {
        self.inner.restore(state)
    }
}

fn found(fault: Fault) -> Violation {
    let made = std::cell::Cell::new(0);
    let make = |seed: u64| {
        made.set(made.get() + 1);
        let seed = u32::try_from(seed).unwrap() + if fault == Fault::Unseeded { made.get() } else { 0 };
        Faulty { inner: Catch::new(seed), fault, over: true, shift: false }
    };
    check(make).unwrap_err()
}

#[test]
fn every_fault_is_found_by_its_rule() {
    let cases = [
        (Fault::NoReset, "a step after LAST returns FIRST"),
        (Fault::ResetIsMid, "a reset returns FIRST"),
        (Fault::HalfWritten, "every byte of an observation is written"),
        (Fault::OutOfBounds, "observations match their spec"),
        (Fault::TakesAll, "an action that the spec forbids is refused and changes nothing"),
        (Fault::Unseeded, "the same seed and actions give the same trajectory"),
        (Fault::HalfSaved, "a restored environment continues like the saved one"),
        (Fault::Discount, "discounts match their spec, and are in 0..=1"),
        (Fault::RefusesLate, "an action that the spec forbids is refused and changes nothing"),
    ];
    for (fault, rule) in cases {
        let violation = found(fault);
        assert_eq!(violation.rule, rule, "{violation}");
    }
}
