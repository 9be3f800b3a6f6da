//! Formats and parses numbers for people.

use std::time::Duration;

use chrono::DateTime;
use relive_table::Timestamp;
use serde::Deserialize;

/// The maximum time of an option: a week. Larger values are mistakes.
const MAX_SECONDS: f64 = 604_800.0;

/// Reads a number of seconds, such as `0.5`.
pub(crate) fn parse_seconds(text: &str) -> Result<Duration, String> {
    text.parse::<f64>()
        .ok()
        .and_then(duration)
        .ok_or_else(|| format!("it must be a number of seconds above 0 and at most {MAX_SECONDS}"))
}

/// Units of times, in milliseconds.
const TIME_UNITS: [(&str, f64); 5] =
    [("ms", 1.0), ("s", 1_000.0), ("m", 60_000.0), ("h", 3_600_000.0), ("d", 86_400_000.0)];

/// Reads a time with its unit, such as `90s`, `10m`, `1.5h` or `1h30m`.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let bad = || format!("{text:?} is not a time above 0 and at most 7d; write 90s, 10m or 1h");
    let (mut millis, mut rest) = (0.0, text.trim());
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(bad)?;
        let (number, tail) = rest.split_at(end);
        let end = tail.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(end);
        let (_, factor) = TIME_UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(bad)?;
        millis += number.parse::<f64>().map_err(|_| bad())? * factor;
        rest = tail.trim_start();
    }
    duration(millis / 1_000.0).ok_or_else(bad)
}

/// Returns a time that is above 0, also after it is rounded to nanoseconds, and at most the maximum.
fn duration(seconds: f64) -> Option<Duration> {
    let is_valid = seconds > 0.0 && seconds <= MAX_SECONDS;
    is_valid.then(|| Duration::from_secs_f64(seconds)).filter(|time| !time.is_zero())
}

/// The largest accepted bound on bytes: an exbibyte. Larger values are mistakes.
const MAX_BYTES: f64 = (1_u64 << 60) as f64;

/// Units of bytes, in powers of ten and of two.
const BYTE_UNITS: [(&str, u64); 9] = [
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("B", 1),
];

/// Reads a number of bytes, such as `2000000000`, `2GB` or `1.5 GiB`.
pub(crate) fn parse_bytes(text: &str) -> Result<u64, String> {
    let bare = text.trim();
    let (number, unit) = BYTE_UNITS
        .iter()
        .find_map(|(unit, size)| Some((bare.strip_suffix(unit)?.trim_end(), *size)))
        .unwrap_or((bare, 1));
    let is_number = number.starts_with(|c: char| c.is_ascii_digit())
        && number.chars().all(|c| c.is_ascii_digit() || matches!(c, '_' | '.'));
    let number = number.replace('_', "");
    let whole = number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    let bytes = whole.or_else(|| {
        let bytes = number.parse::<f64>().ok()? * unit as f64;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is in 0..=MAX_BYTES")]
        (0.0..=MAX_BYTES).contains(&bytes).then(|| bytes.round() as u64)
    });
    bytes.filter(|bytes| is_number && *bytes >= 1 && *bytes as f64 <= MAX_BYTES).ok_or_else(|| {
        format!("{text:?} is not a number of bytes from 1 to 1 EiB; write 2000000000, 2GB or 1.5GiB")
    })
}

/// Formats `1234567` as `1,234,567`.
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

/// Formats a count with its noun: `1 item`, `1,234 items`.
pub(crate) fn counted(number: u64, noun: &str) -> String {
    format!("{} {}", count(number), plural(number == 1, noun))
}

/// Returns the singular of the noun for one, and its plural for any other number.
pub(crate) fn plural(is_one: bool, noun: &str) -> String {
    if is_one { noun.to_owned() } else { format!("{noun}s") }
}

/// Returns a number in few characters: three decimals, or four digits and an exponent if these do not suffice.
pub(crate) fn number(value: f64) -> String {
    let size = value.abs();
    if size >= 1e15 || (size > 0.0 && size < 1e-3) {
        // The number is rounded by formatting it as text, to obtain exactly the decimal digits.
        return format!("{:e}", format!("{value:.3e}").parse().unwrap_or(value));
    }
    let text = format!("{value:.3}");
    let short = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    if short == "-0" { "0".to_owned() } else { short.to_owned() }
}

/// Returns a number of bytes with three or four digits, such as `4.83 MiB`.
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

/// Returns a rate with its unit, such as `2.5/s`.
pub(crate) fn rate(rate: f64) -> String {
    format!("{}/s", per_second(rate))
}

/// Returns a rate per second: a whole number if the rate is at least 100, and otherwise a number with one decimal
/// digit.
pub(crate) fn per_second(rate: f64) -> String {
    if rate < 100.0 {
        return format!("{rate:.1}");
    }
    // `as` saturates, which is correct for rates beyond any counter.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rounded, and at least 100")]
    let whole = rate.round() as u64;
    count(whole)
}

