//! Describe returns information about the server for people and tools; InitializeConnection and Negotiate select the
//! transport for a client.

use relive_engine::{MemoryStatus, MemoryWaiter, Operation, TableStatus, WaiterInfo, process_bytes};
use relive_wire::bulk::VERSION;
use relive_wire::reverb::{InitializeConnectionRequest, InitializeConnectionResponse};
use relive_wire::v1::waiter::Operation as WireOperation;
use relive_wire::v1::{
    DescribeRequest, DescribeResponse, Memory, NegotiateRequest, NegotiateResponse,
    TableStatus as WireStatus, Waiter,
};
use relive_wire::{checkpoint_status, codec, operate, structure, table};
use tonic::Status;

use crate::services::{LocalSocket, Services};

pub(super) fn describe(services: &Services, _request: DescribeRequest) -> DescribeResponse {
    let (insert_streams, sample_streams) = services.open_streams();
    let status = services.engine().memory();
    DescribeResponse {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        uptime_ms: millis(services.started().elapsed()),
        tables: services.engine().tables().iter().map(|handle| table_status(&handle.status())).collect(),
        chunks: Some(table::chunks_to_wire(status.chunks)),
        memory: Some(memory(&status)),
        insert_streams,
        sample_streams,
        checkpoints: Some(checkpoint_status::to_wire(&services.engine().checkpoint_status())),
        codecs: codec::known(),
        connections: services.open_connections(),
        changes: services.engine().changes().iter().map(operate::logged_to_wire).collect(),
    }
}

fn memory(status: &MemoryStatus) -> Memory {
    let reason = status.reason();
    let waiter = |waiter: &MemoryWaiter| Waiter {
        operation: WireOperation::Insert.into(),
        who: waiter.who.to_string(),
        waiting_ms: millis(waiter.waiting),
        reason: reason.clone(),
        missing: 0,
        wanted: 0,
    };
    Memory {
        max_bytes: status.max_bytes.unwrap_or(0),
        process_bytes: process_bytes().unwrap_or(0),
        waiters: status.waiters.iter().map(waiter).collect(),
        waiters_not_listed: status.waiters_not_listed as u64,
        spill_error: status.spill_error.clone().unwrap_or_default(),
    }
}

fn table_status(status: &TableStatus) -> WireStatus {
    // A signature already contains the structure of the columns.
    let columns = status.columns.as_deref().filter(|_| !has_signature(status));
    WireStatus {
        info: Some(table::info_to_wire(&status.info)),
        limiter_cursor: status.limiter_cursor,
        deletes: u64::try_from(status.info.deletes).unwrap_or(0),
        referenced_bytes: status.referenced_bytes,
        waiters: status.waiters.iter().map(waiter).collect(),
        waiters_not_listed: status.waiters_not_listed as u64,
        undelivered_samples: status.undelivered_samples,
        sample_waits_for: status.sample_shortfall.map_or_else(String::new, |missing| missing.to_string()),
        insert_waits_for: status.insert_shortfall.map_or_else(String::new, |missing| missing.to_string()),
        columns: columns.map(structure::to_wire),
        chunks: Some(table::chunks_to_wire(status.bytes)),
        inserts_paused: status.paused.inserts,
        samples_paused: status.paused.samples,
    }
}

fn has_signature(status: &TableStatus) -> bool {
    status.info.config.signature.as_deref().is_some_and(|signature| !signature.is_empty())
}

fn waiter(info: &WaiterInfo) -> Waiter {
    let operation = match info.operation {
        Operation::Insert => WireOperation::Insert,
        Operation::Sample => WireOperation::Sample,
    };
    Waiter {
        operation: operation.into(),
        who: info.who.to_string(),
        waiting_ms: millis(info.waiting),
        reason: info.reason(),
        missing: info.shortfall.map_or(0, |missing| missing.missing()),
        wanted: info.wanted,
    }
}

fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Always responds that the client is in another process, regardless of the process id that the client sends. Process
/// ids in different containers can collide, and the client would then dereference an address of this process. The call
/// is a stream with one message in each direction.
pub(super) fn initialize(
    _request: InitializeConnectionRequest,
) -> Result<InitializeConnectionResponse, Status> {
    Ok(InitializeConnectionResponse { address: 0 })
}

/// Returns the transports that a client can use for bulk data.
pub(super) fn negotiate(services: &Services, _: NegotiateRequest) -> NegotiateResponse {
    let LocalSocket { host_id, name } = services.local().clone();
    let local_name = name.map_or_else(String::new, |address| address.name().to_owned());
    NegotiateResponse { bulk_version: VERSION, host_id, local_name }
}
