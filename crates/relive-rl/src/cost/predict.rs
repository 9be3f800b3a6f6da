//! Predicts the speed of a run.

use std::time::Duration;

use serde::Serialize;

use super::Costs;
use crate::limits::publishing_pause;
use crate::{Result, RlError};

/// The number of bisection steps in the search for the rate, which is far more than a float64 has binary digits.
const HALVINGS: u32 = 200;

/// The machines for a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Cluster {
    /// The number of machines, including the learner's.
    pub nodes: usize,
    /// The number of workers, which are distributed evenly over the machines; the learner's machine has the smaller
    /// share.
    pub workers: usize,
    /// The number of environments of all workers.
    pub environments: usize,
    /// The number of processors per machine.
    pub processors: f64,
    /// The network bandwidth of the learner's machine, in both directions together, in bytes per second.
    pub network_bytes_per_s: f64,
}

/// The predicted rates of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Prediction {
    /// Environment steps per second, over all workers.
    pub env_steps_per_s: f64,
    /// Learner steps per second.
    pub learner_steps_per_s: f64,
    /// The rates of the agent's tables.
    pub tables: Vec<TableRate>,
    /// The experience sent to the learner's machine, including by the workers on that machine, in bytes per second.
    pub sent_bytes_per_s: f64,
    /// The weights sent from the learner's machine to workers, in bytes per second.
    pub weights_bytes_per_s: f64,
    /// The number of busy processors, on all machines.
    pub busy_processors: f64,
    /// The utilization of each resource, highest first.
    pub uses: Vec<Use>,
}

/// The rates of a table.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TableRate {
    /// The name of the table.
    pub name: String,
    /// Items inserted per second.
    pub inserts_per_s: f64,
    /// Bytes inserted per second.
    pub bytes_per_s: f64,
    /// Items sampled per second.
    pub samples_per_s: f64,
}

/// The utilization of a resource.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Use {
    /// The name of the resource.
    pub what: &'static str,
    /// The fraction in use, from 0 to 1.
    pub share: f64,
}

impl Prediction {
    /// Returns the bottleneck: the resource that limits the speed of the run.
    #[must_use]
    pub fn bottleneck(&self) -> &'static str {
        self.uses.first().map_or("", |first| first.what)
    }
}

impl Cluster {
    fn validate(&self) -> Result<()> {
        let positive = "a number above 0";
        if self.nodes == 0 {
            return Err(RlError::setting("nodes", 0, "at least 1, the learner's machine"));
        }
        if self.workers == 0 {
            return Err(RlError::setting("actors", 0, "at least 1"));
        }
        if self.environments < self.workers {
            let expected = format!("at least {}, one for each actor", self.workers);
            return Err(RlError::setting("envs", self.environments, expected));
        }
        if !(self.processors.is_finite() && self.processors > 0.0) {
            return Err(RlError::setting("cpus", self.processors, positive));
        }
        if !(self.network_bytes_per_s.is_finite() && self.network_bytes_per_s > 0.0) {
            return Err(RlError::setting("network", self.network_bytes_per_s, positive));
        }
        Ok(())
    }
}

impl Costs {
    /// Predicts the speed of the run on a cluster of machines like the measured one: the highest rate at
    /// which no resource is used beyond its capacity.
    ///
    /// # Errors
    /// The cluster is invalid.
    pub fn predict(&self, cluster: &Cluster) -> Result<Prediction> {
        cluster.validate()?;
        let model = Model::new(self, cluster);
        let (mut low, mut high) = (0.0, model.most());
        for _ in 0..HALVINGS {
            let rate = f64::midpoint(low, high);
            let is_possible = model.uses(rate).iter().all(|used| used.share <= 1.0);
            (low, high) = if is_possible { (rate, high) } else { (low, rate) };
        }
        let mut uses = model.uses(low);
        uses.sort_by(|one, other| other.share.total_cmp(&one.share));
        let of_table = |table: &super::TableCost| TableRate {
            name: table.name.clone(),
            inserts_per_s: low * table.inserts,
            bytes_per_s: low * table.inserts * table.item_bytes,
            samples_per_s: low * table.samples,
        };
        Ok(Prediction {
            env_steps_per_s: low,
            learner_steps_per_s: low * self.learner_steps,
            tables: self.tables.iter().map(of_table).collect(),
            sent_bytes_per_s: low * self.sent_bytes,
            busy_processors: model.busy(low),
            weights_bytes_per_s: model.workers * model.fetched(low) * self.weights.bytes,
            uses,
        })
    }
}

