//! Two hosts on one machine, connected by a cable that can be unplugged.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// The name of the cable's end in each host.
const CABLE: &str = "cable";

/// The switch that connects the cables.
const SWITCH: &str = "switch";

/// One of the two hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Host {
    /// The host of the tables, in most tests.
    Near,
    /// The other one.
    Far,
}

impl Host {
    fn name(self) -> &'static str {
        match self {
            Host::Near => "near",
            Host::Far => "far",
        }
    }
}

/// Two hosts, as network namespaces with their own addresses and a switch between them. They are removed when this
/// value is dropped.
#[derive(Debug)]
pub struct TwoHosts {
    number: u32,
}

impl TwoHosts {
    /// Creates two connected hosts. Returns `None`, with a message on stderr, if this process cannot create them: this
    /// requires root, the program `ip`, and a kernel with bridges.
    #[expect(clippy::print_stderr, reason = "the message explains to the user why the test is skipped")]
    pub fn connected() -> Option<TwoHosts> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let hosts = TwoHosts { number: MADE.fetch_add(1, Ordering::Relaxed) };
        match hosts.connect() {
            Ok(()) => Some(hosts),
            Err(reason) => {
                eprintln!(
                    "not tested, as this process cannot make network namespaces (it needs root and iproute2): {reason}"
                );
                None
            }
        }
    }

    fn connect(&self) -> Result<(), String> {
        let switch = self.name("switch");
        ip(&["netns", "add", &switch])?;
        ip(&["-n", &switch, "link", "add", SWITCH, "type", "bridge"])?;
        ip(&["-n", &switch, "link", "set", SWITCH, "up"])?;
        for host in [Host::Near, Host::Far] {
            let (name, port) = (self.name(host.name()), host.name());
            let address = format!("{}/24", TwoHosts::address(host));
            ip(&["netns", "add", &name])?;
            ip(&[
                "link", "add", CABLE, "netns", &name, "type", "veth", "peer", "name", port, "netns", &switch,
            ])?;
            ip(&["-n", &switch, "link", "set", port, "master", SWITCH, "up"])?;
            ip(&["-n", &name, "address", "add", &address, "dev", CABLE])?;
            ip(&["-n", &name, "link", "set", "lo", "up"])?;
            ip(&["-n", &name, "link", "set", CABLE, "up"])?;
        }
        Ok(())
    }

    /// Returns the name of a part. Names contain the process id, so that concurrent tests use different names.
    fn name(&self, part: &str) -> String {
        format!("relive-{}-{}-{part}", std::process::id(), self.number)
    }

    /// Returns the IP address of a host.
    pub fn address(host: Host) -> &'static str {
        match host {
            Host::Near => "10.77.0.1",
            Host::Far => "10.77.0.2",
        }
    }

    /// Wraps a command so that it runs on a host. The resulting process is that of the command itself.
    pub fn on(&self, host: Host, command: &Command) -> Command {
        let mut there = Command::new("ip");
        there
            .args(["netns", "exec", &self.name(host.name())])
            .arg(command.get_program())
            .args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => there.env(name, value),
                None => there.env_remove(name),
            };
        }
        there
    }

    /// Moves this thread, and threads that it starts later, to a host until the visit is dropped.
    ///
    /// # Panics
    /// If the thread is not permitted to enter the host.
    pub fn enter(&self, host: Host) -> NamespaceGuard {
        self.entrance(host).enter()
    }

    /// Returns an entrance to a host, which other threads can use.
    ///
    /// # Panics
    /// If the host is gone.
    pub fn entrance(&self, host: Host) -> Entrance {
        let path = PathBuf::from("/run/netns").join(self.name(host.name()));
        Entrance(File::open(&path).expect("the namespace has a file"))
    }

    /// Unplugs the far host's cable: data sent from now on is lost, and no host is notified.
    ///
    /// # Panics
    /// If it cannot be unplugged.
    pub fn unplug(&self) {
        self.connect_far(&["nomaster"]);
    }

    /// Plugs the cable in again.
    ///
    /// # Panics
    /// If it cannot be plugged in.
    pub fn plug(&self) {
        self.connect_far(&["master", SWITCH]);
    }

    fn connect_far(&self, how: &[&str]) {
        let switch = self.name("switch");
        let command = [&["-n", &switch, "link", "set", Host::Far.name()], how].concat();
        ip(&command).expect("the process that created a switch can change it");
    }
}

/// An entrance to a host.
#[derive(Debug)]
pub struct Entrance(File);

impl Entrance {
    /// Moves this thread, and threads that it starts later, to the host until the visit is dropped.
    ///
    /// # Panics
    /// If the thread is not permitted to enter the host.
    pub fn enter(&self) -> NamespaceGuard {
        let before = File::open("/proc/thread-self/ns/net").expect("each thread has a namespace");
        enter(&self.0);
        NamespaceGuard { before }
    }
}

/// A thread's visit to a host. Threads that were started during the visit stay on the host.
#[derive(Debug)]
#[must_use = "the thread leaves the host when this is dropped"]
pub struct NamespaceGuard {
    before: File,
}

impl Drop for NamespaceGuard {
    fn drop(&mut self) {
        enter(&self.before);
    }
}

fn enter(namespace: &File) {
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
        .expect("the process that created a namespace can enter and leave it");
}

impl Drop for TwoHosts {
    fn drop(&mut self) {
        // The cables are removed together with the namespaces. Some may not exist because they could not be created.
        for part in ["switch", Host::Near.name(), Host::Far.name()] {
            let _ = ip(&["netns", "delete", &self.name(part)]);
        }
    }
}

/// Calls the program `ip`. If it fails, the error contains its output.
fn ip(args: &[&str]) -> Result<(), String> {
    let output = Command::new("ip").args(args).stdin(Stdio::null()).output();
    let output = output.map_err(|error| error.to_string())?;
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
    }
}
