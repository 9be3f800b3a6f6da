//! A run with its tables on a server.

use std::sync::Arc;
use std::time::{Duration, Instant};

use relive_client::blocking::Client;
use relive_table::TableConfig;

use super::RunOptions;
use super::opening::{Tables, expect_run};
use super::session::{OnReport, Session, Trained};
use crate::plan::{Agent, MakeEnvironment};
use crate::remote;
use crate::tables::item::is_loss;
use crate::tables::lease::{Lease, TIMES};
use crate::tables::server::{add, expect};
use crate::tables::silence::{WatchTarget, watched};
use crate::times::Lap;
use crate::{Result, RlError};

/// The time between two writes of the run's state to its table.
const SAVE_EVERY: Duration = Duration::from_secs(10);

/// The time between two attempts to reach a lost server.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// The timeout for one attempt; the run then checks whether to stop.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Learns until the run has completed its steps. Adds the tables that the server lacks. Resumes from the run's state if
/// the server has one. The run is over for the workers only if it ends normally; otherwise they wait for the next
/// driver.
///
/// # Errors
/// The server is lost, refuses to add tables, or has different tables with these names; another driver is active for
/// this run ([`OtherLearner`](RlError::OtherLearner)), or the server has a different run
/// ([`OtherRun`](RlError::OtherRun)). Also returns the errors of the plan.
pub(super) fn train(
    server: &Client,
    agent: &Arc<dyn Agent>,
    options: &RunOptions,
    make: &MakeEnvironment,
    on_report: OnReport<'_>,
) -> Result<Trained> {
    if options.checkpoints.is_some() {
        let expected =
            "none for a run on a server, which saves the run itself (relive serve --checkpoint-dir)";
        return Err(RlError::setting("checkpoints", "a folder", expected));
    }
    let wanted = remote::tables_of_run(agent.tables()?, options.actors);
    // A call may block the learner for a long time, during which the plan reports no waits.
    watched(server, WatchTarget::Server, || {
        // Checked first, so that no tables are added for an impossible run.
        expect_run(server, agent.as_ref(), options, make)?;
        add(server, &wanted)?;
        let mut run = OnServer { server, agent, options, make, kept: None };
        loop {
            match run.attempt(on_report) {
                Err(error) if is_loss(&error) => come_back(server, &wanted, options, &error)?,
                ended => return ended,
            }
        }
    })
}

struct OnServer<'a> {
    server: &'a Client,
    agent: &'a Arc<dyn Agent>,
    options: &'a RunOptions,
    make: &'a MakeEnvironment,
    /// The state of the run when the server was lost, which is newer than the server's checkpoint.
    kept: Option<Vec<u8>>,
}

impl OnServer<'_> {
    /// Learns until the run has completed its steps or the server is lost.
    fn attempt(&mut self, on_report: OnReport<'_>) -> Result<Trained> {
        let OnServer { server, agent, options, make, .. } = *self;
        let lease = Lease::take(server, TIMES, &options.stop)?;
        let tables = Tables::Server { client: server.clone(), lease, state: self.kept.clone() };
        let mut session = Session::begin(agent, options, make, tables, None)?;
        match advance(&mut session, options, on_report) {
            Ok(()) => session.end(),
            Err(error) => {
                self.kept = Some(session.state());
                session.abandon();
                Err(error)
            }
        }
    }
}

fn advance(session: &mut Session, options: &RunOptions, on_report: OnReport<'_>) -> Result<()> {
    // Saved at the start, so that every checkpoint of the server belongs to a run with a known identity.
    session.save()?;
    let mut saved_at = Instant::now();
    session.run(options, on_report, &mut |session, _| {
        if saved_at.elapsed() >= SAVE_EVERY {
            let mut lap = Lap::begin();
            session.save()?;
            session.note_saving(lap.lap());
            saved_at = Instant::now();
        }
        Ok(())
    })?;
    session.evaluate_at_end(on_report)?;
    session.save()
}

/// Waits until a lost server returns with its tables.
fn come_back(server: &Client, wanted: &[TableConfig], options: &RunOptions, why: &RlError) -> Result<()> {
    tracing::warn!("lost the server, or it has stopped: {why}; waiting for it to come back");
    let server = server.with_timeout(TIMEOUT);
    loop {
        // A server that is shutting down still answers.
        std::thread::sleep(LOOK_EVERY);
        if options.stop.is_stopped() {
            return Err(RlError::Stopped);
        }
        match expect(&server, wanted) {
            Err(error) if is_loss(&error) => {}
            looked => {
                looked?;
                tracing::info!("the server is back with the run's tables: continuing");
                return Ok(());
            }
        }
    }
}
