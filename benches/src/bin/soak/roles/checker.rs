//! Lists the whole table repeatedly, and deletes its oldest items.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use relive_client::Client;

use crate::world::{TABLE, World};
use relive_benches::Outcome;

use crate::content;

/// The number of items that remain when the oldest ones are deleted after a listing.
pub(crate) const CAPACITY: usize = 20_000;

const PAGE: usize = 5_000;
const PAUSE: Duration = Duration::from_millis(200);

pub(crate) async fn run(world: Arc<World>, client: Client) -> Outcome {
    loop {
        match look(&world, &client).await {
            Ok(items) => {
                if let Err(error) = delete(&world, &client, &items).await {
                    world.failed(&*error);
                }
            }
            Err(error) => world.failed(&*error),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Reads the number and the key of every item, oldest first.
pub(crate) async fn look(world: &World, client: &Client) -> Outcome<Vec<(u64, u64)>> {
    let begun = world.model.now();
    let (mut items, mut from) = (Vec::new(), 0);
    loop {
        let page = client.items(TABLE, from, PAGE).await?;
        let keys: Vec<u64> = page.items.iter().map(|item| item.key).collect();
        let samples = client.get_items(TABLE, &keys).await?;
        for (listed, sample) in page.items.iter().zip(&samples) {
            // Only this role deletes items, so listed items still exist.
            let Some(sample) = sample else {
                if world.model.same_life(begun) {
                    world
                        .model
                        .fault(format!("the item with key {} was listed and is not there", listed.key));
                }
                continue;
            };
            match content::number(sample) {
                Ok(number) => {
                    world.model.seen(number, Some(listed.priority), begun);
                    items.push((number, listed.key));
                }
                Err(error) => world.model.fault(error.to_string()),
            }
        }
        match page.next {
            Some(next) => from = next,
            None => break,
        }
    }
    let found: HashSet<u64> = items.iter().map(|(number, _)| *number).collect();
    if found.len() < items.len() && world.model.same_life(begun) {
        world.model.fault(format!("{} items are in the table twice", items.len() - found.len()));
    }
    world.model.looked(&found, begun);
    Ok(items)
}

/// Deletes all but the newest items.
async fn delete(world: &World, client: &Client, items: &[(u64, u64)]) -> Outcome {
    let old = items.get(..items.len().saturating_sub(CAPACITY)).unwrap_or_default();
    for group in old.chunks(1000) {
        let (numbers, keys): (Vec<u64>, Vec<u64>) = group.iter().copied().unzip();
        let begun = world.model.begin_delete(&numbers);
        client.delete_items(TABLE, &keys).await?;
        world.model.confirm_delete(&numbers, begun);
    }
    Ok(())
}
