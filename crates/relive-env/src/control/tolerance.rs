//! Rewards that fall off gently.

/// 1 at a distance of 0, falling as a normal density does, to 0.1 at the margin.
pub(super) fn gaussian(distance: f64, margin: f64) -> f64 {
    // exp(−½(√(−2·ln 0.1)·d/m)²)
    0.1_f64.powf((distance / margin).powi(2))
}

/// 1 at a distance of 0, falling as a parabola does, to 0 at the margin and beyond.
pub(super) fn quadratic(distance: f64, margin: f64) -> f64 {
    (1.0 - (distance / margin).powi(2)).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rewards_fall_to_what_is_said() {
        assert_eq!((gaussian(0.0, 2.0), quadratic(0.0, 1.0)), (1.0, 1.0));
        assert!((gaussian(2.0, 2.0) - 0.1).abs() < 1e-12 && (gaussian(-2.0, 2.0) - 0.1).abs() < 1e-12);
        assert_eq!((quadratic(0.5, 1.0), quadratic(-1.0, 1.0), quadratic(3.0, 1.0)), (0.75, 0.0, 0.0));
    }
}
