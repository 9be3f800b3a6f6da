//! NameColumns: what the items of a table look like.

use std::sync::Arc;

use relive_engine::TableHandle;
use relive_table::ItemStructure;
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

/// What the reader of a stream was told last of what items look like.
#[derive(Debug, Default)]
pub(crate) struct Told(Option<Arc<ItemStructure>>);

impl Told {
    /// What items of `table` look like, as far as that is known; none if the reader has been told so.
    pub(crate) fn news(&mut self, table: &TableHandle) -> Option<Option<Arc<ItemStructure>>> {
        let structure = table.structure();
        let is_known = match (&self.0, &structure) {
            // The answers of two tables differ, whatever they say.
            (Some(told), Some(structure)) => Arc::ptr_eq(told, structure),
            (told, structure) => told.is_none() && structure.is_none(),
        };
        if is_known {
            return None;
        }
        self.0.clone_from(&structure);
        Some(structure)
    }
}
