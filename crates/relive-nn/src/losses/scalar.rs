//! Scalar functions that losses use.

/// Returns the Huber function (1964): ½x² up to κ, and linear beyond. With an infinite κ, it is ½x² everywhere.
pub fn huber(x: f32, kappa: f32) -> f32 {
    let size = x.abs();
    if size <= kappa { 0.5 * x * x } else { kappa * (size - 0.5 * kappa) }
}

/// Returns the derivative of [`huber`]: x, clipped to ±κ.
pub fn huber_slope(x: f32, kappa: f32) -> f32 {
    x.clamp(-kappa, kappa)
}

/// Compresses large values: `h(x) = sign(x)(√(|x|+1) − 1) + εx` (Pohlen et al. 2018).
#[expect(clippy::cast_possible_truncation, reason = "back to what values are in")]
pub fn rescale(x: f32, epsilon: f32) -> f32 {
    let (x, epsilon) = (f64::from(x), f64::from(epsilon));
    let size = x.abs();
    // (√(s+1) − 1) = s/(√(s+1) + 1), which avoids cancellation near zero.
    (x / ((size + 1.0).sqrt() + 1.0) + epsilon * x) as f32
}

/// Returns the inverse of [`rescale`]: `sign(x)(((√(1+4ε(|x|+1+ε)) − 1)/2ε)² − 1)`, accurate to f32 even near zero.
#[expect(clippy::cast_possible_truncation, reason = "back to what values are in")]
pub fn unscale(x: f32, epsilon: f32) -> f32 {
    let (size, epsilon) = (f64::from(x).abs(), f64::from(epsilon));
    // The root u of εu² + u − (size + 1 + ε) = 0, in a form that avoids cancellation; the result is u² − 1.
    let root = 2.0 * (size + 1.0 + epsilon) / ((1.0 + 4.0 * epsilon * (size + 1.0 + epsilon)).sqrt() + 1.0);
    ((root * root - 1.0) as f32).copysign(x)
}
