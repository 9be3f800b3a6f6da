//! How the listener handles errors of `accept`.

use std::io;
use std::time::Duration;

use rustix::io::Errno;

/// Pause after an error that may recur at once.
const PAUSE: Duration = Duration::from_secs(1);

/// The reaction to an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// It affected one connection.
    GoOn,
    /// The system temporarily lacks a resource.
    AwaitRoom,
    /// A network fault or another error; accept(2) passes on protocol errors.
    AwaitBetter,
    /// The listener is no longer usable.
    End,
}

/// Distinguishes temporary errors from the end of the listener.
///
/// # Errors
/// `error`, if the listener can accept no more connections.
pub(crate) async fn survive(error: io::Error) -> io::Result<()> {
    match verdict(&error) {
        Verdict::GoOn => tracing::debug!(%error, "accept failed"),
        Verdict::AwaitRoom => {
            tracing::error!(
                %error,
                "accepts no connections for one second; raise the limit of open files, or give the machine more memory"
            );
            tokio::time::sleep(PAUSE).await;
        }
        Verdict::AwaitBetter => {
            tracing::warn!(%error, "accepts no connections for one second");
            tokio::time::sleep(PAUSE).await;
        }
        Verdict::End => return Err(error),
    }
    Ok(())
}

fn verdict(error: &io::Error) -> Verdict {
    // An error without a number is not the system's: a runtime that ends reports one.
    let Some(number) = Errno::from_io_error(error) else { return Verdict::End };
    match number {
        Errno::BADF | Errno::INVAL | Errno::NOTSOCK | Errno::FAULT => Verdict::End,
        Errno::CONNABORTED | Errno::CONNRESET | Errno::INTR => Verdict::GoOn,
        Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM => Verdict::AwaitRoom,
        _ => Verdict::AwaitBetter,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_wrong_with_the_listener_ends_it() {
        let table = [
            (Verdict::End, vec![Errno::BADF, Errno::INVAL, Errno::NOTSOCK, Errno::FAULT]),
            (Verdict::GoOn, vec![Errno::CONNABORTED, Errno::CONNRESET, Errno::INTR]),
            (Verdict::AwaitRoom, vec![Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM]),
            (
                Verdict::AwaitBetter,
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
                assert_eq!(verdict(&io::Error::from(error)), expected, "{error:?}");
            }
        }
        assert_eq!(verdict(&io::Error::other("the runtime is being shut down")), Verdict::End);
    }

    #[tokio::test(start_paused = true)]
    async fn a_fault_of_the_network_is_waited_out() {
        let began = tokio::time::Instant::now();
        survive(Errno::CONNABORTED.into()).await.expect("it was one connection's");
        assert_eq!(began.elapsed(), Duration::ZERO);
        survive(Errno::NETDOWN.into()).await.expect("it passes");
        assert_eq!(began.elapsed(), PAUSE);
        let error = survive(Errno::BADF.into()).await.expect_err("there is no listener");
        assert_eq!(Errno::from_io_error(&error), Some(Errno::BADF));
    }
}
