//! ChangeTable, AddTable and DropTable.

use std::sync::Arc;

use relive_wire::operate;
use relive_wire::v1::{
    AddTableRequest, AddTableResponse, ChangeTableRequest, ChangeTableResponse, DropTableRequest,
    DropTableResponse,
};
use tonic::Status;

use super::aside::aside;
use super::{Services, status};

pub(super) async fn change_table(
    services: Services,
    peer: Arc<str>,
    request: ChangeTableRequest,
) -> Result<ChangeTableResponse, Status> {
    let change = operate::change_from_wire(&request);
    if change.is_empty() {
        return Err(Status::invalid_argument("the request changes nothing: set at least one rule"));
    }
    let changed = aside(move || services.engine().change_table(&request.table, &change, &peer)).await?;
    Ok(operate::changed_to_wire(&changed))
}

pub(super) fn add_table(
    services: &Services,
    peer: &Arc<str>,
    request: &AddTableRequest,
) -> Result<AddTableResponse, Status> {
    let config = operate::add_from_wire(request).map_err(|error| status::of_wire(&error))?;
    let added = services.engine().add_table(config, peer);
    added.map(|()| AddTableResponse {}).map_err(|error| status::of_engine(&error))
}

pub(super) async fn drop_table(
    services: Services,
    peer: Arc<str>,
    request: DropTableRequest,
) -> Result<DropTableResponse, Status> {
    aside(move || services.engine().drop_table(&request.table, &peer)).await?;
    Ok(DropTableResponse {})
}
