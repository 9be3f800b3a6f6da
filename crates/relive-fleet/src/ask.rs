//! A concurrent call to several servers.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use relive_connection::{Connection, Error, ErrorKind, Result};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::fleet::Fleet;
use crate::member::Member;

/// How long a server may take before its watcher checks whether it is reachable.
const PATIENCE: Duration = Duration::from_millis(50);

/// A call to some of the servers.
pub type Call<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// One of the calls as a task. All tasks have one type, because each type of task takes a second to compile.
type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The result of a call on each server.
pub struct Answers<T> {
    operation: &'static str,
    answers: Vec<(Arc<Member>, Result<T>)>,
}

impl Fleet {
    /// Makes `call` on each of `servers` concurrently. Does not wait for a server that is left out in the meantime.
    pub async fn ask<T, F>(
        &self,
        operation: &'static str,
        servers: &[Arc<Member>],
        call: impl Fn(Connection, &Arc<Member>) -> F,
    ) -> Answers<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let answers: Arc<Mutex<Vec<_>>> = Arc::new(Mutex::new(servers.iter().map(|_| None).collect()));
        let mut calls = JoinSet::new();
        for (place, server) in servers.iter().enumerate() {
            let answer = call(server.connection().clone(), server);
            let (server, answers) = (Arc::clone(server), Arc::clone(&answers));
            let task: Task = Box::pin(async move {
                let answer = one(operation, &server, answer).await;
                if let Some(mine) = answers.lock().get_mut(place) {
                    *mine = Some(answer);
                }
            });
            calls.spawn_on(task, &self.runtime());
        }
        while calls.join_next().await.is_some() {}
        let ended =
            || Error::new(ErrorKind::Cancelled, format!("{operation}: the client's runtime has ended"));
        let answers = std::mem::take(&mut *answers.lock()).into_iter();
        let answers = answers.map(|answer| answer.unwrap_or_else(|| Err(ended())));
        Answers { operation, answers: servers.iter().cloned().zip(answers).collect() }
    }
}

async fn one<T>(
    operation: &'static str,
    server: &Member,
    answer: impl Future<Output = Result<T>>,
) -> Result<T> {
    let mut answer = std::pin::pin!(answer);
    tokio::select! {
        biased;
        answer = answer.as_mut() => return answer,
        () = server.until_away() => return Err(server.away_error(operation)),
        () = sleep(PATIENCE) => server.refresh_now(),
    }
    tokio::select! {
        biased;
        answer = answer => answer,
        () = server.until_away() => Err(server.away_error(operation)),
    }
}

impl Answers<()> {
    /// Like [`all`](Self::all), but if any servers have the table, considers only those. When a call is repeated, only
    /// the servers on which the first call failed still have the table.
    pub(crate) fn all_with_table(mut self) -> Result<()> {
        if self.answers.iter().any(|(_, answer)| answer.is_ok()) {
            let had_none = |error: &Error| error.kind() == ErrorKind::NotFound;
            self.answers.retain(|(_, answer)| !answer.as_ref().is_err_and(had_none));
        }
        self.all().map(drop)
    }
}

impl<T> Answers<T> {
    /// Returns the responses from all servers.
    ///
    /// # Errors
    /// A [`PartialFailure`] with the result on each server, unless all calls succeeded.
    pub fn all(self) -> Result<Vec<(Arc<Member>, T)>> {
        if self.answers.iter().any(|(_, answer)| answer.is_err()) {
            return Err(self.failure());
        }
        Ok(self.answers.into_iter().filter_map(|(server, answer)| Some((server, answer.ok()?))).collect())
    }

    /// Returns the responses from the reachable servers.
    ///
    /// # Errors
    /// A [`PartialFailure`] if any server refused, or none was reachable.
    pub fn present(self) -> Result<Vec<(Arc<Member>, T)>> {
        let refused = |error: &Error| !is_absence(error);
        let answers = || self.answers.iter().map(|(_, answer)| answer);
        if answers().any(|answer| answer.as_ref().is_err_and(refused)) || answers().all(Result::is_err) {
            return Err(self.failure());
        }
        Ok(self.answers.into_iter().filter_map(|(server, answer)| Some((server, answer.ok()?))).collect())
    }

    /// Returns an error if any server refused. An unreachable server is ignored, because it either loses its items or
    /// returns with its items unchanged.
    pub(crate) fn none_refused(self) -> Result<()> {
        let refused = |error: &Error| !is_absence(error);
        let any = self.answers.iter().any(|(_, answer)| answer.as_ref().is_err_and(refused));
        if any { Err(self.failure()) } else { Ok(()) }
    }

    /// Iterates over the servers that were unreachable.
    pub(crate) fn absent(&self) -> impl Iterator<Item = &Arc<Member>> {
        let is_away = |answer: &Result<T>| answer.as_ref().is_err_and(is_absence);
        self.answers.iter().filter(move |(_, answer)| is_away(answer)).map(|(server, _)| server)
    }

    fn failure(self) -> Error {
        let (mut done, mut failed) = (Vec::new(), Vec::new());
        for (server, answer) in self.answers {
            let address = server.address().to_owned();
            match answer {
                Ok(_) => done.push(address),
                Err(error) => failed.push((address, error)),
            }
        }
        PartialFailure { operation: self.operation, done, failed }.into_error()
    }
}

/// Returns whether a server is unreachable or shutting down.
fn is_absence(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Cancelled)
}

/// The result on each server of a call that not all servers completed. It is the [`source`](std::error::Error::source)
/// of the call's error.
#[derive(Debug)]
pub struct PartialFailure {
    operation: &'static str,
    done: Vec<String>,
    failed: Vec<(String, Error)>,
}

impl PartialFailure {
    /// Returns the servers that completed the call.
    pub fn done(&self) -> &[String] {
        &self.done
    }

    /// Returns the servers that did not complete the call, each with its error.
    pub fn failed(&self) -> &[(String, Error)] {
        &self.failed
    }

    fn into_error(self) -> Error {
        let kind = self.failed.first().map_or(ErrorKind::Internal, |(_, error)| error.kind());
        Error::with_source(kind, self.to_string(), self)
    }
}

impl fmt::Display for PartialFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (done, all) = (self.done.len(), self.done.len() + self.failed.len());
        let why: Vec<String> =
            self.failed.iter().map(|(address, error)| format!("{address} ({error})")).collect();
        write!(f, "{}: succeeded on {done} of {all} servers, failed on {}", self.operation, why.join(", "))?;
        if done > 0 { write!(f, "; succeeded on {}; call it again", self.done.join(", ")) } else { Ok(()) }
    }
}

impl std::error::Error for PartialFailure {}
