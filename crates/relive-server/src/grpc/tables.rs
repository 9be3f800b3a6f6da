//! MutatePriorities, Reset, ServerInfo and NameColumns.

use std::sync::Arc;

use relive_engine::Mutation;
use relive_wire::reverb::{
    MutatePrioritiesRequest, MutatePrioritiesResponse, ResetRequest, ResetResponse, ServerInfoRequest,
    ServerInfoResponse,
};
use relive_wire::v1::{NameColumnsRequest, NameColumnsResponse};
use relive_wire::{structure, table};
use tonic::Status;

use crate::services::{Services, run_blocking, status};

/// Deletes are applied before updates, as in dm-reverb, so a key that is in both lists is deleted.
pub(super) fn mutate_priorities(
    services: &Services,
    request: &MutatePrioritiesRequest,
) -> Result<MutatePrioritiesResponse, Status> {
    let deletes = request.delete_keys.iter().map(|key| Mutation::Delete { key: *key });
    let updates =
        request.updates.iter().map(|update| Mutation::Update { key: update.key, priority: update.priority });
    services
        .engine()
        .table(&request.table)
        .and_then(|table| table.mutate(deletes.chain(updates)))
        .map_err(|error| status::of_engine(&error))?;
    Ok(MutatePrioritiesResponse {})
}

pub(super) async fn reset(
    services: Services,
    peer: Arc<str>,
    request: ResetRequest,
) -> Result<ResetResponse, Status> {
    run_blocking(move || services.engine().reset_table(&request.table, &peer)).await?;
    Ok(ResetResponse {})
}

pub(super) fn server_info(services: &Services, _request: ServerInfoRequest) -> ServerInfoResponse {
    ServerInfoResponse {
        tables_state_id: Some(services.tables_state_id()),
        table_info: services
            .engine()
            .tables()
            .iter()
            .map(|handle| table::info_to_wire(&handle.info()))
            .collect(),
    }
}

/// Records the structure of a table's items, as a writer declares it.
pub(super) fn name_columns(
    services: &Services,
    request: &NameColumnsRequest,
) -> Result<NameColumnsResponse, Status> {
    let table = services.engine().table(&request.table).map_err(|error| status::of_engine(&error))?;
    let message = request.structure.as_ref();
    let message = message.ok_or_else(|| Status::invalid_argument("the structure is missing"))?;
    let structure = structure::from_wire(message).map_err(|error| status::of_wire(&error))?;
    let kept = if request.is_checked {
        let given = structure.clone();
        let agreed = table.agree_on_columns(structure).map_err(|error| status::of_engine(&error))?;
        agreed.fits(&given)
    } else {
        table.name_columns(structure).map_err(|error| status::of_engine(&error))?
    };
    let structure = table.structure();
    Ok(NameColumnsResponse { kept, structure: Some(structure::of_items(structure.as_deref())) })
}
