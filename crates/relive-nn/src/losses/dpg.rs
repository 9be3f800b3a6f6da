use super::rows::count;

/// How the gradient of the critic with respect to an action is clipped.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum DpgClip {
    /// No clipping.
    None,
    /// Clips the norm of each sample's gradient to this value.
    Norm(f32),
    /// Clips each component to ± this value.
    Elements(f32),
}

/// Returns the deterministic policy gradient (Silver et al. 2014) as a loss of actions: ½‖sg(g + a) − a‖² with g =
/// ∂Q/∂a, so that the gradient with respect to an action is −g.
///
/// `dqda` has the shape `[batch, dimensions]`. Returns the losses of the samples; `by_actions` receives the gradient of
/// their *mean*.
///
/// # Panics
/// If the numbers of gradients and actions differ, or actions have no dimensions.
pub fn deterministic_policy_gradient(
    dqda: &[f32],
    dimensions: usize,
    clip: DpgClip,
    by_actions: &mut [f32],
) -> Vec<f32> {
    assert_eq!(dqda.len(), by_actions.len(), "a gradient for each action");
    assert!(dimensions > 0, "actions of no dimensions");
    let batch = count(dqda.len() / dimensions);
    let rows = dqda.chunks_exact(dimensions).zip(by_actions.chunks_exact_mut(dimensions));
    rows.map(|(dqda, by_action)| {
        let bounded = bound(clip, dqda);
        let mut loss = 0.0;
        for (by_action, g) in by_action.iter_mut().zip(dqda.iter().map(bounded)) {
            loss += 0.5 * g * g;
            *by_action = -g / batch;
        }
        loss
    })
    .collect()
}

fn bound(clip: DpgClip, dqda: &[f32]) -> impl Fn(&f32) -> f32 + use<> {
    let norm = dqda.iter().map(|g| g * g).sum::<f32>().sqrt();
    move |g| match clip {
        DpgClip::None => *g,
        DpgClip::Norm(max) if norm > max => g * max / norm,
        DpgClip::Norm(_) => *g,
        DpgClip::Elements(max) => g.clamp(-max, max),
    }
}
