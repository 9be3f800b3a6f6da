//! Trains an agent in an environment, both of your choice. The arguments are `AGENT ENVIRONMENT STEPS SEED ACTORS
//! NAME=VALUE…`: the steps of the environment, the seed, the number of actors (0: the learner's thread acts), and the
//! agent's settings. For example:
//! `cargo run --release -p relive-agents --example train -- dqn catch/0 9000 1 0 batch_size=64`.

use relive_rl::plan::MakeEnvironment;
use relive_rl::run::{Report, RunOptions, train};

#[expect(clippy::print_stdout, reason = "an example")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let agent = arguments.next().unwrap_or_else(|| "dqn".to_owned());
    let environment = arguments.next().unwrap_or_else(|| "catch/0".to_owned());
    let mut number = |default| arguments.next().map_or(Ok(default), |text| text.parse::<u64>());
    let (env_steps, seed, actors) = (number(9_000)?, number(1)?, usize::try_from(number(0)?)?);
    let preset = relive_agents::preset(&agent, &environment)?;
    let mut settings: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&preset)?;
    for pair in arguments {
        let (name, value) = pair.split_once('=').ok_or("a setting is NAME=VALUE")?;
        let value = serde_json::from_str(value).unwrap_or_else(|_| value.into());
        settings.insert(name.to_owned(), value);
    }
    let agent = relive_agents::from_json(&agent, &serde_json::Value::Object(settings).to_string())?;
    let name = environment.clone();
    let make = MakeEnvironment::new(move |seed| Ok(relive_env::make(&name, seed)?));
    let options = RunOptions { environment, env_steps, seed, actors, ..RunOptions::default() };
    let mut recent = Vec::new();
    let trained = train(&agent, &options, &make, &mut |report| {
        let Report::Actor(episode) = report else { return };
        recent.push(episode.episode_return);
        if recent.len() == 100 {
            println!("mean of 100: {:.3}", recent.drain(..).sum::<f64>() / 100.0);
        }
    })?;
    println!("{}, seed {seed}, {actors} actors: {:?}", agent.name(), trained.summary);
    Ok(())
}
