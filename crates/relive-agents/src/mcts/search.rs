//! The search.

use relive_nn::Stream;
use relive_nn::losses::greedy;
use relive_rl::Result;

use super::model::Model;
use super::noise::dirichlet;

/// The settings of a search.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules {
    pub(super) simulations: usize,
    pub(super) discount: f32,
    pub(super) exploration: f32,
    pub(super) noise_share: f32,
    pub(super) noise_alpha: f32,
}

/// Evaluates an observation: writes the prior probability of each action, and returns the value.
pub(super) trait Evaluate {
    fn evaluate(&mut self, observation: &[f32], prior: &mut Vec<f32>) -> f32;
}

/// The search tree of one observation, in reused memory. The first node is the root.
#[derive(Debug, Default)]
pub(super) struct Search {
    nodes: Vec<Node>,
    /// The path of a simulation: nodes, starting at the root, and the actions between them.
    path: Vec<usize>,
    taken: Vec<usize>,
    scores: Vec<f32>,
    prior: Vec<f32>,
    observation: Vec<f32>,
}

/// The consequence of an action.
#[derive(Debug, Clone, Copy, Default)]
struct Node {
    prior: f32,
    visits: f32,
    /// The sum of all returns that start at this node, including the reward of the step that leads here.
    total: f32,
    reward: f32,
    /// The environment's discount of the step that leads here.
    discount: f32,
    /// The first of the child nodes, one for each action; `None` if the node was not expanded.
    children: Option<usize>,
    is_terminal: bool,
}

impl Search {
    /// Searches from the model's current state, given its observation. Returns false if the episode is already over in
    /// this state.
    ///
    /// A simulation follows the actions with the greatest `Q + c·P·√N/(n + 1)`, with ties broken at random, until it
    /// reaches a new node.
    pub(super) fn run<M: Model>(
        &mut self,
        rules: &Rules,
        model: &mut M,
        evaluator: &mut impl Evaluate,
        (observation, stream): (&[f32], &mut Stream),
    ) -> Result<bool> {
        self.nodes.clear();
        self.nodes.push(Node::default());
        evaluator.evaluate(observation, &mut self.prior);
        if rules.noise_share > 0.0 {
            let noise = dirichlet(self.prior.len(), rules.noise_alpha, stream);
            let mixed = self.prior.iter_mut().zip(noise);
            mixed.for_each(|(prior, noise)| *prior += rules.noise_share * (noise - *prior));
        }
        self.observation.resize(observation.len(), 0.0);
        self.expand(0);
        let root = model.save()?;
        for _ in 0..rules.simulations {
            let leaf = self.descend(rules.exploration, stream);
            let value = match self.nodes[leaf].is_terminal {
                true => Some(0.0),
                false => {
                    let value = self.expand_leaf(leaf, model, evaluator)?;
                    model.restore(&root)?;
                    value
                }
            };
            let Some(value) = value else { return Ok(false) };
            self.back_up(value, rules.discount);
        }
        Ok(true)
    }

    /// Returns the share of the search's visits that each action of the root received.
    pub(super) fn policy(&self) -> impl Iterator<Item = f32> {
        let children = self.children(0);
        let all: f32 = children.iter().map(|child| child.visits).sum();
        children.iter().map(move |child| child.visits / all)
    }

    fn children(&self, node: usize) -> &[Node] {
        let first = self.nodes[node].children.unwrap_or(self.nodes.len());
        &self.nodes[first..(first + self.prior.len()).min(self.nodes.len())]
    }

    /// Creates a node for each action, with its prior.
    fn expand(&mut self, node: usize) {
        self.nodes[node].children = Some(self.nodes.len());
        self.nodes.extend(self.prior.iter().map(|prior| Node { prior: *prior, ..Node::default() }));
    }

    /// Follows the path to an unexpanded node.
    fn descend(&mut self, exploration: f32, stream: &mut Stream) -> usize {
        let mut node = 0;
        self.path.clear();
        self.taken.clear();
        self.path.push(node);
        while let Some(first) = self.nodes[node].children {
            let spread = exploration * self.nodes[node].visits.sqrt();
            let mut scores = std::mem::take(&mut self.scores);
            scores.clear();
            scores.extend(self.children(node).iter().map(|child| child.score(spread)));
            let action = greedy(&scores, stream);
            self.scores = scores;
            node = first + action;
            self.path.push(node);
            self.taken.push(action);
        }
        node
    }

    /// Evaluates the last node of the path with the model, and expands it unless the episode ends there. Returns its
    /// value, or `None` if an episode started on the path, which means that the root's episode was over.
    fn expand_leaf<M: Model>(
        &mut self,
        leaf: usize,
        model: &mut M,
        evaluator: &mut impl Evaluate,
    ) -> Result<Option<f32>> {
        for action in &self.taken {
            let answer = model.step(*action, &mut self.observation)?;
            if answer.first() {
                return Ok(None);
            }
            let node = &mut self.nodes[leaf];
            #[expect(clippy::cast_possible_truncation, reason = "returns are sums of float32")]
            let (reward, discount) = (answer.reward as f32, answer.discount as f32);
            (node.reward, node.discount, node.is_terminal) = (reward, discount, answer.last());
        }
        let value = match self.nodes[leaf].is_terminal {
            true => 0.0,
            false => evaluator.evaluate(&self.observation, &mut self.prior),
        };
        let node = &mut self.nodes[leaf];
        // A number that is not finite ends the simulation. A worker that actually takes such a step receives the error.
        let is_finite = [value, node.reward, node.discount].iter().all(|number| number.is_finite());
        if !is_finite {
            *node = Node { prior: node.prior, is_terminal: true, ..Node::default() };
            return Ok(Some(0.0));
        }
        if !node.is_terminal {
            self.expand(leaf);
        }
        Ok(Some(value))
    }

