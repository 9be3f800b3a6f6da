//! What a person has to run.

/// A job in the words of an engine, or of a shell.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Written {
    /// Files that the commands read. They belong into one folder, in which the commands are run.
    pub files: Vec<File>,
    /// Commands that start the job, in any order.
    pub start: Vec<String>,
    /// A command that shows its processes. None if nothing of this launcher can: where a process was started, it can be seen.
    pub watch: Option<String>,
    /// A command that ends it, none likewise.
    pub stop: Option<String>,
    /// A command that changes the number of processes in its last task to a `COUNT`, none likewise.
    pub resize: Option<String>,
}

/// A file of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Its name, without a folder.
    pub name: String,
    /// What is in it.
    pub content: String,
    /// Whether nobody else may read it: it has the job's token.
    pub is_secret: bool,
}
