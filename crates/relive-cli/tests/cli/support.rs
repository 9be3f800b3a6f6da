//! Running the program.

use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// Returns the program with the given arguments, and without settings from the environment.
pub(crate) fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_relive"));
    command.args(args).env_remove("RUST_LOG").stdin(Stdio::null());
    // Tests register jobs in a separate folder, not in the user's.
    command
        .env("XDG_RUNTIME_DIR", env!("CARGO_TARGET_TMPDIR"))
        .env("XDG_STATE_HOME", env!("CARGO_TARGET_TMPDIR"));
    command
}

/// Runs the program until it ends.
pub(crate) fn run(args: &[&str]) -> Output {
    command(args).output().unwrap()
}

/// Returns the exit code, stdout and stderr of a run.
pub(crate) fn outcome(args: &[&str]) -> (Option<i32>, String, String) {
    let output = run(args);
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// Returns a file with this content, with a unique name that ends with `suffix`.
pub(crate) fn file(suffix: &str, content: &str) -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = format!("{}-{number}{suffix}", std::process::id());
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, content).unwrap();
    path
}

/// Returns an address at which no process listens. Its port is below those that the system assigns (from 32,768 on), so
/// that no other test gets it in the meantime.
pub(crate) fn free_address() -> String {
    static ASKED: AtomicU32 = AtomicU32::new(0);
    loop {
        // The port differs for each call and each process.
        let number = std::process::id().wrapping_add(ASKED.fetch_add(1, Ordering::Relaxed)) % 12_000;
        let address = format!("127.0.0.1:{}", 20_000 + number);
        if TcpListener::bind(&address).is_ok() {
            return address;
        }
    }
}

/// Sends a signal, such as `TERM`.
pub(crate) fn signal(child: &Child, name: &str) {
    let status = Command::new("kill").arg(format!("-{name}")).arg(child.id().to_string()).status().unwrap();
    assert!(status.success());
}

/// A server that accepts connections; killed when dropped.
pub(crate) struct Served {
    pub(crate) child: Child,
    pub(crate) address: String,
    stdout: BufReader<ChildStdout>,
}

impl Served {
    /// Starts a server on a free port, with the tables of `config`.
    pub(crate) fn start(suffix: &str, config: &str) -> Self {
        Self::start_with(suffix, config, &[])
    }

    /// Like [`start`](Self::start), but with more arguments.
    pub(crate) fn start_with(suffix: &str, config: &str, more: &[&str]) -> Self {
        let path = file(suffix, config);
        let args = ["serve", "--port", "0", "--config", path.to_str().unwrap()];
        Self::spawn(&mut command(&[&args, more].concat()))
    }

    /// Starts a server with a given command.
    pub(crate) fn spawn(command: &mut Command) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = loop {
            match command.spawn() {
                // The program is a copy that was just written. If another test was starting a process at the same time,
                // that process has the file open until it executes its own program.
                Err(error) if error.kind() == ErrorKind::ExecutableFileBusy => std::thread::yield_now(),
                spawned => break spawned.unwrap(),
            }
        };
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let Some(address) = line.strip_prefix("relive listening on ") else {
            let mut actual = String::new();
            child.stderr.take().unwrap().read_to_string(&mut actual).unwrap();
            panic!("the server has not begun to listen: {line}{actual}");
        };
        let address = address.trim_end().to_owned();
        Self { child, address, stdout }
    }

    /// Waits for the end of the server; returns its status and its output on stdout after the first line.
    pub(crate) fn end(&mut self) -> (ExitStatus, String) {
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).unwrap();
        (self.child.wait().unwrap(), rest)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
