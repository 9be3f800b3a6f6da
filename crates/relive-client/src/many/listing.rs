//! Looking at the items of a table of all servers.

use std::collections::HashMap;
use std::time::Duration;

use super::ask::Call;
use super::fleet::Many;
use crate::client::ItemPage;
use crate::{Error, Sample};

/// Where in a place of a page the number of its server begins. Below is the server's own place, the number of an insert.
const SERVER_SHIFT: u32 = 44;
const PLACE_MASK: u64 = (1 << SERVER_SHIFT) - 1;

impl Many {
    /// Some items of the server that `from` names, or else of the first; then come those of the next.
    pub(crate) fn items<'a>(
        &'a self,
        table: &'a str,
        from: u64,
        limit: usize,
        timeout: Duration,
    ) -> Call<'a, ItemPage> {
        Box::pin(async move {
            let (up, timeout) = self.wait_for_one("items", timeout).await?;
            let number = u32::try_from(from >> SERVER_SHIFT).unwrap_or(u32::MAX);
            let Some(server) = up.iter().find(|server| server.number >= number) else {
                return Ok(ItemPage { items: Vec::new(), next: None });
            };
            let place = if server.number == number { from & PLACE_MASK } else { 0 };
            let asked = self.ask("items", std::slice::from_ref(server), |client, _| {
                let table = table.to_owned();
                async move { client.with_timeout(timeout).items(&table, place, limit).await }
            });
            let page = asked.await.all()?.into_iter().next().map(|(_, page)| page);
            let ItemPage { items, next } = page.unwrap_or(ItemPage { items: Vec::new(), next: None });
            let next = match next {
                Some(next) if next > PLACE_MASK => {
                    let text = format!(
                        "items: place {next} of table {table:?} is beyond what pages of many servers reach"
                    );
                    return Err(Error::invalid(text));
                }
                Some(next) => Some(u64::from(server.number) << SERVER_SHIFT | next),
                None => up
                    .iter()
                    .find(|other| other.number > server.number)
                    .map(|other| u64::from(other.number) << SERVER_SHIFT),
            };
            Ok(ItemPage { items, next })
        })
    }

    /// The items of these keys, from whichever server has them.
    pub(crate) fn get_items<'a>(
        &'a self,
        table: &'a str,
        keys: &'a [u64],
        timeout: Duration,
    ) -> Call<'a, Vec<Option<Sample>>> {
        Box::pin(async move {
            let (up, timeout) = self.wait_for_one("get_items", timeout).await?;
            let asked = self.ask("get_items", &up, |client, _| {
                let (table, keys) = (table.to_owned(), keys.to_vec());
                async move { client.with_timeout(timeout).get_items(&table, &keys).await }
            });
            let found = asked.await.present()?.into_iter().flat_map(|(_, items)| items).flatten();
            let found: HashMap<u64, Sample> = found.map(|item| (item.info().key, item)).collect();
            Ok(keys.iter().map(|key| found.get(key).cloned()).collect())
        })
    }
}
