//! Draws a limiter's cursor between its bounds.

/// The number of positions of the cursor on the bar.
const WIDTH: usize = 24;

/// Returns the cursor as a mark between its bounds. At the left end, samples wait; at the right end, inserts wait.
pub(in crate::commands) fn bar(cursor: f64, min: f64, max: f64) -> String {
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
    fn a_cursor_out_of_bounds_is_clamped_to_the_bar() {
        assert_eq!(bar(-1.0, 0.0, 8.0), bar(0.0, 0.0, 8.0));
        assert_eq!(bar(9.0, 0.0, 8.0), bar(8.0, 0.0, 8.0));
        assert_eq!(bar(f64::NAN, 1.0, 1.0), bar(0.0, 0.0, 8.0));
    }
}
