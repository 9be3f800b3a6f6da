//! Shell command lines.

use std::borrow::Cow;

use super::job::{Job, Task, Word};

/// Quotes a word so that the shell expands nothing in it.
pub(super) fn quoted(text: &str) -> Cow<'_, str> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:=,@%+".contains(&byte);
    if !text.is_empty() && text.bytes().all(is_plain) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("'{}'", text.replace('\'', r"'\''")))
}

/// Returns a task's command line, with `number` and `host_of` as shell expressions.
pub(super) fn command_line(task: &Task, number: &str, host_of: impl Fn(&str) -> String) -> String {
    let word = |word: &Word| match word {
        Word::Text(text) => quoted(text).into_owned(),
        Word::Number => number.to_owned(),
        Word::HostOf(task, after) if after.is_empty() => host_of(task),
        Word::HostOf(task, after) => format!("{}{}", host_of(task), quoted(after)),
    };
    // The shell would interpret a program name that contains a `=` as an assignment.
    let begin = if matches!(task.command.first(), Some(Word::Text(name)) if name.contains('=')) {
        "env -- "
    } else {
        ""
    };
    let words: Vec<String> = task.command.iter().map(word).collect();
    format!("{begin}{}", words.join(" "))
}

/// Returns the job's environment variables as assignments that precede a command.
pub(super) fn assignments(job: &Job) -> Vec<String> {
    job.variables().map(|(name, value)| format!("{name}={}", quoted(value))).collect()
}
