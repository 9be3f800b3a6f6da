//! Workers on a Ray cluster, which Relive's Python package starts.

use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr};
use std::process::Command;

use relive_cluster::launch::{Job, Restart, Task};

use crate::failure::{Failure, Kind, Result};

/// The variable with the path of a Python interpreter that has Ray and Relive.
const PYTHON_VARIABLE: &str = "RELIVE_PYTHON";

/// Prints the address of this machine in the cluster.
const PROBE: &str = "import relive.ray, ray; print(ray.util.get_node_ip_address())";

/// Returns the address for the run's tables: a free port of this machine, at its address in the Ray cluster.
///
/// # Errors
/// No Python with Ray and Relive was found.
pub(super) fn address() -> Result<SocketAddr> {
    let python = python();
    let refused = |reason: &str| {
        let python = python.display();
        let text = format!(
            "--on ray requires Python with Ray and Relive's package (pip install ray): {python} reports: \
             {reason}; the variable {PYTHON_VARIABLE} selects another Python"
        );
        Failure::text(Kind::Usage, text)
    };
    let output = Command::new(&python).args(["-c", PROBE]).output();
    let output = output.map_err(|error| refused(&error.to_string()))?;
    let [stdout, stderr] =
        [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let last = |text: &str| text.trim().lines().last().unwrap_or("nothing").to_owned();
    if !output.status.success() {
        return Err(refused(&last(&stderr)));
    }
    let address: IpAddr = last(&stdout).parse().map_err(|_| refused(&last(&stdout)))?;
    Ok(SocketAddr::new(address, 0))
}

/// Returns the process that starts Ray actors as workers of the run at an address.
pub(super) fn job(actors: usize, address: &str, token: Option<String>) -> std::io::Result<Job> {
    let python = python();
    let refused = || std::io::Error::other(format!("{} is not UTF-8", python.display()));
    let python = python.to_str().ok_or_else(refused)?;
    let command =
        [python, "-m", "relive.ray", "--supervised", "--join", address, "--actors", &actors.to_string()];
    // The process that is started here restarts workers itself. If it fails, it would fail again after a restart.
    let restart = Restart { most: 0, ..Restart::default() };
    Ok(Job { token, restart, ..Job::new("run", [Task::one("ray", command)]) })
}

fn python() -> OsString {
    std::env::var_os(PYTHON_VARIABLE).unwrap_or_else(|| "python3".into())
}
