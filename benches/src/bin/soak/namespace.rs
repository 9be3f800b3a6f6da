//! A network of the server's own, with a cable to ours that can be pulled, and slowed down.
//!
//! What happens to a cable happens to connections that say nothing of it: packets are lost, and no side learns of it. A
//! proxy cannot do that.

use std::process::{Command, Stdio};

use relive_benches::Outcome;

/// The two ends of the cable: addresses that nobody routes.
const OURS: &str = "198.18.77.1";
const THEIRS: &str = "198.18.77.2";

/// A namespace and its cable, until it is dropped.
pub(crate) struct Namespace {
    name: String,
    /// Our end.
    cable: String,
}

/// What may be wrong with the cable.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Trouble {
    /// It is pulled.
    Cut,
    /// It carries little.
    Narrow,
    /// It carries late, and loses some: where the system's kernel can do that.
    Lossy,
}

impl Namespace {
    /// Makes one; needs to be root, and `ip` and `tc` of iproute2.
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

    /// Where the server listens.
    pub(crate) fn address() -> &'static str {
        THEIRS
    }

    /// A program that runs there; arguments are to be added.
    pub(crate) fn command(&self, program: &std::path::Path) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name]).arg(program);
        command
    }

    /// Troubles the cable; whether the kernel can do that.
    pub(crate) fn trouble(&self, trouble: Trouble) -> Outcome<bool> {
        let cable = &self.cable;
        let queue = |kind: &[&str]| run(&[&["tc", "qdisc", "replace", "dev", cable, "root"], kind].concat());
        match trouble {
            Trouble::Cut => run(&["ip", "link", "set", cable, "down"]).map(|()| true),
            Trouble::Narrow => {
                queue(&["tbf", "rate", "8mbit", "burst", "64kbit", "latency", "200ms"]).map(|()| true)
            }
            Trouble::Lossy => Ok(queue(&["netem", "delay", "20ms", "10ms", "loss", "2%"]).is_ok()),
        }
    }

    /// Repairs the cable.
    pub(crate) fn repair(&self, trouble: Trouble) -> Outcome {
        match trouble {
            Trouble::Cut => run(&["ip", "link", "set", &self.cable, "up"]),
            Trouble::Narrow | Trouble::Lossy => run(&["tc", "qdisc", "del", "dev", &self.cable, "root"]),
        }
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // The cable goes with one of its ends.
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
    let told = String::from_utf8_lossy(&output.stderr);
    Err(format!("{line}: {}; --namespace needs to be root", told.trim()).into())
}
