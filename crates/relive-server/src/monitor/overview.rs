//! All monitored data at one point in time.

use std::time::{Duration, SystemTime};

use relive_engine::{MemoryStatus, TableStatus};
use relive_table::{CheckpointStatus, LoggedChange};

use super::Monitor;
use super::process::{self, Process};
use super::state::Phase;
use crate::services::Services;
use crate::traffic::TrafficStatus;

/// A server at one point in time.
pub(super) struct Overview {
    pub(super) at: SystemTime,
    pub(super) phase: Phase,
    pub(super) started: SystemTime,
    pub(super) process: Process,
    /// Set once the tables exist.
    pub(super) server: Option<Server>,
}

/// The data of a server that has tables.
pub(super) struct Server {
    pub(super) uptime: Duration,
    pub(super) connections: u64,
    pub(super) refused_connections: u64,
    pub(super) traffic: TrafficStatus,
    pub(super) unread_bytes: u64,
    pub(super) insert_streams: u64,
    pub(super) sample_streams: u64,
    pub(super) memory: MemoryStatus,
    pub(super) checkpoints: CheckpointStatus,
    pub(super) tables: Vec<TableStatus>,
    pub(super) changes: Vec<LoggedChange>,
}

impl Overview {
    pub(super) fn at(monitor: &Monitor) -> Self {
        Self {
            at: SystemTime::now(),
            phase: monitor.phase(),
            started: monitor.started(),
            process: process::now(),
            server: monitor.services().map(|services| Server::of(&services)),
        }
    }
}

impl Server {
    fn of(services: &Services) -> Self {
        let (insert_streams, sample_streams) = services.open_streams();
        let engine = services.engine();
        Self {
            uptime: services.started().elapsed(),
            connections: services.open_connections(),
            refused_connections: services.refused_connections(),
            traffic: services.traffic().status(),
            unread_bytes: services.traffic().unread_bytes(),
            insert_streams,
            sample_streams,
            memory: engine.memory(),
            checkpoints: engine.checkpoint_status(),
            tables: engine.tables().iter().map(relive_engine::TableHandle::status).collect(),
            changes: engine.changes(),
        }
    }
}

/// Seconds since 1970.
pub(super) fn unix_seconds(time: SystemTime) -> f64 {
    time.duration_since(SystemTime::UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// Bounds beyond this value, which no cursor reaches, are treated as no bound.
pub(super) const UNREACHABLE_CURSOR: f64 = 1e15;
