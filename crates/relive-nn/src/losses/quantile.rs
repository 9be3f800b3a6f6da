use super::rows::{argmax, count};
use super::value::{BatchLoss, Selected};
use super::{huber, huber_slope};

/// `r + γd·θ(s', a*)`, a* of the largest mean: [batch, quantiles]. `values` and `selector` are [batch, actions, quantiles].
///
/// # Panics
/// If the slices are not of one batch, or there are no quantiles.
pub fn quantile_targets(
    rewards: &[f32],
    discounts: &[f32],
    quantiles: usize,
    values: &[f32],
    selector: &[f32],
) -> Vec<f32> {
    assert_eq!(values.len(), selector.len(), "values and selector are of one batch");
    if rewards.is_empty() {
        return Vec::new();
    }
    let width = values.len() / rewards.len();
    let rows = values.chunks_exact(width).zip(selector.chunks_exact(width));
    let mut targets = Vec::with_capacity(rewards.len() * quantiles);
    for ((r, d), (values, selector)) in rewards.iter().zip(discounts).zip(rows) {
        let means: Vec<f32> = selector.chunks_exact(quantiles).map(|row| row.iter().sum()).collect();
        let begin = argmax(&means) * quantiles;
        targets.extend(values[begin..begin + quantiles].iter().map(|value| r + d * value));
    }
    targets
}

/// QR-DQN's loss (Dabney et al. 2018, eq. 10): `mean wᵢ·Σ_i mean_j |τ_i − 1[δ_ij < 0]|·Huber(δ_ij)/κ` with `δ_ij = target_j − θ_i` and
/// τ_i the middles of N equal parts, with its gradient by the quantiles.
///
/// `theta` and `by_theta` are [batch, actions, N], `targets` [batch, N]. `by_theta` is overwritten.
///
/// # Panics
/// If the slices are not of one batch, or an action is none of those that there are quantiles of.
pub fn quantile_loss(
    theta: &[f32],
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
    let (width, quantiles) = (theta.len() / batch, targets.len() / batch);
    for (row, targets) in targets.chunks_exact(quantiles).enumerate() {
        let begin = row * width + selected.actions[row] * quantiles;
        let place = begin..begin + quantiles;
        let scale = selected.weights[row] / count(batch);
        let loss = row_loss(&theta[place.clone()], targets, kappa, scale, &mut by_theta[place]);
        result.loss += scale * loss;
        result.rows.push(loss);
    }
    result
}

fn row_loss(theta: &[f32], targets: &[f32], kappa: f32, scale: f32, by_theta: &mut [f32]) -> f32 {
    let norm = 1.0 / (kappa * count(targets.len()));
    let mut loss = 0.0;
    for (index, (theta, by_theta)) in theta.iter().zip(by_theta).enumerate() {
        let tau = (count(index) + 0.5) / count(targets.len());
        for target in targets {
            let error = target - theta;
            let weight = norm * if error < 0.0 { 1.0 - tau } else { tau };
            loss += weight * huber(error, kappa);
            *by_theta -= scale * weight * huber_slope(error, kappa);
        }
    }
    loss
}
