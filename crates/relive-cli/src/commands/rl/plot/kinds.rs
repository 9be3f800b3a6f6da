//! Kinds of runs: runs of one kind differ only in their seeds.

use serde_json::Value;

use crate::commands::rl::runs::About;

/// Names the kind of each run by its differences from the other runs, except for seeds.
pub(super) fn names<'a>(runs: impl IntoIterator<Item = &'a About>) -> Vec<String> {
    let runs: Vec<&About> = runs.into_iter().collect();
    runs.iter().map(|about| name(about, &runs) + &different_settings(about, &runs)).collect()
}

/// Names the agent, the environment and the number of actors, as far as the runs differ in them.
fn name(about: &About, runs: &[&About]) -> String {
    let agents = runs.iter().any(|other| other.agent != about.agent);
    let environments = runs.iter().any(|other| other.environment != about.environment);
    let actors = runs.iter().any(|other| other.actors != about.actors);
    let name = match (agents, environments) {
        (true, true) => format!("{} in {}", about.agent, about.environment),
        (true, false) => about.agent.clone(),
        (false, _) => about.environment.clone(),
    };
    match about.actors {
        _ if !actors => name,
        0 => name + ", one thread",
        1 => name + ", 1 actor",
        actors => format!("{name}, {actors} actors"),
    }
}

/// Lists the settings in which other runs of the same agent in the same environment differ. Settings may also depend on
/// the environment, which tells such runs apart.
fn different_settings(about: &About, runs: &[&About]) -> String {
    let same = |other: &&&About| {
        (&other.agent, &other.environment, other.actors) == (&about.agent, &about.environment, about.actors)
    };
    let differs = |name: &String, value: &Value| {
        runs.iter().filter(same).any(|other| other.settings.get(name).is_some_and(|there| there != value))
    };
    let settings = about.settings.iter().filter(|(name, value)| differs(name, value));
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    settings.map(|(name, value)| format!(", {name} {}", text(value))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn dqn(environment: &str, seed: u64, settings: &[(&str, Value)]) -> About {
        let settings = settings.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
        About {
            agent: "dqn".to_owned(),
            environment: environment.to_owned(),
            seed,
            actors: 0,
            settings: settings.collect(),
        }
    }

    #[test]
    fn seeds_are_of_one_kind() {
        let settings = [("learning_rate", json!(0.001))];
        let runs = [dqn("catch/0", 1, &settings), dqn("catch/0", 2, &settings), dqn("catch/0", 3, &[])];
        assert_eq!(names(&runs), ["catch/0"; 3]);
    }

    #[test]
    fn runs_with_different_settings_are_not_seeds_of_each_other() {
        let runs = [
            dqn(
                "catch/0",
                1,
                &[("learning_rate", json!(0.001)), ("loss", json!("huber")), ("n_step", json!(1))],
            ),
            dqn(
                "catch/0",
                1,
                &[("learning_rate", json!(0.1)), ("loss", json!("square")), ("n_step", json!(1))],
            ),
        ];
        let expected =
            ["catch/0, learning_rate 0.001, loss huber", "catch/0, learning_rate 0.1, loss square"];
        assert_eq!(names(&runs), expected);
    }

    #[test]
    fn settings_that_the_environment_determines_are_not_repeated() {
        let runs =
            [dqn("catch/0", 1, &[("hidden", json!([50]))]), dqn("bandit/0", 1, &[("hidden", json!([8]))])];
        assert_eq!(names(&runs), ["catch/0", "bandit/0"]);
    }
}
