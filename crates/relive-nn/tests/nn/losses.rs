//! Losses and targets of empty batches and sequences, and V-trace with λ < 1.

use relive_nn::losses::{
    BatchLoss, DpgClip, Munchausen, RetraceSequence, Selected, Support, VTraceClip,
    categorical_double_q_targets, categorical_loss, categorical_targets, deterministic_policy_gradient,
    double_q_targets, generalized_advantages, importance_weights, munchausen_targets, n_step_returns,
    off_policy_returns, q_loss, quantile_loss, quantile_targets, retrace_errors, sequence_priority,
    transformed_n_step_targets, vtrace,
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
