//! Losses and targets of empty batches and sequences, slices that do not match, and V-trace with λ < 1.

use std::panic::{AssertUnwindSafe, catch_unwind};

use relive_nn::losses::{
    BatchLoss, DpgClip, Munchausen, RetraceSequence, Selected, Support, VTraceClip,
    categorical_double_q_targets, categorical_loss, categorical_targets, deterministic_policy_gradient,
    double_q_targets, generalized_advantages, implicit_quantile_loss, importance_weights, munchausen_targets,
    n_step_returns, off_policy_returns, q_loss, quantile_loss, quantile_targets, retrace_errors,
    sequence_priority, transformed_n_step_targets, vtrace,
};

use crate::common::assert_close;

const NONE: [f32; 0] = [];

#[test]
fn targets_of_zero_rows_are_empty() {
    let support = Support::new(-1.0, 1.0, 3);
    assert_eq!(double_q_targets(&[], &[], &[], &[]), NONE);
    assert_eq!(categorical_targets(support, &[], &[], &[]), NONE);
    assert_eq!(categorical_double_q_targets(support, &[], &[], &[], &[]), NONE);
    assert_eq!(quantile_targets(&[], &[], 3, &[], &[]), NONE);
    assert_eq!(munchausen_targets(Munchausen::default(), (&[], &[]), &[], &[], &[]), NONE);
    assert_eq!(importance_weights(&[], 0.6), NONE);
}

#[test]
fn losses_of_zero_rows_are_zero() {
    let support = Support::new(-1.0, 1.0, 3);
    let selected = Selected { actions: &[], weights: &[] };
    let nothing = BatchLoss { loss: 0.0, rows: Vec::new() };
    assert_eq!(q_loss(&[], selected, &[], 1.0, &mut []), nothing);
    assert_eq!(categorical_loss(support, &[], selected, &[], &mut []), nothing);
    assert_eq!(quantile_loss(&[], selected, &[], 1.0, &mut []), nothing);
    assert_eq!(deterministic_policy_gradient(&[], 2, DpgClip::None, &mut []), NONE);
}

#[test]
fn sequences_without_transitions_return_nothing() {
    assert_eq!(generalized_advantages(&[3.0], &[], &[], 0.9), NONE);
    assert_eq!(vtrace(&[3.0], &[], &[], &[], VTraceClip::default()).errors, NONE);
    assert_eq!(n_step_returns(&[], &[], &[], 3), NONE);
    assert_eq!(off_policy_returns(&[], &[], &[], &[], &[]), NONE);
    let sequence = RetraceSequence {
        q_tm1: &[],
        q_t: &[],
        a_tm1: &[],
        a_t: &[],
        rewards: &[],
        discounts: &[],
        pi_t: &[],
        mu_t: &[],
    };
    assert_eq!(retrace_errors(sequence, 0.9), NONE);
    assert_eq!(transformed_n_step_targets(&[], &[], &[], &[], 5), NONE);
    assert_eq!(sequence_priority(&[], 0.9), 0.0);
}

fn assert_panics<T>(name: &str, function: impl FnOnce() -> T) {
    assert!(catch_unwind(AssertUnwindSafe(function)).is_err(), "{name} accepts them");
}

/// Two rows with two actions each: action 2 of the first row would be action 0 of the second.
#[test]
fn actions_out_of_range_are_refused() {
    let support = Support::new(-1.0, 1.0, 2);
    let selected = Selected { actions: &[2, 0], weights: &[1.0, 1.0] };
    let (values, targets) = ([0.0; 8], [0.5; 4]);
    let by = &mut [0.0; 8];
    assert_panics("q_loss", || q_loss(&values[..4], selected, &targets[..2], 1.0, &mut by[..4]));
    assert_panics("categorical_loss", || categorical_loss(support, &values, selected, &targets, by));
    assert_panics("quantile_loss", || quantile_loss(&values, selected, &targets, 1.0, by));
    assert_panics("implicit_quantile_loss", || {
        implicit_quantile_loss(&values, &[0.25, 0.75, 0.25, 0.75], selected, &targets, 1.0, by)
    });
}

#[test]
fn slices_of_different_batches_are_refused() {
    let support = Support::new(-1.0, 1.0, 2);
    let (two, five, values) = ([1.0; 2], [1.0; 5], [1.0; 8]);
    let selected = Selected { actions: &[0, 0], weights: &two };
    assert_panics("double_q_targets", || double_q_targets(&two, &two, &five, &five));
    assert_panics("q_loss", || q_loss(&five, selected, &two, 1.0, &mut [0.0; 5]));
    assert_panics("categorical_targets", || categorical_targets(support, &two, &[1.0], &values[..4]));
    assert_panics("categorical_double_q_targets", || {
        categorical_double_q_targets(support, &two, &two, &values[..6], &values[..6])
    });
    assert_panics("categorical_loss", || {
        categorical_loss(support, &values[..6], selected, &values[..4], &mut [0.0; 6])
    });
    assert_panics("quantile_targets", || quantile_targets(&two, &[1.0], 2, &values, &values));
    assert_panics("quantile_loss", || quantile_loss(&values, selected, &five, 1.0, &mut [0.0; 8]));
    assert_panics("munchausen_targets", || {
        munchausen_targets(Munchausen::default(), (&two, &[1.0]), &[0, 0], &values, &values)
    });
    assert_panics("transformed_n_step_targets", || {
        transformed_n_step_targets(&values, &values, &two, &two, 1)
    });
}

#[test]
fn returns_over_more_steps_than_there_are_extend_to_the_end() {
    let (rewards, discounts, values) = ([1.0, 2.0, 3.0], [0.5; 3], [8.0; 3]);
    let whole = n_step_returns(&rewards, &discounts, &values, 3);
    assert_eq!(n_step_returns(&rewards, &discounts, &values, usize::MAX), whole);
}

/// Without off-policy correction, V-trace with λ is generalized advantage estimation.
#[test]
fn on_policy_v_trace_is_generalized_advantage_estimation() {
    let values = [0.4, -1.2, 0.7, 2.0, -0.3];
    let (rewards, discounts) = ([1.0, -0.5, 0.25, 2.0], [0.99, 0.9, 0.0, 0.95]);
    for lambda in [0.0, 0.5, 0.95, 1.0] {
        let clip = VTraceClip { lambda, ..VTraceClip::default() };
        let found = vtrace(&values, &rewards, &discounts, &[1.0; 4], clip);
        let expected = generalized_advantages(&values, &rewards, &discounts, lambda);
        assert_close("advantages", &found.pg_advantages, &expected, 1e-6);
    }
}

/// The numbers follow from rlax's definition, computed by hand with exact fractions.
#[test]
fn v_trace_mixes_the_bootstrap_by_lambda() {
    let clip = VTraceClip { lambda: 0.5, ..VTraceClip::default() };
    let found = vtrace(&[1.0, 2.0, 4.0], &[1.0, 1.0], &[0.5, 0.5], &[0.5, 2.0], clip);
    // vs − V: 1 · (1 + 2 − 2) = 1, then 0.5 · (1 + 1 − 1) + 0.5 · 0.5 · 0.5 · 1 = 0.625.
    assert_close("errors", &found.errors, &[0.625, 1.0], 1e-6);
    // 1 + 0.5 · (0.5 · 3 + 0.5 · 2) = 2.25, and 1 + 0.5 · 4 = 3.
    assert_close("q", &found.q_estimates, &[2.25, 3.0], 1e-6);
    assert_close("advantages", &found.pg_advantages, &[0.625, 1.0], 1e-6);
}
