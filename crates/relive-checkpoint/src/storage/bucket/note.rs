//! The contents of a lock object.

use std::fmt;

/// The first line of each lock object.
const TITLE: &str = "relive lock 1";

/// The text of a lock object, described in docs/checkpoint-format.md.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Note {
    /// 128 random bits that identify the owner, or `None` if the lock is free.
    pub(super) owner: Option<u128>,
    /// A human-readable description of the owner.
    pub(super) who: String,
    /// The number of times that the owner has written the object. It makes all notes of an owner differ, and thus also
    /// their entity tags.
    pub(super) renewals: u64,
}

impl Note {
    /// `None` if the object is not one of Relive's locks.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        (lines.next() == Some(TITLE)).then_some(())?;
        let mut value = |name: &str| lines.next()?.strip_prefix(name)?.strip_prefix(' ');
        let owner = match value("owner")? {
            "nobody" => None,
            // `from_str_radix` would also accept a sign.
            digits if digits.len() == 32 && digits.bytes().all(|digit| digit.is_ascii_hexdigit()) => {
                Some(u128::from_str_radix(digits, 16).ok()?)
            }
            _ => return None,
        };
        let who = value("who")?.to_owned();
        let renewals = value("renewals")?.parse().ok()?;
        Some(Self { owner, who, renewals })
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let owner = self.owner.map_or_else(|| "nobody".to_owned(), |owner| format!("{owner:032x}"));
        write!(f, "{TITLE}\nowner {owner}\nwho {}\nrenewals {}\n", self.who, self.renewals)
    }
}

/// Returns a description of this process for others.
pub(super) fn own_process() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let host = host.or_else(|| std::env::var("HOSTNAME").ok()).unwrap_or_default();
    // Keeps the description on one line, regardless of the host's name.
    let host: String = host.trim().chars().filter(|c| !c.is_control()).take(255).collect();
    let id = std::process::id();
    if host.is_empty() { format!("process {id}") } else { format!("process {id} on {host}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lock_notes_round_trip() {
        for owner in [None, Some(0x1f)] {
            let note = Note { owner, who: "process 1 on a".to_owned(), renewals: 7 };
            assert_eq!(Note::parse(&note.to_string()), Some(note));
        }
        let text = "relive lock 1\nowner 0000000000000000000000000000001f\nwho process 1 on a\nrenewals 7\n";
        assert_eq!(Note::parse(text).unwrap().to_string(), text);
    }

    #[test]
    fn other_contents_are_not_parsed_as_a_lock() {
        for text in [
            "",
            "hello",
            "relive lock 2\nowner nobody\nwho a\nrenewals 1",
            "relive lock 1\nowner 1f\nwho a\nrenewals 1",
            "relive lock 1\nowner +000000000000000000000000000001f\nwho a\nrenewals 1",
        ] {
            assert_eq!(Note::parse(text), None, "{text}");
        }
    }
}
