//! One function per rule.

use relive_tensor::{DType, Nest};

use super::Violation;
use super::observer::{ObservedStep, Observer};
use crate::buffer::Action;
use crate::buffer::Buffer;
use crate::environment::Environment;
use crate::error::EnvError;
use crate::spec::ArraySpec;
use crate::timestep::StepType;

/// The number of steps, which is enough for several episodes of most environments.
const STEPS: usize = 600;

pub(super) fn episodes_are_sequences<E: Environment>(make: &impl Fn() -> E) -> Result<(), Violation> {
    let mut observer = Observer::new(make(), 1)?;
    let mut before = observer.reset()?.step;
    for _ in 0..STEPS {
        let after = observer.step()?.step;
        let expected_first = before.last();
        let rule = if expected_first {
            "a step after LAST returns FIRST"
        } else {
            "MID and LAST follow FIRST and MID"
        };
        Violation::unless(after.first() == expected_first, rule, format_args!("{after:?} after {before:?}"))?;
        before = after;
    }
    Ok(())
}

pub(super) fn a_step_before_the_first_reset_is_one<E: Environment>(
    make: &impl Fn() -> E,
) -> Result<(), Violation> {
    let reset = Observer::new(make(), 2)?.reset()?;
    let stepped = Observer::new(make(), 2)?.step()?;
    Violation::unless(
        reset == stepped,
        "a step before the first reset is a reset",
        format_args!("{:?}", stepped.step),
    )
}

pub(super) fn a_reset_is_possible_at_any_time<E: Environment>(
    make: &impl Fn() -> E,
) -> Result<(), Violation> {
    let mut observer = Observer::new(make(), 3)?;
    observer.reset()?;
    observer.reset()?;
    observer.step()?;
    observer.reset()?;
    let next = observer.step()?.step;
    Violation::unless(!next.first(), "a step after a reset returns MID or LAST", format_args!("{next:?}"))
}

pub(super) fn the_same_seed_gives_the_same_trajectory<E: Environment>(
    make: &impl Fn() -> E,
) -> Result<(), Violation> {
    let (mut one, mut other) = (Observer::new(make(), 4)?, Observer::new(make(), 4)?);
    let mut bystander = Observer::new(make(), 5)?;
    for index in 0..STEPS {
        let (a, _, b) = (one.step()?, bystander.step()?, other.step()?);
        same("the same seed and actions give the same trajectory", index, &a, &b)?;
    }
    Ok(())
}

pub(super) fn observations_are_written_whole<E: Environment>(make: &impl Fn() -> E) -> Result<(), Violation> {
    let (mut one, mut other) = (Observer::new(make(), 6)?, Observer::new(make(), 6)?);
    for index in 0..STEPS {
        one.fill_with(0);
        other.fill_with(1);
        same("every byte of an observation is written", index, &one.step()?, &other.step()?)?;
    }
    Ok(())
}

pub(super) fn what_the_spec_forbids_is_refused<E: Environment>(
    make: &impl Fn() -> E,
) -> Result<(), Violation> {
    const RULE: &str = "an action that the spec forbids is refused and changes nothing";
    let (mut tried, mut untried) = (Observer::new(make(), 7)?, Observer::new(make(), 7)?);
    tried.reset()?;
    untried.reset()?;
    let nothing = Buffer::for_nest(&Nest::None, 1).map_err(|error| Violation::new(RULE, error))?;
    let mut wrong = vec![Action::Nest(nothing.view())];
    match &tried.environment.spec().actions {
        Nest::Leaf(spec) => match spec.num_values() {
            Some(count) => {
                wrong.extend([-1, i64::from(count), i64::MAX].map(Action::Discrete));
                wrong.push(Action::Continuous(&[0.0]));
            }
            None => wrong.extend([Action::Discrete(0), Action::Continuous(&[])]),
        },
        _ => wrong.push(Action::Discrete(0)),
    }
    for action in wrong {
        let answer = tried.environment.step(action, tried.observation.view_mut());
        let refused = matches!(answer, Err(EnvError::Action(_)));
        Violation::unless(refused, RULE, format_args!("{action:?} returned {answer:?}"))?;
    }
    for index in 0..STEPS / 10 {
        same(RULE, index, &tried.step()?, &untried.step()?)?;
    }
    Ok(())
}

pub(super) fn other_memory_is_refused<E: Environment>(make: &impl Fn() -> E) -> Result<(), Violation> {
    const RULE: &str = "memory with the wrong layout for the observation is refused";
    let mut environment = make();
    let unlike = Nest::List(vec![Nest::Leaf(ArraySpec::new("", DType::UInt16, [3])); 2]);
    let longer = environment.spec().observations.map(|spec| {
        let dims: Vec<u32> = [2].into_iter().chain(spec.shape.dims().iter().copied()).collect();
        ArraySpec::new("", spec.dtype, dims.as_slice())
    });
    for nest in [unlike, longer] {
        if nest.is_empty() {
            continue;
        }
        let mut buffer = Buffer::for_nest(&nest, 1).map_err(|error| Violation::new(RULE, error))?;
        let answer = environment.reset(buffer.view_mut());
        Violation::unless(matches!(answer, Err(EnvError::Observation(_))), RULE, format_args!("{answer:?}"))?;
    }
    Ok(())
}

pub(super) fn saved_state_is_all_there_is<E: Environment>(make: &impl Fn() -> E) -> Result<(), Violation> {
    const RULE: &str = "a restored environment continues like the saved one";
    let mut saved = Observer::new(make(), 8)?;
    for _ in 0..STEPS / 6 {
        saved.step()?;
    }
    let Some(state) = saved.environment.save() else { return Ok(()) };
    let mut restored = Observer::new(make(), 9)?;
    restored.environment.restore(&state).map_err(|error| Violation::new(RULE, error))?;
    restored.observation.copy_from(&saved.observation).map_err(|error| Violation::new(RULE, error))?;
    restored.follow(&saved);
    for index in 0..STEPS / 2 {
        same(RULE, index, &saved.step()?, &restored.step()?)?;
    }
    let refused = state.split_last().map(|(_, short)| restored.environment.restore(short));
    let refused = matches!(refused, None | Some(Err(EnvError::State(_))));
    Violation::unless(refused, "truncated state is refused", format_args!("{} bytes", state.len()))
}

fn same(rule: &'static str, index: usize, one: &ObservedStep, other: &ObservedStep) -> Result<(), Violation> {
    let bits =
        |seen: &ObservedStep| (seen.step.step_type, seen.step.reward.to_bits(), seen.step.discount.to_bits());
    let same = bits(one) == bits(other) && one.observation == other.observation;
    let what = if one.step == other.step { "observation" } else { "answer" };
    let types: [StepType; 2] = [one.step.step_type, other.step.step_type];
    Violation::unless(same, rule, format_args!("step {index}: another {what} ({types:?})"))
}
