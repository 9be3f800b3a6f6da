//! The records of the running jobs on this machine: one small file for each job.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use relive_rl::watching::printable;
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use super::process::Process;
use crate::failure::{Failure, Result};

/// The maximum length of a job's name.
const MAX_NAME: usize = 64;

/// The maximum size of a job's file, which usually has a few hundred bytes.
const MAX_BYTES: u64 = 64 << 10;

/// The maximum number of jobs with the same default name.
const MAX_JOBS: usize = 1_000;

/// The extension of the files.
const EXTENSION: &str = "json";

/// The data of a job to register.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) name: String,
    pub(crate) agent: String,
    pub(crate) environment: String,
    /// The address of its tables.
    pub(crate) address: String,
    /// The address of its dashboard.
    pub(crate) http: Option<String>,
    /// The token for the tables. Only the user who started the job can read the file.
    pub(crate) token: Option<String>,
}

/// Keeps the token out of logs.
impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Job");
        shown.field("name", &self.name).field("address", &self.address).finish_non_exhaustive()
    }
}

/// A job that was registered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    #[serde(flatten)]
    pub(crate) job: Job,
    #[serde(flatten)]
    pub(crate) process: Process,
    /// The time of its registration, in seconds since 1970.
    pub(crate) since: u64,
}

/// Removes the file of a job when it is dropped.
#[derive(Debug)]
pub(crate) struct Registered(PathBuf);

impl Drop for Registered {
    fn drop(&mut self) {
        // A process that lists jobs may have removed the file.
        let _ = fs::remove_file(&self.0);
    }
}

/// Checks that a job can have this name.
pub(crate) fn expect_name(name: &str) -> std::result::Result<String, String> {
    let is_good = |character: char| character.is_ascii_alphanumeric() || "-_.".contains(character);
    let begins_well = name.starts_with(|character: char| character.is_ascii_alphanumeric());
    match begins_well && name.len() <= MAX_NAME && name.chars().all(is_good) {
        true => Ok(name.to_owned()),
        false => Err(format!(
            "must be 1 to {MAX_NAME} letters, digits, dashes, dots or underscores, starting with a letter or digit"
        )),
    }
}

impl Job {
    /// Returns whether all displayed fields are printable. They may not be, because the folder may contain foreign
    /// files.
    fn is_printable(&self) -> bool {
        let Job { name, agent, environment, address, http, token: _ } = self;
        let mut texts = [agent, environment, address].into_iter().chain(http);
        expect_name(name).is_ok() && texts.all(|text| printable(text) == *text)
    }

    /// Registers this process as a job until the result is dropped. If there is no folder for the job's file, the
    /// process is not registered.
    ///
    /// # Errors
    /// A job with this name already exists.
    pub(crate) fn register(self) -> Result<Option<Registered>> {
        let record = Record::own(self);
        record.register(&folders()).map_err(|file| taken(&record.job.name, &file))
    }

    /// Like [`register`](Self::register), but adds a number to the name if a job with this name exists.
    pub(crate) fn register_renamed(self) -> Option<Registered> {
        self.register_renamed_in(&folders())
    }

    fn register_renamed_in(self, folders: &[PathBuf]) -> Option<Registered> {
        let name = self.name.clone();
        let mut record = Record::own(self);
        for number in 2..=MAX_JOBS + 1 {
            if let Ok(registered) = record.register(folders) {
                return registered;
            }
            record.job.name = format!("{name}-{number}");
        }
        tracing::warn!("this run is not listed as a job: there are {MAX_JOBS} jobs named {name}");
        None
    }
}

/// Returns the error about a name whose job has a file.
fn taken(name: &str, file: &Path) -> Failure {
    let advice = format!("give another name, or stop that job: relive job stop {name}");
    let elsewhere = read(file).map(|record| record.process).filter(|process| !process.is_visible());
    // This process cannot determine whether that job has ended.
    let elsewhere = elsewhere.map_or_else(String::new, |process| {
        format!("; if it was on {} and no longer exists, delete {}", process.place(), file.display())
    });
    Failure::usage(format!("--name {name}: a job with this name exists; {advice}{elsewhere}"))
}

impl Record {
    /// Returns the record of this process.
    fn own(job: Job) -> Record {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        Record { job, process: Process::own(), since }
    }

