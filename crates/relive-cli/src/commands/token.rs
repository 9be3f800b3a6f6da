//! `relive token`: creates a token, and its line for the server.

use clap::Args;
use rand::TryRng as _;
use rand::rngs::SysRng;
use relive_server::access::{Role, token_line};

use crate::failure::{Failure, Kind, Result};
use crate::output;
use crate::security::role;

/// The number of random bytes in a token: too many to guess.
const TOKEN_BYTES: usize = 32;

/// Options of `relive token`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Name of the token's owner, shown in errors and logs
    #[arg(value_name = "NAME")]
    name: String,
    /// What the token permits: read (sample and inspect), write (also insert and set priorities) or admin (everything)
    #[arg(value_name = "ROLE", value_parser = role)]
    role: Role,
}

/// Prints the token for the client, and its line for the server's file.
pub(crate) fn run(options: &Options) -> Result {
    let token = random()?;
    let line = token_line(&options.name, options.role, &token);
    let line = line.map_err(|error| Failure::usage(format!("invalid name {:?}: {error}", options.name)))?;
    output::line(&format!("token: {token}"))?;
    output::line(&format!("line:  {line}"))?;
    Ok(())
}

/// Returns a random token.
pub(super) fn random() -> Result<String> {
    let mut bytes = [0; TOKEN_BYTES];
    SysRng.try_fill_bytes(&mut bytes).map_err(|error| Failure::text(Kind::Runtime, error))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
