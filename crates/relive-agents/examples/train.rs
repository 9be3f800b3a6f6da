//! An agent in an environment of your choice: `cargo run --release -p relive-agents --example train -- dqn catch/0 9000 1 0`.

use std::sync::Arc;

use relive_rl::plan::MakeEnvironment;
use relive_rl::run::{RunOptions, train};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let agent = arguments.next().unwrap_or_else(|| "dqn".to_owned());
    let environment = arguments.next().unwrap_or_else(|| "catch/0".to_owned());
    let mut number = |default| arguments.next().map_or(Ok(default), |text| text.parse::<u64>());
    let (env_steps, seed, actors) = (number(9_000)?, number(1)?, usize::try_from(number(0)?)?);
    let agent = relive_agents::from_json(&agent, &relive_agents::preset(&agent, &environment)?)?;
    let name = environment.clone();
    let make: MakeEnvironment = Arc::new(move |seed| Ok(relive_env::make(&name, seed)?));
    let options = RunOptions { environment, env_steps, seed, actors, ..RunOptions::default() };
    let trained = train(&agent, &options, &make, &mut |_| {})?;
    #[expect(clippy::print_stdout, reason = "an example")]
    {
        println!("{}, seed {seed}, {actors} actors: {:?}", agent.name(), trained.summary);
    }
    Ok(())
}
