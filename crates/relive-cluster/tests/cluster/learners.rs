//! Several learners: each has a part of the batch, and all reach the weights of a single learner with the whole batch.
#![expect(
    clippy::unwrap_used,
    clippy::cast_precision_loss,
    reason = "a failed test is one that ends, and rows are few"
)]

use relive_cluster::reduce::{Meeting, Reduction, Ring, RingOptions};

const ROWS: usize = 32;
const INPUTS: usize = 6;

fn input(row: usize) -> [f32; INPUTS] {
    std::array::from_fn(|n| ((row * INPUTS + n) as f32).sin())
}

/// Solves least squares by gradient descent with momentum, from the rows whose number modulo the number of ranks is
/// this rank. Returns the final weights.
fn learn(ring: &Ring) -> Vec<f32> {
    // All learners except the first begin with useless weights.
    let mut first = bytemuck::cast_slice(&[0.1 + ring.rank() as f32; INPUTS]).to_vec();
    ring.broadcast(&mut first).unwrap();
    let mut weights = bytemuck::pod_collect_to_vec::<u8, f32>(&first);
    let mut momentum = [0.0; INPUTS];
    for step in 0..30 {
        let own = (0..ROWS).filter(|row| row % ring.ranks() as usize == ring.rank() as usize);
        let rows: Vec<usize> = own.map(|row| row + step * ROWS).collect();
        let mut gradient = [0.0; INPUTS];
        for row in &rows {
            let value: f32 = input(*row).iter().zip(&weights).map(|(x, w)| x * w).sum();
            let by_value = 2.0 * (value - (*row as f32).cos()) / rows.len() as f32;
            gradient.iter_mut().zip(input(*row)).for_each(|(by_weight, x)| *by_weight += by_value * x);
        }
        ring.all_reduce(&mut gradient, Reduction::Mean).unwrap();
        for ((weight, m), g) in weights.iter_mut().zip(&mut momentum).zip(gradient) {
            *m = 0.9 * *m + g;
            *weight -= 0.05 * *m;
        }
    }
    ring.leave();
    weights
}

#[test]
fn training_on_parts_of_a_batch_matches_the_whole_batch() {
    let alone = learn(&Ring::alone());
    for ranks in [2, 4] {
        let options = RingOptions { ranks, ..RingOptions::default() };
        let meeting = Meeting::open("127.0.0.1:0", options.clone()).unwrap();
        let address = meeting.address().to_string();
        let others: Vec<_> = (1..ranks)
            .map(|rank| {
                let (address, options) = (address.clone(), options.clone());
                std::thread::spawn(move || learn(&Ring::join(&address, rank, options).unwrap()))
            })
            .collect();
        let first = learn(&meeting.ring(|| Ok(())).unwrap());
        for other in others {
            // Bit for bit.
            assert_eq!(other.join().unwrap(), first);
        }
        for (index, (shared, whole)) in first.iter().zip(&alone).enumerate() {
            assert!(
                (shared - whole).abs() <= 1e-4,
                "{ranks} learners, weight {index}: {shared}, alone {whole}"
            );
        }
    }
}