/// The costs of a run, and the cluster for which the run is predicted.
struct Model<'a> {
    costs: &'a Costs,
    cluster: Cluster,
    workers: f64,
    /// The numbers of workers on the learner's machine, on all other machines together, and on the fullest of these
    /// other machines.
    near: f64,
    far: f64,
    fullest: f64,
    /// Processor time per environment step of a worker's acting thread, and of all its threads.
    thread_s: f64,
    worker_s: f64,
}

impl Model<'_> {
    #[expect(clippy::cast_precision_loss, reason = "clusters are small")]
    fn new<'a>(costs: &'a Costs, cluster: &Cluster) -> Model<'a> {
        let Cluster { nodes, workers, environments, .. } = *cluster;
        let near = workers / nodes;
        let far = workers - near;
        let fullest = if nodes > 1 { far.div_ceil(nodes - 1) } else { 0 };
        let thread_s = costs.act_s(environments as f64 / workers as f64) + costs.send_s;
        let [workers, near, far, fullest] = [workers, near, far, fullest].map(|count| count as f64);
        let worker_s = thread_s + costs.connection_s;
        Model { costs, cluster: *cluster, workers, near, far, fullest, thread_s, worker_s }
    }

    /// Returns the steps per second of a worker that nothing else slows down.
    fn of_worker(&self) -> f64 {
        1.0 / (self.thread_s + self.costs.pause_s).max(f64::MIN_POSITIVE)
    }

    /// Returns an upper bound on steps per second: the lower of the rate of all workers and the rate of the learner's
    /// thread.
    fn most(&self) -> f64 {
        (self.workers * self.of_worker()).min(1.0 / self.costs.learner_s.max(1e-12))
    }

    /// Returns how many versions per second a worker fetches at the given rate of steps.
    fn fetched(&self, rate: f64) -> f64 {
        let weights = &self.costs.weights;
        weights.fetched * self.published(rate)
    }

    /// Returns the number of versions published per second.
    fn published(&self, rate: f64) -> f64 {
        // The publishing thread pauses after each version, and checks for new weights at intervals.
        let took = self.costs.weights.publish_s;
        let pause = publishing_pause(Duration::try_from_secs_f64(took).unwrap_or(Duration::MAX));
        let most = 1.0 / (took + pause.as_secs_f64());
        let of_learner = match self.costs.round {
            // One version per round: workers fetch no others.
            Some(_) => rate / self.round(),
            None => rate * self.costs.learner_steps,
        };
        of_learner.min(most)
    }

    /// Returns the number of steps per round. Each environment takes as many steps in a round as in the measurement.
    #[expect(clippy::cast_precision_loss, reason = "a run has few environments")]
    fn round(&self) -> f64 {
        let steps = self.costs.round.unwrap_or_default() / self.costs.rows as f64;
        steps * self.cluster.environments as f64
    }

    /// Returns the number of busy processors at `rate` steps per second.
    fn busy(&self, rate: f64) -> f64 {
        let weights = &self.costs.weights;
        rate * (self.worker_s + self.costs.learner_s + self.costs.serve_s)
            + self.published(rate) * weights.publish_s
            + self.workers * self.fetched(rate) * (weights.serve_s + weights.fetch_s)
    }

    /// Returns the utilization of each resource at the given rate of steps per second.
    fn uses(&self, rate: f64) -> Vec<Use> {
        let (costs, cluster) = (self.costs, &self.cluster);
        let fetched = self.fetched(rate);
        let of_far = self.far * self.of_worker();
        let far_processors = (cluster.processors - self.fullest * fetched * costs.weights.fetch_s).max(0.0);
        // All machines are equally fast, so the machine with the most workers is the limit.
        let of_far_processors = self.far / self.fullest.max(1.0) * far_processors / self.worker_s;
        let most_far = of_far.min(of_far_processors);
        let far = rate.min(most_far);
        let near_processors =
            self.busy(rate) - far * self.worker_s - self.far * fetched * costs.weights.fetch_s;
        let network = far * costs.sent_bytes + self.far * fetched * costs.weights.bytes;
        let used = |what, share| Use { what, share };
        let mut uses = vec![
            used("the workers", rate / (most_far + self.near * self.of_worker())),
            used("the learner thread", rate * costs.learner_s),
            used("the processors of the learner's machine", near_processors / cluster.processors),
        ];
        if cluster.nodes > 1 {
            uses.push(used("the network of the learner's machine", network / cluster.network_bytes_per_s));
        }
        if costs.round.is_some() {
            uses.push(used(
                "synchronous rounds, in which workers and learner wait for each other",
                rate * self.round_s() / self.round(),
            ));
        }
        uses
    }

    /// Returns the duration of a round: the slowest machine acts, then the learner learns.
    fn round_s(&self) -> f64 {
        let part = self.round() / self.workers;
        let acting = |workers: f64| {
            let in_turn = workers * part * self.worker_s / self.cluster.processors;
            if workers > 0.0 { in_turn.max(part * self.thread_s) } else { 0.0 }
        };
        let learning = self.round() * (self.costs.learner_s + self.costs.serve_s);
        acting(self.near).max(acting(self.fullest)) + learning + self.costs.round_pause_s
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ActCost, TableCost, WeightCost};
    use super::*;

    /// Acting takes 80 µs plus 10 µs for each environment; sending takes 10 µs, learning 50 µs.
    fn costs() -> Costs {
        Costs {
            version: Costs::VERSION,
            agent: "none".to_owned(),
            environment: "catch/0".to_owned(),
            settings: std::collections::BTreeMap::new(),
            host: "here".to_owned(),
            processors: 2.0,
            rows: 1,
            acting: [(1, 90e-6), (11, 190e-6)]
                .map(|(rows, act_s)| ActCost { rows, act_s, step_s: 0.0 })
                .to_vec(),
            send_s: 10e-6,
            connection_s: 0.0,
            pause_s: 0.0,
            learner_s: 50e-6,
            serve_s: 0.0,
            learner_steps: 0.5,
            round: None,
            round_pause_s: 0.0,
            tables: tables(8.0),
            sent_bytes: 100.0,
            weights: WeightCost { bytes: 1e6, publish_s: 0.0, fetch_s: 0.0, serve_s: 0.0, fetched: 0.0 },
        }
    }

    fn tables(samples: f64) -> Vec<TableCost> {
        vec![TableCost { name: "replay".to_owned(), inserts: 1.0, samples, item_bytes: 100.0 }]
    }

    fn cluster(nodes: usize, workers: usize) -> Cluster {
        Cluster { nodes, workers, environments: workers, processors: 2.0, network_bytes_per_s: 1e9 }
    }

    fn assert_rate(costs: &Costs, cluster: Cluster, rate: f64, bottleneck: &str) -> Prediction {
        let predicted = costs.predict(&cluster).unwrap();
        assert!((predicted.env_steps_per_s / rate - 1.0).abs() < 1e-9, "{predicted:?}, not {rate}");
        assert!(predicted.bottleneck().contains(bottleneck), "{predicted:?}, not {bottleneck}");
        assert!(
            (predicted.uses[0].share - 1.0).abs() < 1e-9
                && predicted.uses.iter().all(|used| used.share <= 1.0)
        );
        predicted
    }

    #[test]
    fn the_first_exhausted_resource_is_the_bottleneck() {
        let costs = costs();
        let predicted = assert_rate(&costs, cluster(1, 1), 10_000.0, "the workers");
        let replay = &predicted.tables[0];
        assert_eq!(
            (predicted.learner_steps_per_s * 2.0, replay.samples_per_s),
            (replay.inserts_per_s, 8.0 * replay.inserts_per_s)
        );
        assert_eq!((replay.bytes_per_s, predicted.weights_bytes_per_s), (predicted.sent_bytes_per_s, 0.0));
        // Two processors share 150 µs of work per step.
        let predicted =
            assert_rate(&costs, cluster(1, 4), 2.0 / 150e-6, "the processors of the learner's machine");
        assert!((predicted.busy_processors - 2.0).abs() < 1e-9, "{predicted:?}");
        // On other machines, workers have their own processors.
        assert_rate(&costs, cluster(64, 128), 20_000.0, "the learner thread");
        // The learner's machine runs one of three workers, and has enough processor time for it.
        assert_rate(
            &costs,
            Cluster { processors: 1.0, ..cluster(2, 3) },
            (1.0 + 100e-6 / 100e-6) / 150e-6,
            "processors",
        );
        let narrow = Cluster { network_bytes_per_s: 1e6, ..cluster(64, 64) };
        let (near, far) = (5_000.0_f64, 10_000.0);
        let predicted = costs.predict(&narrow).unwrap();
        assert!(
            predicted.bottleneck().contains("network") && predicted.env_steps_per_s <= near + far,
            "{predicted:?}"
        );
    }

    #[test]
    fn environments_of_one_worker_share_fixed_costs() {
        let costs = costs();
        for (rows, expected) in [(1.0, 90e-6), (6.0, 140e-6 / 6.0), (21.0, 290e-6 / 21.0)] {
            assert!((costs.act_s(rows) - expected).abs() < 1e-15, "{rows}: {}", costs.act_s(rows));
        }
        let slow = Costs { learner_s: 0.0, ..costs };
        let many = Cluster { environments: 21, ..cluster(1, 1) };
        assert_rate(&slow, many, 1.0 / (290e-6 / 21.0 + 10e-6), "the workers");
    }

    #[test]
    fn predicted_rounds_include_workers_and_learner() {
        let rounds = Costs { round: Some(100.0), round_pause_s: 0.001, ..costs() };
        // 100 steps: 10 ms of acting, 5 ms of learning, and a message.
        assert_rate(&rounds, cluster(1, 1), 100.0 / 0.016, "rounds");
        assert_rate(&rounds, cluster(1, 2), 200.0 / 0.021, "rounds");
        // Four workers on two processors take turns.
        assert_rate(&rounds, cluster(1, 4), 400.0 / 0.041, "rounds");
    }

    #[test]
    fn large_weights_make_the_network_the_bottleneck() {
        let weights = WeightCost { bytes: 10e6, fetched: 1.0, ..costs().weights };
        let costs = Costs { weights, ..costs() };
        let predicted = costs.predict(&cluster(64, 64)).unwrap();
        assert!(predicted.bottleneck().contains("network"), "{predicted:?}");
        assert!(predicted.weights_bytes_per_s > 9e8, "{predicted:?}");
    }

    #[test]
    fn invalid_clusters_are_refused() {
        let good = cluster(1, 2);
        for (bad, named) in [
            (Cluster { nodes: 0, ..good }, "nodes is 0"),
            (Cluster { workers: 0, ..good }, "actors is 0"),
            (Cluster { environments: 1, ..good }, "envs is 1"),
            (Cluster { processors: 0.0, ..good }, "cpus is 0"),
            (Cluster { network_bytes_per_s: f64::NAN, ..good }, "network is NaN"),
        ] {
            let error = costs().predict(&bad).unwrap_err().to_string();
            assert!(error.contains(named), "{error}");
        }
    }

    #[test]
    fn costs_round_trip_through_a_file_and_damaged_files_are_refused() {
        let (folder, costs) = (tempfile::tempdir().unwrap(), costs());
        let path = folder.path().join("costs.json");
        costs.save(&path).unwrap();
        assert_eq!(Costs::load(&path).unwrap(), costs);
        let missing = Costs::load(folder.path().join("none")).unwrap_err().to_string();
        assert!(missing.contains("none"), "{missing}");
        for (bad, named) in [
            (Costs { version: 9, ..costs.clone() }, "version 9"),
            (Costs { acting: Vec::new(), ..costs.clone() }, "`acting`"),
            (Costs { tables: tables(-1.0), ..costs.clone() }, "`tables.samples` is -1"),
            (
                Costs { tables: [tables(1.0), tables(2.0)].concat(), ..costs.clone() },
                "two tables of the same name",
            ),
            (Costs { learner_s: -1.0, ..costs.clone() }, "`learner_s` is -1"),
        ] {
            bad.save(&path).unwrap();
            let error = Costs::load(&path).unwrap_err().to_string();
            assert!(error.contains(named), "{error}");
        }
        assert!(Costs::from_json("{}").unwrap_err().to_string().contains("missing field"));
    }
}
