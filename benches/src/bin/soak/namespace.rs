//! A network namespace for the server, with a cable to this namespace that can be unplugged and slowed down.
//!
//! A cable fault is silent: packets are lost, and neither side is notified. A proxy cannot simulate this.

use std::process::{Command, Stdio};

use relive_benches::Outcome;

/// The addresses of the two ends of the cable, from a range that is not routed.
const OURS: &str = "198.18.77.1";
const THEIRS: &str = "198.18.77.2";

/// A namespace and its cable, removed on drop.
pub(crate) struct Namespace {
    name: String,
    /// The name of the cable's end on this side.
    cable: String,
}

/// A fault of the cable.
#[derive(Debug, Clone, Copy)]
pub(crate) enum LinkFault {
    /// The cable is unplugged.
    Cut,
    /// The cable has little bandwidth.
    Narrow,
    /// Packets are delayed, and some are lost, if the kernel supports this.
    Lossy,
}

impl Namespace {
    /// Creates a namespace; requires root, and `ip` and `tc` of iproute2.
    pub(crate) fn make() -> Outcome<Namespace> {
        let id = std::process::id();
        let (name, cable, far) = (format!("relive-soak-{id}"), format!("rs{id}a"), format!("rs{id}b"));
        run(&["ip", "netns", "add", &name])?;
        let namespace = Namespace { name, cable };
        let Namespace { name, cable } = &namespace;
        run(&["ip", "link", "add", cable, "type", "veth", "peer", "name", &far, "netns", name])?;
        run(&["ip", "addr", "add", &format!("{OURS}/30"), "dev", cable])?;
        run(&["ip", "link", "set", cable, "up"])?;
        run(&["ip", "-n", name, "addr", "add", &format!("{THEIRS}/30"), "dev", &far])?;
        run(&["ip", "-n", name, "link", "set", &far, "up"])?;
        run(&["ip", "-n", name, "link", "set", "lo", "up"])?;
        Ok(namespace)
    }

    /// Returns the address on which the server listens.
    pub(crate) fn address() -> &'static str {
        THEIRS
    }

    /// Returns a command that runs a program in the namespace; the caller adds its arguments.
    pub(crate) fn command(&self, program: &std::path::Path) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name]).arg(program);
        command
    }

    /// Causes a fault of the cable; returns whether the kernel supports it.
    pub(crate) fn fault(&self, fault: LinkFault) -> Outcome<bool> {
        let cable = &self.cable;
        let queue = |kind: &[&str]| run(&[&["tc", "qdisc", "replace", "dev", cable, "root"], kind].concat());
        match fault {
            LinkFault::Cut => run(&["ip", "link", "set", cable, "down"]).map(|()| true),
            LinkFault::Narrow => {
                queue(&["tbf", "rate", "8mbit", "burst", "64kbit", "latency", "200ms"]).map(|()| true)
            }
            LinkFault::Lossy => Ok(queue(&["netem", "delay", "20ms", "10ms", "loss", "2%"]).is_ok()),
        }
    }

    /// Repairs the cable.
    pub(crate) fn repair(&self, fault: LinkFault) -> Outcome {
        match fault {
            LinkFault::Cut => run(&["ip", "link", "set", &self.cable, "up"]),
            LinkFault::Narrow | LinkFault::Lossy => run(&["tc", "qdisc", "del", "dev", &self.cable, "root"]),
        }
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // Removing one end removes the cable.
        for words in [["ip", "link", "del", &self.cable], ["ip", "netns", "del", &self.name]] {
            if let Err(error) = run(&words) {
                eprintln!("{error}");
            }
        }
    }
}

fn run(words: &[&str]) -> Outcome {
    let [program, arguments @ ..] = words else { return Ok(()) };
    let line = words.join(" ");
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{line}: {error}; --namespace needs iproute2"))?;
    if output.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    Err(format!("{line}: {}; --namespace needs to be root", stderr.trim()).into())
}
