//! Summarizes losses in a few lines, however many there are.

use std::collections::{BTreeMap, BTreeSet};

use crate::Loss;

/// The limit on the number of files and places that are named individually.
const SHOWN: usize = 5;

/// Summarizes losses in a few lines: the number of items of each table, the number of places in each file, and the
/// first places with their reasons.
///
/// ```
/// assert!(relive_checkpoint::summary_of_losses(&[]).is_empty());
/// ```
#[must_use]
pub fn summary_of_losses(losses: &[Loss]) -> Vec<String> {
    let mut lines = tables(losses);
    lines.extend(files(losses));
    lines.extend(losses.iter().take(SHOWN).map(ToString::to_string));
    lines.extend(more(losses.len(), "place"));
    lines
}

fn tables(losses: &[Loss]) -> Vec<String> {
    let mut items: BTreeMap<&str, u64> = BTreeMap::new();
    for loss in losses {
        if let Some(table) = loss.table.as_deref().filter(|_| loss.items > 0) {
            *items.entry(table).or_default() += loss.items;
        }
    }
    items
        .into_iter()
        .map(|(table, items)| format!("{} of table `{table}` in total", counted(items, "item")))
        .collect()
}

/// Returns nothing if every place is named individually.
fn files(losses: &[Loss]) -> Vec<String> {
    if losses.len() <= SHOWN {
        return Vec::new();
    }
    let mut places: BTreeMap<&str, BTreeSet<u64>> = BTreeMap::new();
    for loss in losses {
        places.entry(&loss.file).or_default().insert(loss.offset);
    }
    let file_line = |(file, places): (&&str, &BTreeSet<u64>)| {
        format!("{} of {file} damaged", counted(places.len() as u64, "place"))
    };
    places.iter().take(SHOWN).map(file_line).chain(more(places.len(), "file")).collect()
}

fn more(all: usize, what: &str) -> Option<String> {
    let more = all.saturating_sub(SHOWN) as u64;
    (more > 0).then(|| format!("and {} more {what}{}", more, if more == 1 { "" } else { "s" }))
}

fn counted(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loss(file: &str, offset: u64, table: Option<&str>, items: u64) -> Loss {
        Loss { table: table.map(str::to_owned), items, ..Loss::of(file, offset, "a wrong checksum") }
    }

    #[test]
    fn few_losses_are_all_listed_with_the_lost_items() {
        let losses = [loss("a", 1, Some("t"), 3), loss("a", 2, None, 0), loss("b", 3, Some("s"), 1)];
        let expected = [
            "1 item of table `s` in total",
            "3 items of table `t` in total",
            "a, at byte 1, 3 items of table `t`: a wrong checksum",
            "a, at byte 2: a wrong checksum",
            "b, at byte 3, 1 item of table `s`: a wrong checksum",
        ];
        assert_eq!(summary_of_losses(&losses), expected);
    }

    #[test]
    fn many_losses_are_summarized_with_totals_and_the_first_ones() {
        let mut losses: Vec<Loss> = (0..1_000).map(|at| loss("a", at, Some("t"), 2)).collect();
        // Damage at one place can cause the loss of items of two tables.
        losses.extend((0..7).map(|at| loss("a", at, Some("s"), 1)));
        losses.extend((0..8).map(|number| loss(&format!("b{number}"), 0, None, 0)));
        let lines = summary_of_losses(&losses);
        assert_eq!(lines[..2], ["7 items of table `s` in total", "2000 items of table `t` in total"]);
        assert_eq!(lines[2..4], ["1000 places of a damaged", "1 place of b0 damaged"]);
        assert_eq!(lines[7], "and 4 more files");
        assert_eq!(lines.len(), 14);
        assert_eq!(lines[13], "and 1010 more places");
    }
}
