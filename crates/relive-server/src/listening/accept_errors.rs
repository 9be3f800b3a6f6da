//! How the listener handles errors from `accept`.

use std::io;
use std::time::Duration;

use rustix::io::Errno;

/// The pause after an error that may recur immediately.
const PAUSE: Duration = Duration::from_secs(1);

/// The reaction to an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reaction {
    /// Continue: the error affected only one connection.
    Continue,
    /// Pause: the system temporarily lacks a resource.
    PauseForResources,
    /// Pause: a network fault or another error; accept(2) also reports protocol errors.
    Pause,
    /// End: the listener is no longer usable.
    End,
}

/// Determines whether errors are temporary or end the listener.
///
/// # Errors
/// Returns `error` if the listener can accept no more connections.
pub(crate) async fn handle_accept_error(error: io::Error) -> io::Result<()> {
    match reaction_to(&error) {
        Reaction::Continue => tracing::debug!(%error, "accept failed"),
        Reaction::PauseForResources => {
            tracing::error!(
                %error,
                "accepts no connections for one second; raise the limit of open files, or give the machine more memory"
            );
            tokio::time::sleep(PAUSE).await;
        }
        Reaction::Pause => {
            tracing::warn!(%error, "accepts no connections for one second");
            tokio::time::sleep(PAUSE).await;
        }
        Reaction::End => return Err(error),
    }
    Ok(())
}

fn reaction_to(error: &io::Error) -> Reaction {
    // An error without a number does not come from the system. A runtime that is shutting down, for example, reports
    // such an error.
    let Some(number) = Errno::from_io_error(error) else { return Reaction::End };
    match number {
        Errno::BADF | Errno::INVAL | Errno::NOTSOCK | Errno::FAULT => Reaction::End,
        Errno::CONNABORTED | Errno::CONNRESET | Errno::INTR => Reaction::Continue,
        Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM => Reaction::PauseForResources,
        _ => Reaction::Pause,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listener_errors_end_the_listener() {
        let table = [
            (Reaction::End, vec![Errno::BADF, Errno::INVAL, Errno::NOTSOCK, Errno::FAULT]),
            (Reaction::Continue, vec![Errno::CONNABORTED, Errno::CONNRESET, Errno::INTR]),
            (Reaction::PauseForResources, vec![Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM]),
            (
                Reaction::Pause,
                vec![
                    Errno::PERM,
                    Errno::PROTO,
                    Errno::NETDOWN,
                    Errno::NETUNREACH,
                    Errno::HOSTUNREACH,
                    Errno::HOSTDOWN,
                    Errno::NOPROTOOPT,
                    Errno::NONET,
                    Errno::OPNOTSUPP,
                    Errno::TIMEDOUT,
                ],
            ),
        ];
        for (expected, errors) in table {
            for error in errors {
                assert_eq!(reaction_to(&io::Error::from(error)), expected, "{error:?}");
            }
        }
        assert_eq!(reaction_to(&io::Error::other("the runtime is being shut down")), Reaction::End);
    }

    #[tokio::test(start_paused = true)]
    async fn a_network_error_is_retried_after_a_pause() {
        let began = tokio::time::Instant::now();
        handle_accept_error(Errno::CONNABORTED.into()).await.expect("it was one connection's");
        assert_eq!(began.elapsed(), Duration::ZERO);
        handle_accept_error(Errno::NETDOWN.into()).await.expect("it passes");
        assert_eq!(began.elapsed(), PAUSE);
        let error = handle_accept_error(Errno::BADF.into()).await.expect_err("there is no listener");
        assert_eq!(Errno::from_io_error(&error), Some(Errno::BADF));
    }
}
