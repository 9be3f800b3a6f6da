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

/// Returns min(1, c/‖g‖), the factor that scales the whole gradient down to a norm of at most `max_norm` (Pascanu et al.
/// 2013); 1 for a gradient of zeros.
pub(super) fn clip_factor(norm: f32, max_norm: f32) -> f32 {
    if norm > max_norm { max_norm / norm } else { 1.0 }
}
