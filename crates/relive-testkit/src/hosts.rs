//! Two hosts in one machine, whose cable can be pulled out.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// The end of the cable in each host.
const CABLE: &str = "cable";

/// Which of the two hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Host {
    /// Where the tables are, in most tests.
    Near,
    /// The other one.
    Far,
}

/// Two hosts with addresses of their own and one cable between them, as network namespaces. They are removed when this is dropped.
#[derive(Debug)]
pub struct TwoHosts {
    number: u32,
}

impl TwoHosts {
    /// Two connected hosts; none where this process may not make them, which stderr says then: that needs root and the program `ip`.
    ///
    /// # Panics
    /// The first host can be made, and the rest cannot.
    pub fn connected() -> Option<TwoHosts> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let hosts = TwoHosts { number: MADE.fetch_add(1, Ordering::Relaxed) };
        let first = hosts.name(Host::Near);
        if let Err(reason) = ip(&["netns", "add", &first]) {
            eprintln!("not tested: this process cannot make a network namespace, for which it must be root and have the program `ip`: {reason}");
            std::mem::forget(hosts);
            return None;
        }
        hosts.connect();
        Some(hosts)
    }

    fn connect(&self) {
        let [near, far] = [Host::Near, Host::Far].map(|host| self.name(host));
        done(&["netns", "add", &far]);
        done(&["link", "add", CABLE, "netns", &near, "type", "veth", "peer", "name", CABLE, "netns", &far]);
        for host in [Host::Near, Host::Far] {
            let (name, address) = (self.name(host), format!("{}/24", TwoHosts::address(host)));
            done(&["-n", &name, "address", "add", &address, "dev", CABLE]);
            done(&["-n", &name, "link", "set", "lo", "up"]);
            done(&["-n", &name, "link", "set", CABLE, "up"]);
        }
    }

    /// Names have the process, so that tests beside this one have others.
    fn name(&self, host: Host) -> String {
        format!("relive-{}-{}-{host:?}", std::process::id(), self.number).to_lowercase()
    }

    /// The IP address of a host.
    pub fn address(host: Host) -> &'static str {
        match host {
            Host::Near => "10.77.0.1",
            Host::Far => "10.77.0.2",
        }
    }

    /// Has a command run on a host: its process becomes that of the command.
    pub fn on(&self, host: Host, command: &Command) -> Command {
        let mut there = Command::new("ip");
        there.args(["netns", "exec", &self.name(host)]).arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => there.env(name, value),
                None => there.env_remove(name),
            };
        }
        there
    }

    /// Moves this thread, and threads that it will start, to a host.
    ///
    /// # Panics
    /// It may not.
    pub fn enter(&self, host: Host) {
        self.entrance(host).enter();
    }

    /// The way to a host for other threads.
    ///
    /// # Panics
    /// The host is gone.
    pub fn entrance(&self, host: Host) -> Entrance {
        let path = PathBuf::from("/run/netns").join(self.name(host));
        Entrance(File::open(&path).expect("the namespace has a file"))
    }

    /// Pulls the cable out: what is sent from now on is lost.
    ///
    /// # Panics
    /// It cannot be pulled out.
    pub fn unplug(&self) {
        done(&["-n", &self.name(Host::Far), "link", "set", CABLE, "down"]);
    }

    /// Puts the cable in again.
    ///
    /// # Panics
    /// It cannot be put in.
    pub fn plug(&self) {
        done(&["-n", &self.name(Host::Far), "link", "set", CABLE, "up"]);
    }
}

/// The way to a host.
#[derive(Debug)]
pub struct Entrance(File);

impl Entrance {
    /// Moves this thread, and threads that it will start, to the host.
    ///
    /// # Panics
    /// It may not.
    pub fn enter(&self) {
        let moved = move_into_link_name_space(self.0.as_fd(), Some(LinkNameSpaceType::Network));
        moved.expect("who has made a namespace may enter it");
    }
}

impl Drop for TwoHosts {
    fn drop(&mut self) {
        // The cable goes with them.
        for host in [Host::Near, Host::Far] {
            if let Err(reason) = ip(&["netns", "delete", &self.name(host)]) {
                eprintln!("a network namespace is left: {reason}");
            }
        }
    }
}

fn done(args: &[&str]) {
    if let Err(reason) = ip(args) {
        panic!("ip {}: {reason}", args.join(" "));
    }
}

/// Calls the program `ip`; what it complains of.
fn ip(args: &[&str]) -> Result<(), String> {
    let output = Command::new("ip").args(args).stdin(Stdio::null()).output();
    let output = output.map_err(|error| error.to_string())?;
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
    }
}
