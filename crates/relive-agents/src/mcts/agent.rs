//! The plan.

use relive_flow::Flow;
use relive_rl::plan::{Crew, Learn, Progress};
use relive_rl::{Agent, Policy, PolicyContext, Result, RlError, settings_of};
use relive_table::TableConfig;

use super::learner::MctsLearner;
use super::policy::{MctsPolicy, extras};
use super::{MctsConfig, MctsModel};
use crate::actions::Discrete;

impl Agent for MctsConfig {
    fn name(&self) -> &'static str {
        "mcts"
    }

    fn settings(&self) -> Vec<(String, String)> {
        settings_of(self)
    }

    fn validate(&self) -> Result<()> {
        MctsConfig::validate(self)
    }

    fn environments(&self, workers: usize) -> usize {
        self.num_envs.max(workers)
    }

    fn tables(&self) -> Result<Vec<TableConfig>> {
        Ok(vec![self.off_policy().table()?])
    }

    fn steps_per_item(&self) -> Option<usize> {
        Some(1)
    }

    fn policy(&self, context: &PolicyContext<'_>) -> Result<Box<dyn Policy>> {
        Ok(Box::new(MctsPolicy::new(self, context)?))
    }

    fn plan(&self, crew: &Crew) -> Result<Flow<Progress>> {
        if let Some(data) = crew.data() {
            let expected =
                "none for mcts, which learns from the policies of its searches; recordings do not have these";
            return Err(RlError::setting("data", data.display(), expected));
        }
        let extras = extras(Discrete::expect(crew.spec())?);
        if self.model == MctsModel::Simulator {
            crew.expect_saved_states(
                "an environment that can save its state, because the agent searches in it (all native \
                 environments can; model = \"learned\" does not need this)",
            )?;
        }
        let (learner, off_policy) = (crew.learner(MctsLearner::new(self, crew)?)?, self.off_policy());
        off_policy.plan_with_extras(crew, off_policy.batches(crew)?.learn(learner), extras)
    }
}
