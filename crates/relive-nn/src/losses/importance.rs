/// Weights of prioritised samples (Schaul et al. 2016): `(1/pᵢ)^β`, divided by the largest of the batch.
pub fn importance_weights(probabilities: &[f32], exponent: f32) -> Vec<f32> {
    let mut weights: Vec<f32> = probabilities.iter().map(|p| p.recip().powf(exponent)).collect();
    let largest = weights.iter().fold(0.0_f32, |max, weight| max.max(*weight));
    weights.iter_mut().for_each(|weight| *weight /= largest);
    weights
}
