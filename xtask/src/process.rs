//! Runs other programs.

use std::num::NonZero;
use std::process::Command;
use std::thread;

use anyhow::{Context, Result, bail};

/// Prints the command, runs it in this terminal, and returns an error if it fails.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let line = describe(command);
    println!("$ {line}");
    let status = command.status().with_context(|| format!("could not start `{line}`"))?;
    if !status.success() {
        bail!("`{line}` ended with {status}");
    }
    Ok(())
}

/// Returns the same `cargo` that started this program.
pub(crate) fn cargo() -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    hide_package(&mut command);
    command
}

/// Removes the variables that `cargo run` sets for the package xtask, which would invalidate other builds.
pub(crate) fn hide_package(command: &mut Command) {
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_package_variable(name)) {
        command.env_remove(name);
    }
}

fn is_package_variable(name: &std::ffi::OsStr) -> bool {
    name.to_str().is_some_and(|name| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_"))
}

/// Returns the command as a person would type it, with the variables that it sets.
fn describe(command: &Command) -> String {
    let variables = command.get_envs().filter_map(|(name, value)| {
        value.map(|value| format!("{}={} ", name.to_string_lossy(), quoted(&value.to_string_lossy())))
    });
    let program = std::path::Path::new(command.get_program());
    let name = program.file_name().unwrap_or(program.as_os_str()).to_string_lossy().into_owned();
    let arguments = command.get_args().map(|argument| format!(" {}", quoted(&argument.to_string_lossy())));
    variables.chain([name]).chain(arguments).collect()
}

fn quoted(text: &str) -> String {
    if text.contains(char::is_whitespace) { format!("'{text}'") } else { text.to_owned() }
}

/// Returns the number of threads that run at the same time on this machine.
pub(crate) fn processors() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// Returns the target triple of this machine.
pub(crate) fn host() -> Result<String> {
    let output = Command::new("rustc").arg("-vV").output().context("rustc cannot be run")?;
    let text = String::from_utf8(output.stdout)?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).context("rustc does not say which machine this is")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_described_command_can_be_entered() {
        let mut command = Command::new("/usr/bin/cargo");
        command.args(["test", "--cfg x"]).env("RUSTFLAGS", "-D warnings");
        assert_eq!(describe(&command), "RUSTFLAGS='-D warnings' cargo test '--cfg x'");
    }

    #[test]
    fn a_failing_command_is_named_in_the_error() {
        let error = run(Command::new("false").arg("now")).unwrap_err();
        assert_eq!(error.to_string(), "`false now` ended with exit status: 1");
        let error = run(&mut Command::new("no-such-program")).unwrap_err();
        assert_eq!(error.to_string(), "could not start `no-such-program`");
    }
}
