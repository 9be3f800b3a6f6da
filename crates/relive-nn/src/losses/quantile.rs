use super::rows::{argmax, count, width};
use super::value::{BatchLoss, Selected};
use super::{huber, huber_slope};

/// Computes `r + γd·θ(s', a*)`, where a* has the largest mean: `[batch, quantiles]`. `values` is `[batch, actions,
/// quantiles]`; `selector` is `[batch, actions]` with any number of quantiles for each action.
///
/// # Panics
/// If the slices do not belong to the same batch, or there are no quantiles.
pub fn quantile_targets(
    rewards: &[f32],
    discounts: &[f32],
    quantiles: usize,
    values: &[f32],
    selector: &[f32],
) -> Vec<f32> {
    assert_eq!(rewards.len(), discounts.len(), "rewards and discounts must have the same length");
    if rewards.is_empty() {
        return Vec::new();
    }
    let batch = rewards.len();
    let (width, wide) = (width(values.len(), batch), width(selector.len(), batch));
    let samples = wide * quantiles / width;
    assert!(
        width.is_multiple_of(quantiles) && samples * width == wide * quantiles,
        "values and selector must be for the same actions"
    );
    let rows = values.chunks_exact(width).zip(selector.chunks_exact(wide));
    let mut targets = Vec::with_capacity(batch * quantiles);
    for ((r, d), (values, selector)) in rewards.iter().zip(discounts).zip(rows) {
        let means: Vec<f32> = selector.chunks_exact(samples).map(|row| row.iter().sum()).collect();
        let begin = argmax(&means) * quantiles;
        targets.extend(values[begin..begin + quantiles].iter().map(|value| r + d * value));
    }
    targets
}

/// Computes QR-DQN's loss (Dabney et al. 2018, eq. 10) and its gradient with respect to the quantiles: `mean wᵢ·Σ_i
/// mean_j |τ_i − 1[δ_ij < 0]|·Huber(δ_ij)/κ` with `δ_ij = target_j − θ_i`, where the τ_i are the midpoints of N equal
/// parts.
///
/// `theta` and `by_theta` are `[batch, actions, N]`, `targets` `[batch, N]`. `by_theta` is overwritten.
///
/// # Panics
/// If the slices do not belong to the same batch, or an action is out of range.
pub fn quantile_loss(
    theta: &[f32],
    selected: Selected<'_>,
    targets: &[f32],
    kappa: f32,
    by_theta: &mut [f32],
) -> BatchLoss {
    let quantiles = width(targets.len(), selected.len());
    let middles = (0..quantiles).map(|index| (count(index) + 0.5) / count(quantiles));
    let middles: Vec<f32> = middles.collect();
    implicit_quantile_loss(theta, &middles.repeat(selected.len()), selected, targets, kappa, by_theta)
}

/// Computes IQN's loss (Dabney et al. 2018, "Implicit quantile networks", eq. 3): the loss of [`quantile_loss`] for
/// quantiles at the fractions `taus`, drawn for each row.
///
/// `theta` and `by_theta` are `[batch, actions, N]`, `taus` `[batch, N]`, `targets` `[batch, M]`. `by_theta` is
/// overwritten.
///
/// # Panics
/// Same as [`quantile_loss`].
pub fn implicit_quantile_loss(
    theta: &[f32],
    taus: &[f32],
    selected: Selected<'_>,
    targets: &[f32],
    kappa: f32,
    by_theta: &mut [f32],
) -> BatchLoss {
    let batch = selected.len();
    assert_eq!(theta.len(), by_theta.len(), "a gradient for each quantile");
    by_theta.fill(0.0);
    let mut result = BatchLoss { loss: 0.0, rows: Vec::with_capacity(batch) };
    if batch == 0 {
        return result;
    }
    let (width, quantiles, samples) =
        (width(theta.len(), batch), width(taus.len(), batch), width(targets.len(), batch));
    assert!(width.is_multiple_of(quantiles), "quantiles are [batch, actions, N]");
    let rows = targets.chunks_exact(samples).zip(taus.chunks_exact(quantiles));
    for (row, (targets, taus)) in rows.enumerate() {
        let place = selected.place(row, width, quantiles);
        let scale = selected.weights[row] / count(batch);
        let loss = row_loss((&theta[place.clone()], taus), targets, kappa, scale, &mut by_theta[place]);
        result.loss += scale * loss;
        result.rows.push(loss);
    }
    result
}

fn row_loss(
    (theta, taus): (&[f32], &[f32]),
    targets: &[f32],
    kappa: f32,
    scale: f32,
    by_theta: &mut [f32],
) -> f32 {
    let norm = 1.0 / (kappa * count(targets.len()));
    let mut loss = 0.0;
    for ((theta, tau), by_theta) in theta.iter().zip(taus).zip(by_theta) {
        for target in targets {
            let error = target - theta;
            let weight = norm * if error < 0.0 { 1.0 - tau } else { *tau };
            loss += weight * huber(error, kappa);
            *by_theta -= scale * weight * huber_slope(error, kappa);
        }
    }
    loss
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loss_with_drawn_fractions_matches_a_hand_computation() {
        // One row with two actions, the second of which was taken, and with two fractions and three targets.
        let theta = [9.0, 9.0, 1.0, 2.0];
        let (taus, targets) = ([0.25, 0.9], [0.0, 1.5, 4.0]);
        let selected = Selected { actions: &[1], weights: &[2.0] };
        let mut by = [7.0; 4];
        let found = implicit_quantile_loss(&theta, &taus, selected, &targets, 1.0, &mut by);
        // θ = 1: errors −1, 0.5, 3; Huber 0.5, 0.125, 2.5; weights .75, .25, .25; slopes −1, 0.5, 1.
        // θ = 2: errors −2, −0.5, 2; Huber 1.5, 0.125, 1.5; weights .1, .1, .9; slopes −1, −0.5, 1.
        let rows = [
            (0.75 * 0.5 + 0.25 * 0.125 + 0.25 * 2.5, -0.75 + 0.25 * 0.5 + 0.25),
            (0.1 * 1.5 + 0.1 * 0.125 + 0.9 * 1.5, -0.1 - 0.1 * 0.5 + 0.9),
        ];
        let expected: f32 = rows.iter().map(|(loss, _)| loss / 3.0).sum();
        assert!(
            (found.rows[0] - expected).abs() < 1e-6 && (found.loss - 2.0 * expected).abs() < 1e-6,
            "{found:?}"
        );
        let slopes = rows.map(|(_, slope)| -2.0 * slope / 3.0);
        assert_eq!(&by[..2], [0.0, 0.0]);
        assert!(by[2..].iter().zip(slopes).all(|(got, want)| (got - want).abs() < 1e-6), "{by:?} {slopes:?}");
    }

    #[test]
    fn the_next_action_can_be_chosen_by_any_number_of_quantiles() {
        let selector = [0.0, 0.0, 9.0, 1.0, 2.0, 3.0];
        let targets = quantile_targets(&[1.0], &[0.5], 2, &[1.0, 2.0, 3.0, 4.0], &selector);
        assert_eq!(targets, [1.5, 2.0], "the first, whose quantiles sum up to 9");
    }
}
