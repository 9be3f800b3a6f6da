//! `/histograms?table=NAME`: the priorities, ages and sample counts of some of a table's items.

use axum::Json;
use axum::extract::{Query, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use relive_table::Timestamp;
use serde::{Deserialize, Serialize};
use std::time::SystemTime;

use super::view::View;
use crate::limits::MAX_PEEKED_ITEMS;

/// The number of bars of a histogram.
const BARS: usize = 24;

/// Positive numbers that span more than this factor are counted on a logarithmic scale.
const WIDE: f64 = 50.0;

#[derive(Deserialize)]
pub(super) struct HistogramQuery {
    table: String,
}

#[derive(Serialize)]
struct Answer {
    /// The number of inspected items.
    items: usize,
    priority: Option<Histogram>,
    age_seconds: Option<Histogram>,
    times_sampled: Option<Histogram>,
}

/// Counts of values in bars of equal width, on a linear or logarithmic scale.
#[derive(Debug, Serialize, PartialEq)]
struct Histogram {
    low: f64,
    high: f64,
    median: f64,
    is_log: bool,
    counts: Vec<u32>,
}

/// The cost is bounded, because only a few thousand items are inspected, with a few dozen under each lock.
pub(super) async fn histograms(State(view): State<View>, Query(query): Query<HistogramQuery>) -> Response {
    let Some(services) = view.monitor.services() else {
        return (StatusCode::SERVICE_UNAVAILABLE, "the server has no tables yet\n").into_response();
    };
    match services.engine().table(&query.table) {
        Ok(table) => {
            let items = table.peek(MAX_PEEKED_ITEMS);
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            let age = |at: Timestamp| (now.as_secs_f64() - at.as_nanos() as f64 / 1e9).max(0.0);
            Json(Answer {
                items: items.len(),
                priority: histogram(items.iter().map(|item| item.priority).collect()),
                age_seconds: histogram(items.iter().map(|item| age(item.inserted_at)).collect()),
                times_sampled: histogram(items.iter().map(|item| f64::from(item.times_sampled)).collect()),
            })
            .into_response()
        }
        Err(error) => (StatusCode::NOT_FOUND, format!("{error}\n")).into_response(),
    }
}

/// Returns `None` if there are no values. Infinite values are counted in the outermost bars.
fn histogram(mut values: Vec<f64>) -> Option<Histogram> {
    values.retain(|value| !value.is_nan());
    values.iter_mut().for_each(|value| *value = value.clamp(f64::MIN / 4.0, f64::MAX / 4.0));
    values.sort_unstable_by(f64::total_cmp);
    let (low, high) = (*values.first()?, *values.last()?);
    let median = *values.get(values.len() / 2)?;
    let is_log = low > 0.0 && high / low > WIDE;
    let scale = |value: f64| if is_log { value.ln() } else { value };
    let (from, width) = (scale(low), scale(high) - scale(low));
    let mut counts = vec![0; BARS];
    for value in values {
        let share = if width > 0.0 { (scale(value) - from) / width } else { 0.5 };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to BARS")]
        let bar = ((share * BARS as f64) as usize).min(BARS - 1);
        if let Some(count) = counts.get_mut(bar) {
            *count += 1;
        }
    }
    Some(Histogram { low, high, median, is_log, counts })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_in_histogram_bins() {
        let found = histogram((0..240).map(f64::from).collect()).unwrap();
        assert_eq!((found.low, found.high, found.median, found.is_log), (0.0, 239.0, 120.0, false));
        assert_eq!(found.counts.iter().sum::<u32>(), 240);
        assert!(found.counts.iter().all(|count| (9..=11).contains(count)), "{found:?}");
    }

    #[test]
    fn wide_ranges_use_logarithmic_bins() {
        let found = histogram((0..=24).map(|power| 2_f64.powi(power)).collect()).unwrap();
        assert!(found.is_log);
        assert!(found.counts.iter().all(|count| *count >= 1), "{found:?}");
    }

    #[test]
    fn special_values_do_not_break_a_histogram() {
        assert_eq!(histogram(Vec::new()), None);
        assert_eq!(histogram(vec![f64::NAN]), None);
        let same = histogram(vec![3.0; 7]).unwrap();
        assert_eq!((same.counts.iter().sum::<u32>(), same.median), (7, 3.0));
        let endless = histogram(vec![f64::NEG_INFINITY, 0.0, f64::INFINITY]).unwrap();
        assert_eq!((endless.counts.first(), endless.counts.last()), (Some(&1), Some(&1)));
    }
}
