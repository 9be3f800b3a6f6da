//! A run whose tables are on a server.

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
use crate::tables::silence::{Missed, watched};
use crate::times::Lap;
use crate::{Result, RlError};

/// Time from one state of the run in its table to the next.
const SAVE_EVERY: Duration = Duration::from_secs(10);

/// Time from one look for a server that was lost to the next.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// How long a look may take, before the run is asked whether it is to stop.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Learns until the workers have made enough steps. Adds the tables that the server does not have. Where there is the
/// state of a run, it goes on from that. Only if it ends in order the run is over for the workers; otherwise they
/// wait for the next driver.
///
/// # Errors
/// The server is lost or does not let it add tables, or has others of these names; another driver is at work on this
/// run ([`OtherLearner`](RlError::OtherLearner)), or the run there is of something else
/// ([`OtherRun`](RlError::OtherRun)); those of the plan.
pub(super) fn train(
    server: &Client,
    agent: &Arc<dyn Agent>,
    options: &RunOptions,
    make: &MakeEnvironment,
    on_report: OnReport<'_>,
) -> Result<Trained> {
    if options.checkpoints.is_some() {
        let expected =
            "none for a run on a server, whose checkpoints are the server's (relive serve --checkpoint-dir)";
        return Err(RlError::setting("checkpoints", "a folder", expected));
    }
    let wanted = remote::tables_of_run(agent.tables()?, options.actors);
    watched(server, Missed::Server, || {
        // Before tables are added for a run that cannot be there.
        expect_run(server, agent.as_ref(), options, make)?;
        add(server, &wanted)
    })?;
    let mut run = OnServer { server, agent, options, make, kept: None };
    loop {
        match run.attempt(on_report) {
            Err(error) if is_loss(&error) => come_back(server, &wanted, options, &error)?,
            ended => return ended,
        }
    }
}

struct OnServer<'a> {
    server: &'a Client,
    agent: &'a Arc<dyn Agent>,
    options: &'a RunOptions,
    make: &'a MakeEnvironment,
    /// The state of the run when the server was lost: it knows more than a checkpoint of the server.
    kept: Option<Vec<u8>>,
}

impl OnServer<'_> {
    /// Learns until there are steps enough, or the server is lost.
    fn attempt(&mut self, on_report: OnReport<'_>) -> Result<Trained> {
        let OnServer { server, agent, options, make, .. } = *self;
        let lease = watched(server, Missed::Server, || Lease::take(server, TIMES, &options.stop))?;
        let tables = Tables::Server { client: server.clone(), lease, state: self.kept.clone() };
        let mut session = Session::begin(agent, options, make, tables, None)?;
        // The learner may be held up in a call for long: it is not its plan that tells what it waits for then.
        match watched(server, Missed::Server, || advance(&mut session, options, on_report)) {
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
    // From the beginning, so that a checkpoint of the server is one of a run, and everybody knows of what.
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

/// Waits for a server that was lost, with its tables.
fn come_back(server: &Client, wanted: &[TableConfig], options: &RunOptions, why: &RlError) -> Result<()> {
    tracing::warn!("the server is lost, or has stopped: {why}; waiting for it to come back");
    let server = server.with_timeout(TIMEOUT);
    loop {
        // A server that stops answers to the end.
        std::thread::sleep(LOOK_EVERY);
        if options.stop.is_stopped() {
            return Err(RlError::Stopped);
        }
        match expect(&server, wanted) {
            Err(error) if is_loss(&error) => {}
            looked => {
                looked?;
                tracing::info!("the server is back, with the run's tables: going on");
                return Ok(());
            }
        }
    }
}
