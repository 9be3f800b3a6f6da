//! The tokens that a server accepts, and the file that contains them.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Instant, SystemTime};

use relive_engine::LogThrottle;

use super::line::{Fingerprint, TokenLine, TokenLineError, fingerprint, fingerprint_of_new};
use super::role::Role;
use crate::limits::{MAX_TOKEN_FILE_BYTES, TOKEN_FILE_CHECK_INTERVAL};

/// The reason why a token file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokensError {
    /// The file cannot be read.
    #[error("cannot read the token file {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A line is malformed.
    #[error("line {line} of the token file {}: {source}", path.display())]
    TokenLine {
        /// The file.
        path: PathBuf,
        /// The number of the line, counted from 1.
        line: usize,
        /// The fault of the line.
        source: TokenLineError,
    },
    /// The file is too large.
    #[error("the token file {} has {got} bytes; the limit is {MAX_TOKEN_FILE_BYTES}", path.display())]
    Size {
        /// The file.
        path: PathBuf,
        /// The size of the file in bytes.
        got: u64,
    },
    /// The file contains no token, so no client could connect.
    #[error("the token file {} has no tokens; a line is NAME ROLE TOKEN", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
}

/// The tokens that a server accepts: a single token, or the tokens in a file. A running server reloads the file when it
/// changes.
#[derive(Debug)]
pub struct Tokens {
    path: Option<PathBuf>,
    known: RwLock<Arc<KnownTokens>>,
}

#[derive(Debug)]
struct KnownTokens {
    holders: HashMap<Fingerprint, Holder>,
    version: Option<FileVersion>,
    /// Whether every user of the machine can read a token in the file.
    is_exposed: bool,
}

/// The holder of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) name: Arc<str>,
    pub(crate) role: Role,
}

/// Data that distinguishes one version of a file from the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileVersion {
    changed: Option<SystemTime>,
    len: u64,
    inode: u64,
    is_file: bool,
}

/// The failed attempts to read a file again. Each version of the file is logged at once, and then now and then.
#[derive(Debug, Default)]
struct Failures {
    /// `None` if the file is missing.
    version: Option<FileVersion>,
    throttle: LogThrottle,
}

impl Failures {
    /// Counts a failure, and returns whether it is to be logged.
    fn are_to_be_logged(&mut self, version: Option<FileVersion>, now: Instant) -> bool {
        if self.version != version {
            *self = Failures { version, throttle: LogThrottle::default() };
        }
        self.throttle.note(now).is_some()
    }
}

/// The permission bit with which every user of the machine can read a file.
const READABLE_BY_ALL: u32 = 0o004;

