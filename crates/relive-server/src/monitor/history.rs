//! The history of the tables over the last minutes. Because of it, even a page that is opened late shows the past.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::Mutex;
use relive_engine::{TableHandle, TableStatus};
use serde::Serialize;
use tokio::time::MissedTickBehavior;

use super::Monitor;
use super::overview::unix_seconds;
use crate::limits::{HISTORY_INTERVAL, MAX_HISTORY_POINTS, MAX_TABLES_SHOWN};

/// The points of all tables, oldest first.
#[derive(Debug, Default)]
pub(super) struct History {
    points: Mutex<VecDeque<Point>>,
}

#[derive(Debug)]
struct Point {
    at: f64,
    tables: Vec<(Arc<str>, Numbers)>,
}

#[derive(Debug, Clone, Copy)]
struct Numbers {
    items: u64,
    bytes: u64,
    inserts: i64,
    samples: i64,
}

/// The numbers of a table over time, with `None` while the table did not exist.
#[derive(Debug, Default, Serialize, PartialEq)]
pub(super) struct Series {
    items: Vec<Option<u64>>,
    bytes: Vec<Option<u64>>,
    inserts: Vec<Option<i64>>,
    samples: Vec<Option<i64>>,
}

/// All tables over time.
#[derive(Debug, Serialize)]
pub(super) struct TableHistories {
    /// Seconds since 1970.
    at: Vec<f64>,
    tables: BTreeMap<String, Series>,
}

impl History {
    /// Records a point every few seconds, indefinitely.
    pub(super) fn keep(self: &Arc<Self>, monitor: Monitor) -> impl Future<Output = ()> + use<> {
        let history = Arc::clone(self);
        async move {
            let mut ticks = tokio::time::interval(HISTORY_INTERVAL);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
            loop {
                ticks.tick().await;
                if let Some(services) = monitor.services() {
                    let tables = services.engine().tables();
                    let statuses = tables.iter().take(MAX_TABLES_SHOWN).map(TableHandle::status);
                    history.note(unix_seconds(SystemTime::now()), statuses);
                }
            }
        }
    }

    fn note(&self, at: f64, tables: impl Iterator<Item = TableStatus>) {
        let numbers = |status: TableStatus| {
            let numbers = Numbers {
                items: status.info.current_size,
                bytes: status.bytes.encoded_bytes,
                inserts: status.info.inserts,
                samples: status.info.samples,
            };
            (Arc::from(status.info.config.name.as_str()), numbers)
        };
        let point = Point { at, tables: tables.map(numbers).collect() };
        let mut points = self.points.lock();
        if points.len() >= MAX_HISTORY_POINTS {
            points.pop_front();
        }
        points.push_back(point);
    }

    /// Returns the whole history.
    pub(super) fn past(&self) -> TableHistories {
        let points = self.points.lock();
        let mut tables: BTreeMap<String, Series> = BTreeMap::new();
        for (place, point) in points.iter().enumerate() {
            for (name, numbers) in &point.tables {
                tables.entry(name.to_string()).or_default().put(place, *numbers);
            }
        }
        tables.values_mut().for_each(|series| series.pad(points.len()));
        TableHistories { at: points.iter().map(|point| point.at).collect(), tables }
    }
}

impl Series {
    fn put(&mut self, place: usize, numbers: Numbers) {
        self.pad(place);
        self.items.push(Some(numbers.items));
        self.bytes.push(Some(numbers.bytes));
        self.inserts.push(Some(numbers.inserts));
        self.samples.push(Some(numbers.samples));
    }

    fn pad(&mut self, len: usize) {
        self.items.resize(len, None);
        self.bytes.resize(len, None);
        self.inserts.resize(len, None);
        self.samples.resize(len, None);
    }
}

#[cfg(test)]
mod tests {
    use relive_engine::Engine;
    use relive_table::TableConfig;

    use super::*;

    fn statuses(engine: &Engine) -> Vec<TableStatus> {
        engine.tables().iter().map(TableHandle::status).collect()
    }

    #[test]
    fn added_and_dropped_tables_leave_gaps_in_the_history() {
        let (engine, history) =
            (Engine::builder().table(TableConfig::new("a")).build().unwrap(), History::default());
        history.note(1.0, statuses(&engine).into_iter());
        engine.add_table(TableConfig::new("b"), &"me".into()).unwrap();
        history.note(2.0, statuses(&engine).into_iter());
        engine.drop_table("a", &"me".into()).unwrap();
        history.note(3.0, statuses(&engine).into_iter());
        let past = history.past();
        assert_eq!(past.at, [1.0, 2.0, 3.0]);
        assert_eq!(past.tables["a"].items, [Some(0), Some(0), None]);
        assert_eq!(past.tables["b"].samples, [None, Some(0), Some(0)]);
    }

    #[test]
    fn the_oldest_points_are_forgotten() {
        let history = History::default();
        for at in 0..1_000 {
            history.note(f64::from(at), std::iter::empty());
        }
        let past = history.past();
        assert_eq!((past.at.len(), past.at.last()), (MAX_HISTORY_POINTS, Some(&999.0)));
    }
}
