//! NameColumns: what the items of a table look like.

use relive_wire::structure;
use relive_wire::v1::{NameColumnsRequest, NameColumnsResponse};
use tonic::Status;

use super::{Services, status};

pub(super) fn name(services: &Services, request: &NameColumnsRequest) -> Result<NameColumnsResponse, Status> {
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
