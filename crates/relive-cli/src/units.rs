//! Numbers as people write and read them.

use std::time::Duration;

/// Longest time that an option takes: a week. More is a slip.
const MAX_SECONDS: f64 = 604_800.0;

/// Reads a number of seconds, such as `0.5`.
pub(crate) fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| *seconds > 0.0 && *seconds <= MAX_SECONDS);
    seconds
        .map(Duration::from_secs_f64)
        .ok_or_else(|| format!("it must be a number of seconds above 0 and at most {MAX_SECONDS}"))
}

/// `1234567` as `1,234,567`.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number of bytes with three or four digits, such as `4.83 MiB`.
pub(crate) fn bytes(number: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if number < 1024 {
        return format!("{number} B");
    }
    let mut value = number as f64;
    let mut unit = "B";
    for larger in UNITS {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = larger;
    }
    let digits = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    format!("{value:.digits$} {unit}")
}

/// A rate per second: whole from 100 on, with one digit below.
pub(crate) fn rate(per_second: f64) -> String {
    if per_second < 100.0 {
        return format!("{per_second:.1}/s");
    }
    // `as` saturates, which is right for a rate beyond every counter.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rounded, and at least 100")]
    let whole = per_second.round() as u64;
    format!("{}/s", count(whole))
}

/// A time with its two largest units, such as `3 min 12 s`.
pub(crate) fn time(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{:.1} s", duration.as_secs_f64()),
        (0, 0, _) => format!("{minutes} min {} s", seconds % 60),
        (0, _, _) => format!("{hours} h {} min", minutes % 60),
        _ => format!("{days} d {} h", hours % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_get_commas() {
        let shown = [0, 999, 1_000, 1_234_567, u64::MAX].map(count);
        assert_eq!(shown, ["0", "999", "1,000", "1,234,567", "18,446,744,073,709,551,615"]);
    }

    #[test]
    fn bytes_get_a_unit() {
        let shown = [0, 1023, 1024, 5_000_000, 123 << 30, u64::MAX].map(bytes);
        assert_eq!(shown, ["0 B", "1023 B", "1.00 KiB", "4.77 MiB", "123 GiB", "16.0 EiB"]);
    }

    #[test]
    fn rates_and_times() {
        assert_eq!([0.0, 99.94, 123_456.7].map(rate), ["0.0/s", "99.9/s", "123,457/s"]);
        let shown = [0.25, 192.0, 3_725.0, 180_000.0].map(|seconds| time(Duration::from_secs_f64(seconds)));
        assert_eq!(shown, ["0.2 s", "3 min 12 s", "1 h 2 min", "2 d 2 h"]);
    }

    #[test]
    fn seconds_are_positive_and_bounded() {
        assert_eq!(parse_seconds("0.5"), Ok(Duration::from_millis(500)));
        for bad in ["0", "-1", "nan", "inf", "1e9", "x"] {
            assert!(parse_seconds(bad).is_err(), "{bad}");
        }
    }
}