    /// Writes the record to the first folder that is available.
    ///
    /// # Errors
    /// The file of a job with the same name.
    fn register(&self, folders: &[PathBuf]) -> std::result::Result<Option<Registered>, PathBuf> {
        for folder in folders {
            match self.write(folder) {
                Ok(path) => return Ok(Some(Registered(path))),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    return Err(file(folder, &self.job.name));
                }
                Err(error) => tracing::debug!("cannot list this job in {}: {error}", folder.display()),
            }
        }
        tracing::debug!("this run is not listed as a job: no folder for its file is available");
        Ok(None)
    }

    fn write(&self, folder: &Path) -> io::Result<PathBuf> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let path = file(folder, &self.job.name);
        if read(&path).is_some_and(|there| there.process.has_ended()) {
            fs::remove_file(&path)?;
        }
        // The file is complete when it appears, and does not replace another file.
        // Processes on other machines that share the folder may have the same id.
        let Process { host, pid, .. } = &self.process;
        let draft = folder.join(format!(".{}.{host}.{pid}", self.job.name));
        let mut out = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
        let written = out.write_all(serde_json::to_string_pretty(self)?.as_bytes());
        let linked = written.and_then(|()| fs::hard_link(&draft, &path));
        fs::remove_file(&draft)?;
        linked.map(|()| path)
    }

    /// Removes the file of a job that has ended without removing it.
    pub(crate) fn forget(&self) {
        for folder in folders() {
            let path = file(&folder, &self.job.name);
            if read(&path).as_ref() == Some(self) {
                // Another process may be doing the same.
                let _ = fs::remove_file(path);
            }
        }
    }
}

/// Returns all registered jobs, by name; some may have ended.
pub(crate) fn all() -> Vec<Record> {
    let entries = folders().into_iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten();
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let of_jobs = paths.filter(|path| path.extension().is_some_and(|extension| extension == EXTENSION));
    let mut found: Vec<Record> = of_jobs.filter_map(|path| read(&path)).collect();
    found.sort_by(|one, other| one.job.name.cmp(&other.job.name));
    found.dedup_by(|one, other| one.job.name == other.job.name);
    found
}

/// Returns the job with the given name, if there is one.
pub(crate) fn named(name: &str) -> Option<Record> {
    all().into_iter().find(|record| record.job.name == name)
}

fn file(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.{EXTENSION}"))
}

/// Reads a job's file. Returns `None` if the file is not a job's. Other files in the folder, such as pipes or devices,
/// do not block.
fn read(path: &Path) -> Option<Record> {
    let nonblocking = i32::try_from(OFlags::NONBLOCK.bits()).ok()?;
    let file = OpenOptions::new().read(true).custom_flags(nonblocking).open(path).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut bytes).ok()?;
    let record: Record = serde_json::from_slice(&bytes).ok()?;
    record.job.is_printable().then_some(record)
}

/// Returns the possible folders: the user's folder for the login session, or the permanent one.
fn folders() -> Vec<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let state = set("XDG_STATE_HOME").or_else(|| Some(set("HOME")?.join(".local/state")));
    // If this folder is missing, it is not created, because it belongs to the system.
    let runtime = set("XDG_RUNTIME_DIR").filter(|folder| folder.is_dir());
    runtime.into_iter().chain(state).map(|folder| folder.join("relive/jobs")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn job_names_are_valid_in_files_and_command_lines() {
        for name in ["dqn-4711", "a", "A.b_c"] {
            assert_eq!(expect_name(name).as_deref(), Ok(name));
        }
        for name in ["", "-a", ".a", "a/b", "host:7000", "a b", &"a".repeat(65)] {
            assert!(expect_name(name).is_err(), "{name}");
        }
    }

    fn job(name: &str) -> Job {
        let text = |text: &str| text.to_owned();
        let (agent, environment, address) = (text("dqn"), text("catch/0"), text("127.0.0.1:1"));
        Job { name: text(name), agent, environment, address, http: None, token: None }
    }

    #[test]
    fn a_token_is_never_printed() {
        let shown = format!("{:?}", Job { token: Some("secret".into()), ..job("dqn-1") });
        assert!(shown.contains("dqn-1") && !shown.contains("secret"), "{shown}");
    }

    #[test]
    fn a_default_name_that_another_host_has_taken_gets_a_number() {
        let folder = tempfile::tempdir().unwrap();
        let folders = [folder.path().to_owned()];
        // The job of a container that was killed, with the same process id.
        let mut killed = serde_json::to_value(Record::own(job("dqn-1"))).unwrap();
        killed["host"] = "another-pod".into();
        let path = file(folder.path(), "dqn-1");
        fs::write(&path, killed.to_string()).unwrap();
        let second = job("dqn-1").register_renamed_in(&folders).unwrap();
        let third = job("dqn-1").register_renamed_in(&folders).unwrap();
        assert_eq!(second.0, file(folder.path(), "dqn-1-2"));
        assert_eq!(read(&third.0).unwrap().job, job("dqn-1-3"));
        let refused = Record::own(job("dqn-1")).register(&folders).unwrap_err();
        let text = taken("dqn-1", &refused).message();
        assert!(
            text.contains("relive job stop dqn-1; if it was on another-pod and no longer exists"),
            "{text}"
        );
        assert!(text.ends_with(&format!("delete {}", path.display())), "{text}");
    }
}
