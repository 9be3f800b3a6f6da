use crate::kernels::wide;

/// The number of lanes in sums. With lanes, sums are vectorized and still the same on every processor.
const LANES: usize = 32;

/// Returns the norm of the whole gradient, ‖g‖₂.
pub fn global_norm(gradient: &[f32]) -> f32 {
    let mut sums = [0.0_f32; LANES];
    wide(|| {
        let chunks = gradient.chunks_exact(LANES);
        let rest = chunks.remainder();
        for chunk in chunks {
            sums.iter_mut().zip(chunk).for_each(|(sum, g)| *sum += g * g);
        }
        sums.iter_mut().zip(rest).for_each(|(sum, g)| *sum += g * g);
    });
    sums.iter().sum::<f32>().sqrt()
}

/// Scales the whole gradient down to a norm of at most `max_norm`: `g·min(1, c/‖g‖)` (Pascanu et al. 2013). Returns the
/// previous norm.
pub fn clip_by_global_norm(gradient: &mut [f32], max_norm: f32) -> f32 {
    let norm = global_norm(gradient);
    let factor = clip_factor(norm, max_norm);
    wide(|| gradient.iter_mut().for_each(|g| *g *= factor));
    norm
}

/// Returns min(1, c/‖g‖), or 1 for a gradient of zeros.
pub(super) fn clip_factor(norm: f32, max_norm: f32) -> f32 {
    if norm > max_norm { max_norm / norm } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gradient_norm_covers_all_leaves() {
        // Two leaves with norms 3 and 4: each alone is below 4.5, but their joint norm is 5.
        let mut gradient = vec![0.0; 100];
        (gradient[3], gradient[99]) = (3.0, 4.0);
        assert_eq!(clip_by_global_norm(&mut gradient, 4.5), 5.0);
        assert!((gradient[3] - 2.7).abs() < 1e-6 && (gradient[99] - 3.6).abs() < 1e-6);
        assert!((clip_by_global_norm(&mut gradient, 4.5) - 4.5).abs() < 1e-6);
    }
}
