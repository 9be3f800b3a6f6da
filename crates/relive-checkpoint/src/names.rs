//! The names of checkpoint files, and of unfinished files that were left behind.

use crate::segment::SegmentId;

const PREFIX: &str = "checkpoint-";
const SUFFIX: &str = ".relive";
const DIGITS: usize = 10;

/// The largest number that has a name. One checkpoint per second reaches it in 317 years.
pub(crate) const MAX_NUMBER: u64 = 9_999_999_999;

pub(crate) fn checkpoint_name(number: u64) -> String {
    format!("{PREFIX}{number:0DIGITS$}{SUFFIX}")
}

/// Returns the number of the checkpoint with the given name.
pub(crate) fn checkpoint_number(name: &str) -> Option<u64> {
    let digits = name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?;
    let is_ours = digits.len() == DIGITS && digits.bytes().all(|digit| digit.is_ascii_digit());
    is_ours.then(|| digits.parse().ok())?
}

/// Splits the path or URL of a checkpoint into its root and its name.
pub(crate) fn split_root(location: &str) -> (&str, &str) {
    match location.rsplit_once(std::path::is_separator).unwrap_or((".", location)) {
        ("" | "file://", name) => ("/", name),
        split => split,
    }
}

/// Returns whether this name, which includes the folder, belongs to one of Relive's unfinished files.
pub(crate) fn is_leftover(name: &str) -> bool {
    let (folder, file) = name.rsplit_once('/').map_or(("", name), |(folder, file)| (folder, file));
    let Some(finished) = file.strip_prefix('.').and_then(|file| file.strip_suffix(".tmp")) else {
        return false;
    };
    match folder {
        "" => checkpoint_number(finished).is_some(),
        folder => SegmentId::from_file_name(&format!("{folder}/{finished}")).is_some(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_own_file_names_are_checkpoints() {
        assert_eq!(checkpoint_name(42), "checkpoint-0000000042.relive");
        for number in [0, 42, MAX_NUMBER] {
            assert_eq!(checkpoint_number(&checkpoint_name(number)), Some(number));
        }
        for name in [
            "checkpoint-42.relive",
            "checkpoint-+000000042.relive",
            "checkpoint-0000000042.relive.bak",
            "checkpoint-00000000042.relive",
            ".checkpoint-0000000042.relive.tmp",
        ] {
            assert_eq!(checkpoint_number(name), None, "{name}");
        }
    }

    #[test]
    fn a_checkpoint_in_the_root_of_the_file_system_has_that_root() {
        let name = "checkpoint-0000000042.relive";
        for (location, root) in [
            (name.to_owned(), "."),
            (format!("/{name}"), "/"),
            (format!("a/b/{name}"), "a/b"),
            (format!("file:///{name}"), "/"),
            (format!("file:///a/{name}"), "file:///a"),
            (format!("s3://bucket/{name}"), "s3://bucket"),
        ] {
            assert_eq!(split_root(&location), (root, name));
        }
    }

    #[test]
    fn only_own_temporary_files_are_leftovers() {
        let segment = SegmentId([171; 16]).file_name();
        let unfinished = segment.replace("segments/", "segments/.") + ".tmp";
        for (name, is_ours) in [
            (unfinished.as_str(), true),
            (".checkpoint-0000000042.relive.tmp", true),
            (segment.as_str(), false),
            (".notes.tmp", false),
            ("segments/.notes.tmp", false),
            ("segments/.checkpoint-0000000042.relive.tmp", false),
            ("checkpoint-0000000042.relive.tmp", false),
        ] {
            assert_eq!(is_leftover(name), is_ours, "{name}");
        }
    }
}