impl Tokens {
    /// Reads the tokens in the file at `path`. The file has a line `NAME ROLE TOKEN` for each token. Empty lines and
    /// lines that begin with `#` are ignored. The role is `read`, `write` or `admin`. Instead of the token, a line may
    /// have `sha256:` followed by the token's SHA-256 in hexadecimal.
    ///
    /// # Errors
    /// The file cannot be read, a line is malformed, or the file contains no token.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, TokensError> {
        let path = path.into();
        let known = read(&path)?;
        known.warn_if_exposed(&path);
        let known = RwLock::new(Arc::new(known));
        // The process may change its working directory before the file is read again.
        let path = std::path::absolute(&path).unwrap_or(path);
        Ok(Self { path: Some(path), known })
    }

    /// Accepts a single token, without a file.
    ///
    /// # Errors
    /// The token is too short or too long.
    pub fn one(name: &str, role: Role, token: &str) -> Result<Self, TokenLineError> {
        let holders = HashMap::from([(fingerprint_of_new(token)?, Holder { name: name.into(), role })]);
        Ok(Self {
            path: None,
            known: RwLock::new(Arc::new(KnownTokens { holders, version: None, is_exposed: false })),
        })
    }

    /// Returns the holder of a token.
    pub(crate) fn holder(&self, token: &str) -> Option<Holder> {
        self.known().holders.get(&fingerprint(token)).cloned()
    }

    /// Reads the file again whenever it changes. If the file is unusable, the tokens stay unchanged.
    pub(crate) async fn follow(&self) {
        let Some(path) = &self.path else { return std::future::pending().await };
        let (mut last, mut failures) = (self.known().version, Failures::default());
        loop {
            tokio::time::sleep(TOKEN_FILE_CHECK_INTERVAL).await;
            last = self.reload_if_changed(path, last, &mut failures);
        }
    }

    /// Reads the file again if its version differs from `last`. Returns the version that was read: a file that cannot be
    /// read is tried again.
    fn reload_if_changed(
        &self,
        path: &Path,
        last: Option<FileVersion>,
        failures: &mut Failures,
    ) -> Option<FileVersion> {
        let now = FileVersion::at(path);
        if now == last {
            return now;
        }
        match self.reload(path) {
            Ok(()) => now,
            Err(error) => {
                if failures.are_to_be_logged(now, Instant::now()) {
                    tracing::error!(%error, "the previous tokens remain valid");
                }
                last
            }
        }
    }

    fn reload(&self, path: &Path) -> Result<(), TokensError> {
        let known = read(path)?;
        known.warn_if_exposed(path);
        tracing::info!(path = %path.display(), tokens = known.holders.len(), "tokens reloaded");
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(known);
        Ok(())
    }

    fn known(&self) -> Arc<KnownTokens> {
        Arc::clone(&self.known.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl KnownTokens {
    fn warn_if_exposed(&self, path: &Path) {
        if self.is_exposed {
            tracing::warn!(
                path = %path.display(),
                "every user of this machine can read the tokens in the token file: run chmod o-r on it, or replace \
                 each token by its SHA-256, as printed by relive token"
            );
        }
    }
}

impl FileVersion {
    fn at(path: &Path) -> Option<Self> {
        use std::os::unix::fs::MetadataExt as _;
        let metadata = fs::metadata(path).ok()?;
        Some(Self {
            changed: metadata.modified().ok(),
            len: metadata.len(),
            inode: metadata.ino(),
            is_file: metadata.is_file(),
        })
    }
}

fn read(path: &Path) -> Result<KnownTokens, TokensError> {
    let unreadable = |source| TokensError::Io { path: path.to_owned(), source };
    // The version is determined before the file is read, so that a change during the read is noticed the next time.
    let version = FileVersion::at(path);
    // Opening a pipe blocks until a writer appears, and reading a device may never end.
    if version.is_some_and(|version| !version.is_file) {
        return Err(unreadable(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")));
    }
    if let Some(FileVersion { len: got, .. }) = version.filter(|version| version.len > MAX_TOKEN_FILE_BYTES) {
        return Err(TokensError::Size { path: path.to_owned(), got });
    }
    let mut text = String::new();
    // The file may have grown in the meantime.
    let file = fs::File::open(path).map_err(unreadable)?;
    let mode = file.metadata().map_err(unreadable)?.permissions().mode();
    file.take(MAX_TOKEN_FILE_BYTES + 1).read_to_string(&mut text).map_err(unreadable)?;
    if text.len() as u64 > MAX_TOKEN_FILE_BYTES {
        return Err(TokensError::Size { path: path.to_owned(), got: text.len() as u64 });
    }
    let (mut holders, mut names, mut has_clear) = (HashMap::new(), HashSet::new(), false);
    for (index, line) in text.lines().enumerate() {
        let wrong = |source| TokensError::TokenLine { path: path.to_owned(), line: index + 1, source };
        let Some(line) = TokenLine::parse(line).map_err(wrong)? else { continue };
        let TokenLine { name, role, fingerprint, is_clear } = line;
        has_clear |= is_clear;
        if !names.insert(name.to_owned()) {
            return Err(wrong(TokenLineError::Twice { what: "name" }));
        }
        if holders.insert(fingerprint, Holder { name: name.into(), role }).is_some() {
            return Err(wrong(TokenLineError::Twice { what: "token" }));
        }
    }
    if holders.is_empty() {
        return Err(TokensError::Empty { path: path.to_owned() });
    }
    let is_exposed = has_clear && mode & READABLE_BY_ALL != 0;
    Ok(KnownTokens { holders, version, is_exposed })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), text).unwrap();
        file
    }

    #[test]
    fn tokens_have_holders() {
        let file = file("# ours\nactor write actors-token-0001\n\nboss admin the-token-of-the-boss\n");
        let tokens = Tokens::open(file.path()).unwrap();
        let holder = tokens.holder("actors-token-0001").unwrap();
        assert_eq!((&*holder.name, holder.role), ("actor", Role::Write));
        assert_eq!(tokens.holder("the-token-of-the-boss").unwrap().role, Role::Admin);
        assert_eq!(tokens.holder("actors-token-0002"), None);
        assert_eq!(tokens.holder(""), None);
    }

    #[test]
    fn one_token_needs_no_file() {
        let tokens = Tokens::one("workers", Role::Write, "the-token-of-the-run").unwrap();
        assert_eq!(tokens.holder("the-token-of-the-run").map(|holder| holder.role), Some(Role::Write));
        assert_eq!(tokens.holder("the-token-of-another"), None);
        let error = Tokens::one("workers", Role::Write, "short").unwrap_err();
        assert_eq!(error.to_string(), "the token must have 16 to 1024 characters, got 5");
    }

    #[test]
    fn a_bad_token_line_is_reported() {
        for (text, part) in [
            ("", "no token"),
            ("a read 0123456789abcdef\nb", "line 2"),
            ("a read 0123456789abcdef\nb read 0123456789abcdef", "an earlier line has the same token"),
            ("a read 0123456789abcdef\na read 0123456789abcdeg", "an earlier line has the same name"),
        ] {
            let error = Tokens::open(file(text).path()).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
        let error = Tokens::open("/nowhere/tokens").unwrap_err().to_string();
        assert!(error.contains("cannot read the token file /nowhere/tokens"), "{error}");
        let error = Tokens::open("/dev/zero").unwrap_err().to_string();
        assert!(error.ends_with("/dev/zero: it is not a regular file"), "{error}");
    }

    #[test]
    fn an_error_about_a_line_never_contains_the_token() {
        let hash = "0".repeat(64);
        let file = file(&format!("a supersecrettoken-123 sha256:{hash}"));
        let error = Tokens::open(file.path()).unwrap_err();
        assert!(error.to_string().ends_with(
            "its second word is not a role; the roles are read, write and admin, and a line must be NAME ROLE TOKEN"
        ));
        assert!(!format!("{error:?}").contains("supersecret"), "{error:?}");
    }

    #[test]
    fn a_token_that_every_user_can_read_is_noticed() {
        let hashed = super::super::line::token_line("a", Role::Read, "0123456789abcdef").unwrap();
        for (text, mode, is_exposed) in [
            ("a read 0123456789abcdef", 0o644, true),
            ("a read 0123456789abcdef", 0o640, false),
            (&hashed, 0o644, false),
        ] {
            let file = file(text);
            fs::set_permissions(file.path(), fs::Permissions::from_mode(mode)).unwrap();
            let tokens = Tokens::open(file.path()).unwrap();
            assert_eq!(tokens.known().is_exposed, is_exposed, "{text} {mode:o}");
        }
    }

    #[test]
    fn each_unusable_version_of_a_token_file_is_logged() {
        let (mut failures, now) = (Failures::default(), Instant::now());
        let version = |len| Some(FileVersion { changed: None, len, inode: 1, is_file: true });
        let versions = [version(1), version(1), version(2), version(2), None, None, version(1)];
        let logged = versions.map(|version| failures.are_to_be_logged(version, now));
        assert_eq!(logged, [true, false, true, false, true, false, true]);
    }

    #[test]
    fn a_changed_token_file_is_reloaded_and_a_broken_one_is_ignored() {
        let file = file("a read 0123456789abcdef");
        let tokens = Tokens::open(file.path()).unwrap();
        let (first, mut failures) = (tokens.known().version, Failures::default());
        let mut reload = |last| tokens.reload_if_changed(file.path(), last, &mut failures);
        assert_eq!(reload(first), first);
        fs::write(file.path(), "a read 0123456789abcdef\nbroken").unwrap();
        assert_eq!(reload(first), first, "it is tried again");
        assert!(tokens.holder("0123456789abcdef").is_some());
        fs::write(file.path(), "b admin another-token-of-ours").unwrap();
        let last = reload(first);
        assert_ne!(last, first);
        assert!(tokens.holder("0123456789abcdef").is_none());
        assert_eq!(tokens.holder("another-token-of-ours").unwrap().role, Role::Admin);
        fs::remove_file(file.path()).unwrap();
        assert_eq!(reload(last), last, "nothing is there");
        assert!(tokens.holder("another-token-of-ours").is_some());
    }
}