/// Returns a time with its two largest units, such as `3 min 12 s`.
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

/// Returns a point in time, such as `2026-11-20 11:16:35 UTC`.
pub(crate) fn utc(time: Timestamp) -> String {
    let (seconds, _) = time.to_parts();
    let at = DateTime::from_timestamp(seconds, 0).expect("64-bit nanoseconds end in the year 2262");
    at.format("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// `2_000_000_000`, or `"2GB"`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(
    untagged,
    expecting = "write a whole number of bytes, or one with a unit, as in \"2GB\" or \"1.5GiB\""
)]
pub(crate) enum BytesEntry {
    Number(i64),
    Text(String),
}

impl BytesEntry {
    /// Returns the number, or the reason why it is invalid.
    pub(crate) fn parse(&self) -> Result<u64, String> {
        match self {
            Self::Number(number) => parse_bytes(&number.to_string()),
            Self::Text(text) => parse_bytes(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_above_zero_also_in_nanoseconds() {
        assert_eq!(parse_seconds("1e-9"), Ok(Duration::from_nanos(1)));
        assert_eq!(parse_duration("0.000001ms"), Ok(Duration::from_nanos(1)));
        for text in ["1e-10", "0", "-1", "604801", "nan"] {
            assert!(parse_seconds(text).is_err(), "{text}");
        }
        assert!(parse_duration("0.0000001ms").is_err());
    }

    #[test]
    fn counts_get_commas() {
        let shown = [0, 999, 1_000, 1_234_567, u64::MAX].map(count);
        assert_eq!(shown, ["0", "999", "1,000", "1,234,567", "18,446,744,073,709,551,615"]);
    }

    #[test]
    fn nouns_agree_with_their_count() {
        let shown = [0, 1, 2_000].map(|number| counted(number, "item"));
        assert_eq!(shown, ["0 items", "1 item", "2,000 items"]);
    }

    #[test]
    fn numbers_are_shown_with_few_digits() {
        let shown =
            [0.0, -0.0, 1.0 / 3.0, -1000.0, 38.000_000_001, 0.000_25, -1e300, f64::INFINITY].map(number);
        assert_eq!(shown, ["0", "0", "0.333", "-1000", "38", "2.5e-4", "-1e300", "inf"]);
    }

    #[test]
    fn byte_counts_are_shown_with_binary_units() {
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
    fn byte_counts_are_parsed_with_every_unit() {
        for (text, expected) in [
            ("1", 1),
            ("2_000", 2_000),
            ("7B", 7),
            ("3kB", 3_000),
            ("3KiB", 3_072),
            ("2 MB", 2_000_000),
            ("1.5MiB", 1_572_864),
            ("8GB", 8_000_000_000),
            (" 0.5GiB ", 1 << 29),
            ("2TB", 2_000_000_000_000),
            ("1TiB", 1 << 40),
            ("9007199254740993", 9_007_199_254_740_993),
        ] {
            assert_eq!(parse_bytes(text), Ok(expected), "{text}");
        }
        for bad in
            ["", "0", "0.2", "-1", "GB", "2gb", "2 G", "1e9", "inf", "nan", "1.2.3GB", "2000000TiB", "_"]
        {
            let error = parse_bytes(bad).unwrap_err();
            assert_eq!(
                error,
                format!("{bad:?} is not a number of bytes from 1 to 1 EiB; write 2000000000, 2GB or 1.5GiB")
            );
        }
    }

    #[test]
    fn points_in_time_are_shown_in_utc() {
        for (seconds, expected) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (1_795_173_395, "2026-11-20 11:16:35 UTC"),
            (-1, "1969-12-31 23:59:59 UTC"),
        ] {
            assert_eq!(utc(Timestamp::from_parts(seconds, 0).unwrap()), expected);
        }
    }

    #[test]
    fn times_have_units() {
        for (text, millis) in [
            ("90s", 90_000),
            ("10m", 600_000),
            ("1h", 3_600_000),
            ("1h30m", 5_400_000),
            ("1.5h", 5_400_000),
            ("250ms", 250),
            ("7d", 604_800_000),
            (" 1 m", 0),
            ("1m 5s", 65_000),
        ] {
            let expected = (millis > 0).then(|| Duration::from_millis(millis));
            assert_eq!(parse_duration(text).ok(), expected, "{text}");
        }
        let error = parse_duration("600").unwrap_err();
        assert_eq!(error, "\"600\" is not a time above 0 and at most 7d; write 90s, 10m or 1h");
        for bad in ["", "0s", "-1s", "s", "1x", "1S", "1.2.3s", "8d", "1h30", "1e3s", "nan s"] {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn seconds_are_positive_and_bounded() {
        assert_eq!(parse_seconds("0.5"), Ok(Duration::from_millis(500)));
        for bad in ["0", "-1", "nan", "inf", "1e9", "x"] {
            assert!(parse_seconds(bad).is_err(), "{bad}");
        }
    }
}
