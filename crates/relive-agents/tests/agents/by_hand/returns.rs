//! Distributions of returns over atoms.

use super::numbers::{log_softmax, mean};

/// Evenly spaced atoms.
#[derive(Clone, Copy)]
pub(crate) struct Atoms {
    least: f64,
    most: f64,
    count: usize,
}

impl Atoms {
    pub(crate) fn new([least, most]: [f32; 2], count: usize) -> Atoms {
        Atoms { least: least.into(), most: most.into(), count }
    }

    #[expect(clippy::cast_precision_loss, reason = "atoms are few")]
    fn places(self) -> Vec<f64> {
        let apart = (self.most - self.least) / (self.count - 1) as f64;
        (0..self.count).map(|atom| self.least + atom as f64 * apart).collect()
    }

    /// Returns the mean of a distribution, from its logits.
    pub(crate) fn mean(self, logits: &[f64]) -> f64 {
        log_softmax(logits).iter().zip(self.places()).map(|(log_p, place)| log_p.exp() * place).sum()
    }

    /// Returns the distribution of r + γ·Z, projected onto the atoms (Bellemare et al. 2017, equation 7): each atom
    /// gets a share of the mass within one atom's distance.
    pub(crate) fn projected(self, reward: f64, discount: f64, masses: &[f64]) -> Vec<f64> {
        let places = self.places();
        let apart = places[1] - places[0];
        let share = |place: f64, atom: f64| {
            let moved = (reward + discount * place).clamp(self.least, self.most);
            (1.0 - (moved - atom).abs() / apart).max(0.0)
        };
        let into =
            |atom: &f64| places.iter().zip(masses).map(|(place, mass)| mass * share(*place, *atom)).sum();
        places.iter().map(into).collect()
    }
}

/// Returns −Σ p·ln q.
pub(crate) fn cross_entropy(target: &[f64], logits: &[f64]) -> f64 {
    -target.iter().zip(log_softmax(logits)).map(|(p, log_q)| p * log_q).sum::<f64>()
}

/// How a critic represents returns.
#[derive(Clone, Copy)]
pub(crate) enum Returns {
    Value,
    Distribution(Atoms),
}

impl Returns {
    pub(crate) fn outputs(self) -> usize {
        match self {
            Returns::Value => 1,
            Returns::Distribution(atoms) => atoms.count,
        }
    }

    pub(crate) fn mean(self, outputs: &[f64]) -> f64 {
        match self {
            Returns::Value => outputs[0],
            Returns::Distribution(atoms) => atoms.mean(outputs),
        }
    }

    /// Returns the target of the critic, from its outputs for one next action, or for several.
    pub(crate) fn target(self, reward: f64, discount: f64, next: &[Vec<f64>]) -> Vec<f64> {
        match self {
            Returns::Value => vec![reward + discount * mean(next.iter().map(|outputs| outputs[0]))],
            Returns::Distribution(atoms) => {
                let all: Vec<Vec<f64>> = next.iter().map(|logits| log_softmax(logits)).collect();
                let mixed: Vec<f64> =
                    (0..atoms.count).map(|atom| mean(all.iter().map(|logs| logs[atom].exp()))).collect();
                atoms.projected(reward, discount, &mixed)
            }
        }
    }

    pub(crate) fn loss(self, outputs: &[f64], target: &[f64]) -> f64 {
        match self {
            Returns::Value => 0.5 * (target[0] - outputs[0]).powi(2),
            Returns::Distribution(_) => cross_entropy(target, outputs),
        }
    }
}
