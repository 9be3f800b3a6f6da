//! Checks of items against their tables. All items of a pattern have the same names, types and shapes, so only the first
//! one is checked.

use std::sync::Arc;

use relive_connection::Result;

use super::writer::{StructuredWriter, StructuredWriterOptions};
use crate::columns::Column;

/// The checks of a writer's items.
#[derive(Debug)]
pub(super) struct Validation {
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
    pub(super) fn new(options: &StructuredWriterOptions) -> Validation {
        let StructuredWriterOptions { check_names, validate_items, .. } = *options;
        let signatures = if validate_items { Signatures::Unknown } else { Signatures::Ignored };
        Validation { signatures, check_names: validate_items && check_names }
    }
}

impl StructuredWriter {
    /// Returns whether items can be checked without a request to the server.
    pub(super) fn knows_signatures(&mut self) -> Result<bool> {
        if self.validation.signatures == Signatures::Unknown {
            for pattern in &self.patterns {
                if self.writer.known_signature(&pattern.table)?.is_none() {
                    return Ok(false);
                }
            }
            self.validation.signatures = Signatures::Known;
        }
        Ok(true)
    }

    /// Requests the signatures that are needed.
    pub(super) async fn learn_signatures(&mut self) -> Result<()> {
        if self.validation.signatures == Signatures::Unknown {
            for pattern in &self.patterns {
                self.writer.learn_signature(&pattern.table).await?;
            }
            self.validation.signatures = Signatures::Known;
        }
        Ok(())
    }

    /// Checks the first item of pattern `index`, and starts the comparison of its column names with the table's names.
    pub(super) fn check_item(&mut self, index: usize, table: &Arc<str>, columns: &[Column]) -> Result<()> {
        let Some(pattern) = self.patterns.get_mut(index).filter(|pattern| !pattern.is_checked) else {
            return Ok(());
        };
        if self.validation.signatures == Signatures::Known
            && let Some(signature) = self.writer.known_signature(table)?
        {
            signature.check_layout(columns.iter().map(|column| (column.dtype(), column.shape())))?;
        }
        let structure = pattern.config.pattern().map(|_| ());
        if self.validation.check_names {
            self.writer.agree_unless_known(table, structure)?;
        } else {
            self.writer.name_columns_with(table, || Some(structure));
        }
        pattern.is_checked = true;
        Ok(())
    }
}