    /// Adds the result to all nodes of the path.
    fn back_up(&mut self, value: f32, discount: f32) {
        let mut found = value;
        for node in self.path.iter().rev() {
            let node = &mut self.nodes[*node];
            found = node.reward + discount * node.discount * found;
            node.total += found;
            node.visits += 1.0;
        }
    }
}

impl Node {
    fn score(&self, spread: f32) -> f32 {
        let mean = if self.visits > 0.0 { self.total / self.visits } else { 0.0 };
        mean + spread * self.prior / (self.visits + 1.0)
    }
}

#[cfg(test)]
mod tests {
    use relive_env::{Action, Buffer, Environment};
    use relive_nn::Key;
    use relive_rl::Features;

    use super::super::model::Simulator;
    use super::*;

    /// An evaluator to which all actions are equal.
    struct UniformEvaluator;

    impl Evaluate for UniformEvaluator {
        fn evaluate(&mut self, _: &[f32], prior: &mut Vec<f32>) -> f32 {
            prior.clear();
            prior.resize(3, 1.0 / 3.0);
            0.0
        }
    }

    const RULES: Rules =
        Rules { simulations: 200, discount: 0.99, exploration: 1.0, noise_share: 0.0, noise_alpha: 1.0 };

    #[test]
    fn the_search_finds_the_winning_action_and_restores_the_environment() {
        for seed in 0..20 {
            let mut environment = relive_env::make("catch/0", seed).unwrap();
            let spec = environment.spec().clone();
            let features = Features::of_observations(&spec.observations).unwrap();
            let mut row = Buffer::for_nest(&spec.observations, 1).unwrap();
            environment.reset(row.row_mut(0)).unwrap();
            let mut observation = vec![0.0; features.width()];
            let (mut search, mut stream) = (Search::default(), Key::from_seed(seed).stream());
            let mut reward = 0.0;
            for _ in 0..9 {
                features.write(row.row(0), &mut observation);
                let before = environment.save();
                let mut model =
                    Simulator { environment: &mut environment, features: &features, row: &mut row };
                assert!(
                    search
                        .run(&RULES, &mut model, &mut UniformEvaluator, (&observation, &mut stream))
                        .unwrap()
                );
                assert_eq!(environment.save(), before);
                let policy: Vec<f32> = search.policy().collect();
                assert!((policy.iter().sum::<f32>() - 1.0).abs() < 1e-6);
                let best = i64::try_from(greedy(&policy, &mut stream)).unwrap();
                reward = environment.step(Action::Discrete(best), row.row_mut(0)).unwrap().reward;
            }
            assert!(reward > 0.0, "seed {seed}");
            let mut model = Simulator { environment: &mut environment, features: &features, row: &mut row };
            let is_searched =
                search.run(&RULES, &mut model, &mut UniformEvaluator, (&observation, &mut stream)).unwrap();
            assert!(!is_searched, "the episode is over");
        }
    }

    /// A model with two actions that both end the episode; the second action earns a reward of 1.
    struct Choice;

    impl Model for Choice {
        type State = ();

        fn save(&mut self) -> Result<()> {
            Ok(())
        }

        fn restore(&mut self, (): &()) -> Result<()> {
            Ok(())
        }

        fn step(&mut self, action: usize, _: &mut [f32]) -> Result<relive_env::TimeStep> {
            Ok(relive_env::TimeStep::termination(f64::from(u8::from(action == 1))))
        }
    }

    /// An evaluator that prefers the first action.
    struct FirstActionEvaluator;

    impl Evaluate for FirstActionEvaluator {
        fn evaluate(&mut self, _: &[f32], prior: &mut Vec<f32>) -> f32 {
            prior.clear();
            prior.extend([0.7, 0.3]);
            0.0
        }
    }

    #[test]
    fn visit_counts_match_the_formula() {
        let mut search = Search::default();
        let mut visits = |simulations| {
            let rules = Rules { simulations, ..RULES };
            let mut stream = Key::from_seed(3).stream();
            search.run(&rules, &mut Choice, &mut FirstActionEvaluator, (&[0.0], &mut stream)).unwrap();
            search.children(0).iter().map(|child| child.visits).collect::<Vec<_>>()
        };
        // Initially all scores are 0, and seed 3 draws the first action. Then 0.7·√1/2 exceeds 0.3·√1, but 0.7·√2/3 is
        // less than 0.3·√2: the search tries the second action, whose Q is 1 from then on, until 0.7·√21/3 exceeds 1 +
        // 0.3·√21/20.
        let expected =
            [(1, [1.0, 0.0]), (2, [2.0, 0.0]), (3, [2.0, 1.0]), (21, [2.0, 19.0]), (22, [3.0, 19.0])];
        for (simulations, expected) in expected {
            assert_eq!(visits(simulations), expected, "{simulations}");
        }
    }
}
