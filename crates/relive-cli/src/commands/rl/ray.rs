//! Workers on a cluster of Ray, which Relive's Python package starts.

use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr};
use std::process::Command;

use relive_cluster::launch::{Job, Restart, Task};

use crate::failure::{Failure, Kind, Result};

/// The variable that names the Python with Ray and Relive.
const PYTHON_VARIABLE: &str = "RELIVE_PYTHON";

/// Says by which address the cluster knows this machine.
const PROBE: &str = "import relive.ray, ray; print(ray.util.get_node_ip_address())";

/// Where the run's tables can be served: a free port of this machine, by the address that Ray knows it by.
///
/// # Errors
/// There is no Python with Ray and Relive.
pub(super) fn address() -> Result<SocketAddr> {
    let python = python();
    let refused = |reason: &str| {
        let python = python.display();
        let text = format!(
            "--on ray needs Python with Ray and Relive's package (pip install ray): {python} says: {reason}; the variable {PYTHON_VARIABLE} names another one"
        );
        Failure::text(Kind::Usage, text)
    };
    let output = Command::new(&python).args(["-c", PROBE]).output();
    let output = output.map_err(|error| refused(&error.to_string()))?;
    let [said, complaint] =
        [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let last = |text: &str| text.trim().lines().last().unwrap_or("nothing").to_owned();
    if !output.status.success() {
        return Err(refused(&last(&complaint)));
    }
    let address: IpAddr = last(&said).parse().map_err(|_| refused(&last(&said)))?;
    Ok(SocketAddr::new(address, 0))
}

/// The process that has actors of Ray act for the run at an address.
pub(super) fn job(actors: usize, address: &str, token: Option<String>) -> std::io::Result<Job> {
    let python = python();
    let refused = || std::io::Error::other(format!("{} is not UTF-8", python.display()));
    let python = python.to_str().ok_or_else(refused)?;
    let command =
        [python, "-m", "relive.ray", "--supervised", "--join", address, "--actors", &actors.to_string()];
    // What it starts anew are workers; if it fails itself, it would again.
    let restart = Restart { most: 0, ..Restart::default() };
    Ok(Job { token, restart, ..Job::new("run", [Task::one("ray", command)]) })
}

fn python() -> OsString {
    std::env::var_os(PYTHON_VARIABLE).unwrap_or_else(|| "python3".into())
}
