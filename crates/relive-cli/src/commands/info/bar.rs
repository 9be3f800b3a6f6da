//! Where a limiter's cursor stands between its bounds.

use relive_table::RateLimiterConfig;

/// Places on the bar for the cursor.
const WIDTH: usize = 24;

/// A cursor does not get so far: counters of operations that happened stay below it.
const BEYOND_REACH: f64 = 1e15;

/// The bounds of a limiter, where it has them. Those that no cursor reaches, such as dm-reverb's of 1e300, are none.
pub(super) fn bounds(limiter: &RateLimiterConfig) -> (Option<f64>, Option<f64>) {
    let min = Some(limiter.min_diff).filter(|min| *min > -BEYOND_REACH);
    let max = Some(limiter.max_diff).filter(|max| *max < BEYOND_REACH);
    (min, max)
}

/// The cursor as a mark between its bounds: at the left end samples wait, at the right end inserts do.
pub(super) fn bar(cursor: f64, min: f64, max: f64) -> String {
    let share = if max > min { ((cursor - min) / (max - min)).clamp(0.0, 1.0) } else { 0.0 };
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and WIDTH - 1")]
    let mark = (share * (WIDTH - 1) as f64).round() as usize;
    let places = (0..WIDTH).map(|place| if place == mark { '|' } else { '-' });
    format!("[{}]", places.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_follows_the_cursor() {
        assert_eq!(bar(0.0, 0.0, 8.0), "[|-----------------------]");
        assert_eq!(bar(4.0, 0.0, 8.0), "[------------|-----------]");
        assert_eq!(bar(8.0, 0.0, 8.0), "[-----------------------|]");
    }

    #[test]
    fn a_cursor_beyond_its_bounds_stays_on_the_bar() {
        assert_eq!(bar(-1.0, 0.0, 8.0), bar(0.0, 0.0, 8.0));
        assert_eq!(bar(9.0, 0.0, 8.0), bar(8.0, 0.0, 8.0));
        assert_eq!(bar(f64::NAN, 1.0, 1.0), bar(0.0, 0.0, 8.0));
    }

    #[test]
    fn bounds_that_nothing_reaches_are_none() {
        assert_eq!(bounds(&RateLimiterConfig::min_size(1).unwrap()), (None, None));
        assert_eq!(bounds(&RateLimiterConfig::queue(3)), (Some(0.0), Some(3.0)));
        let open = RateLimiterConfig { min_diff: f64::NEG_INFINITY, ..RateLimiterConfig::queue(3) };
        assert_eq!(bounds(&open), (None, Some(3.0)));
        let vast = RateLimiterConfig { min_diff: -1e300, max_diff: 1e300, ..open };
        assert_eq!(bounds(&vast), (None, None));
        let shut = RateLimiterConfig { min_diff: 1e300, max_diff: f64::INFINITY, ..open };
        assert_eq!(bounds(&shut), (Some(1e300), None), "a lower bound that keeps every sample waiting");
    }
}
