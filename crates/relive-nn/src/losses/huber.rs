/// Huber's function (1964): ½x² up to κ, straight beyond. With an infinite κ, half the square everywhere.
pub fn huber(x: f32, kappa: f32) -> f32 {
    let size = x.abs();
    if size <= kappa { 0.5 * x * x } else { kappa * (size - 0.5 * kappa) }
}

/// Its derivative: x, at most κ long.
pub fn huber_slope(x: f32, kappa: f32) -> f32 {
    x.clamp(-kappa, kappa)
}
