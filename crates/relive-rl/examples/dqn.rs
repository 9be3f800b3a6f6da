//! DQN in an environment of your choice: `cargo run --release -p relive-rl --example dqn -- catch/0 9000 1 0`.

use relive_rl::dqn::DqnConfig;
use relive_rl::experiment::{RunOptions, train};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_else(|| "catch/0".to_owned());
    let mut number = |default| arguments.next().map_or(Ok(default), |text| text.parse::<u64>());
    let (env_steps, seed, actors) = (number(9_000)?, number(1)?, number(0)?);
    let options = RunOptions { env_steps, seed, actors: usize::try_from(actors)?, ..RunOptions::default() };
    let config = DqnConfig::default();
    let trained = train(&config, &options, &|seed| Ok(relive_env::make(&name, seed)?), &mut |_| {})?;
    let RunOptions { seed, actors, .. } = options;
    #[expect(clippy::print_stdout, reason = "an example")]
    {
        println!("{name}, seed {seed}, {actors} actors: {:?}", trained.summary);
    }
    Ok(())
}
