//! Command lines of a shell.

use std::borrow::Cow;

use super::job::{Job, Task, Word};

/// A word as the shell reads it as one, without anything in it being replaced.
pub(super) fn quoted(text: &str) -> Cow<'_, str> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:=,@%+".contains(&byte);
    if !text.is_empty() && text.bytes().all(is_plain) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("'{}'", text.replace('\'', r"'\''")))
}

/// A task's command line, in which `number` and `host_of` say what the shell has in their place.
pub(super) fn command_line(task: &Task, number: &str, host_of: impl Fn(&str) -> String) -> String {
    let word = |word: &Word| match word {
        Word::Text(text) => quoted(text).into_owned(),
        Word::Number => number.to_owned(),
        Word::HostOf(task, after) if after.is_empty() => host_of(task),
        Word::HostOf(task, after) => format!("{}{}", host_of(task), quoted(after)),
    };
    // A program whose name has a `=` would be read as a variable.
    let begin = if matches!(task.command.first(), Some(Word::Text(name)) if name.contains('=')) {
        "env -- "
    } else {
        ""
    };
    let words: Vec<String> = task.command.iter().map(word).collect();
    format!("{begin}{}", words.join(" "))
}

/// The job's variables, as they stand before a command.
pub(super) fn assignments(job: &Job) -> Vec<String> {
    job.variables().map(|(name, value)| format!("{name}={}", quoted(value))).collect()
}
