//! MutatePriorities, Reset and ServerInfo.

use std::sync::Arc;

use relive_engine::Mutation;
use relive_wire::reverb::{
    MutatePrioritiesRequest, MutatePrioritiesResponse, ResetRequest, ResetResponse, ServerInfoRequest,
    ServerInfoResponse,
};
use relive_wire::table;
use tonic::Status;

use super::aside::aside;
use super::{Services, status};

/// Deletes come before updates, as in dm-reverb: a key in both lists is gone.
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
    aside(move || services.engine().reset_table(&request.table, &peer)).await?;
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
