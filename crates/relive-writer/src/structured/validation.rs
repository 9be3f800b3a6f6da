//! Checks of patterns against their tables. All items of a pattern have the same names, types and shapes, so one check is
//! enough.

use std::sync::Arc;

use relive_connection::Result;
use relive_tensor::{DType, Nest, Shape};
use smallvec::SmallVec;

use crate::trajectory::TrajectoryWriter;

/// The checks of a writer's patterns.
#[derive(Debug)]
pub(crate) struct Validation {
    signatures: Signatures,
    check_names: bool,
}

/// Whether items are compared with signatures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Signatures {
    Ignored,
    /// The signatures of some tables may still have to be requested.
    Unknown,
    Known,
}

impl Validation {
    /// Creates the checks. Names are checked only if items are.
    pub(crate) fn new(validate_items: bool, check_names: bool) -> Validation {
        let signatures = if validate_items { Signatures::Unknown } else { Signatures::Ignored };
        Validation { signatures, check_names: validate_items && check_names }
    }

    /// Lets the signatures be requested again.
    pub(crate) fn forget_signatures(&mut self) {
        if self.signatures == Signatures::Known {
            self.signatures = Signatures::Unknown;
        }
    }

    /// Returns whether items of these tables can be checked without a request to the server.
    pub(crate) fn knows<'a>(
        &mut self,
        writer: &TrajectoryWriter,
        mut tables: impl Iterator<Item = &'a Arc<str>>,
    ) -> Result<bool> {
        if self.signatures == Signatures::Unknown {
            let unknown = tables.find_map(|table| match writer.known_signature(table) {
                Ok(Some(_)) => None,
                Ok(None) => Some(Ok(false)),
                Err(error) => Some(Err(error)),
            });
            if let Some(unknown) = unknown {
                return unknown;
            }
            self.signatures = Signatures::Known;
        }
        Ok(true)
    }

    /// Requests the signatures of these tables, if they are needed.
    pub(crate) async fn learn<'a>(
        &mut self,
        writer: &TrajectoryWriter,
        tables: impl Iterator<Item = &'a Arc<str>>,
    ) -> Result<()> {
        if self.signatures == Signatures::Unknown {
            for table in tables {
                writer.learn_signature(table).await?;
            }
            self.signatures = Signatures::Known;
        }
        Ok(())
    }

    /// Checks that the table's signature allows items with columns of these types and shapes.
    pub(crate) fn check_layout(
        &self,
        writer: &TrajectoryWriter,
        table: &str,
        columns: SmallVec<[(DType, Shape); 4]>,
    ) -> Result<()> {
        if self.signatures != Signatures::Known {
            return Ok(());
        }
        let signature = writer.known_signature(table)?;
        signature.map_or(Ok(()), |signature| signature.check_layout(columns.into_iter()))
    }

    /// Starts to compare the column names of items with the table's names.
    pub(crate) fn compare_names(
        &self,
        writer: &mut TrajectoryWriter,
        table: &Arc<str>,
        structure: Nest<()>,
    ) -> Result<()> {
        if self.check_names {
            writer.agree_unless_known(table, structure)?;
        } else {
            writer.name_columns_with(table, || Some(structure));
        }
        Ok(())
    }
}
