//! How servers join a fleet: those that were named at once, those of names as they are found.

use std::sync::Arc;

use relive_connection::{ClientOptions, Connection, Proposals, Result};

use crate::address::Source;
use crate::fleet::Fleet;
use crate::{resolve, watch};

impl Fleet {
    /// The servers of `sources`. Must be called inside a Tokio runtime, whose tasks watch them.
    ///
    /// # Errors
    /// `InvalidArgument` for an address that cannot be one.
    pub(crate) fn start(
        sources: Vec<Source>,
        options: &ClientOptions,
        proposals: Arc<Proposals>,
    ) -> Result<Arc<Fleet>> {
        let text = sources.iter().map(Source::text).collect::<Vec<_>>().join(",");
        let names: Vec<String> = sources.iter().filter_map(Source::name).collect();
        let fleet = Fleet::new(text, names.len(), options.clone(), proposals);
        for source in sources {
            if let Source::Fixed(address) = source {
                let connection = Connection::new(&address, options.clone())?;
                watch::add(&fleet, address, connection);
            }
        }
        for name in names {
            fleet.spawn(resolve::run(Arc::downgrade(&fleet), name));
        }
        Ok(fleet)
    }
}
