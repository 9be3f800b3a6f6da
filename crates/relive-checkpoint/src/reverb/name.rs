//! The names of checkpoints, which are times in RFC 3339 format.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use chrono::{DateTime, Local};
use relive_table::Timestamp;

/// A time in nanoseconds since 1970, UTC. All checkpoints are later than 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Time(u64);

const NANOS_PER_SECOND: u64 = 1_000_000_000;
const SECONDS_PER_DAY: u64 = 86_400;

impl Time {
    pub(super) fn now() -> Self {
        Self::of(SystemTime::now())
    }

    fn of(time: SystemTime) -> Self {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Returns the time in a folder's name, if the name is one.
    pub(super) fn in_name(folder: &Path) -> Option<Self> {
        folder.file_name().and_then(|name| name.to_str()).and_then(Self::from_name)
    }

    /// Returns the time in a folder's name, or the folder's modification time if the name is not a time.
    pub(super) fn of_folder(folder: &Path) -> Self {
        Self::in_name(folder).unwrap_or_else(|| {
            let changed = folder.metadata().and_then(|meta| meta.modified()).unwrap_or(UNIX_EPOCH);
            Self::of(changed)
        })
    }

    /// Returns the first representable time that is later than this one.
    pub(super) fn after(time: Timestamp) -> Self {
        Self(u64::try_from(time.as_nanos()).unwrap_or_default()).next()
    }

    pub(super) fn timestamp(self) -> Timestamp {
        Timestamp::from_nanos(i64::try_from(self.0).unwrap_or(i64::MAX))
    }

    /// Returns the next time that a name can represent.
    pub(super) fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// Returns a name such as `2026-11-20T11:16:35.669974815+00:00`, in the time zone of this machine: dm-reverb names
    /// its checkpoints this way, compares names as text, and loads the greatest as the newest.
    pub(super) fn to_name(self) -> String {
        let seconds = i64::try_from(self.0 / NANOS_PER_SECOND).unwrap_or_default();
        let local = DateTime::from_timestamp(seconds, 0).map(|time| time.with_timezone(&Local));
        let offset_seconds = local.map_or(0, |local| i64::from(local.offset().local_minus_utc()));
        self.to_name_at(offset_seconds / 60)
    }

    /// Returns the name in a time zone that is this many minutes ahead of UTC.
    fn to_name_at(self, offset_minutes: i64) -> String {
        let (seconds, nanos) = (self.0 / NANOS_PER_SECOND, self.0 % NANOS_PER_SECOND);
        let seconds = seconds.saturating_add_signed(offset_minutes * 60);
        let (days, second) = (seconds / SECONDS_PER_DAY, seconds % SECONDS_PER_DAY);
        let (year, month, day) = civil(days);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        let (sign, ahead) = (if offset_minutes < 0 { '-' } else { '+' }, offset_minutes.unsigned_abs());
        let offset = format!("{sign}{:02}:{:02}", ahead / 60, ahead % 60);
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{nanos:09}{offset}")
    }

    /// Reads a time with any UTC offset and with up to nine fractional digits in its seconds. Returns `None` for any
    /// other name.
    pub(super) fn from_name(name: &str) -> Option<Self> {
        let (date, rest) = name.split_once('T')?;
        let mut date = date.split('-');
        let (year, month, day) =
            (digits(date.next()?, 4)?, digits(date.next()?, 2)?, digits(date.next()?, 2)?);
        let days = days(year, month, day).filter(|_| date.next().is_none())?;
        let (clock, offset) = match rest.strip_suffix('Z') {
            Some(clock) => (clock, 0),
            None => {
                let (clock, offset) = rest.split_at_checked(rest.len().checked_sub(6)?)?;
                (clock, offset_seconds(offset)?)
            }
        };
        let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
        let seconds = i64::try_from(days * SECONDS_PER_DAY + seconds(clock)?).ok()?.checked_sub(offset)?;
        let nanos = u64::try_from(seconds).ok()?.checked_mul(NANOS_PER_SECOND)?;
        nanos.checked_add(nanoseconds(fraction)?).map(Self)
    }
}

/// Returns a time such as `11:16:35` as seconds of the day.
fn seconds(clock: &str) -> Option<u64> {
    let mut parts = clock.split(':').map(|part| digits(part, 2));
    let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next()??);
    // A value of 60 is a leap second.
    let is_valid = hour < 24 && minute < 60 && second <= 60 && parts.next().is_none();
    is_valid.then_some(hour * 3600 + minute * 60 + second)
}

/// Returns an offset such as `+01:30` as seconds east of Greenwich.
fn offset_seconds(offset: &str) -> Option<i64> {
    let (sign, clock) = offset.split_at_checked(1)?;
    let (hours, minutes) = clock.split_once(':')?;
    let seconds = digits(hours, 2)? * 3600 + digits(minutes, 2)? * 60;
    let seconds = i64::try_from(seconds).ok()?;
    match sign {
        "+" => Some(seconds),
        "-" => Some(-seconds),
        _ => None,
    }
}

/// Returns the digits after the decimal point.
fn nanoseconds(fraction: &str) -> Option<u64> {
    let missing = 9_u32.checked_sub(u32::try_from(fraction.len()).ok()?)?;
    Some(digits(fraction, fraction.len())? * 10_u64.pow(missing))
}

/// Parses exactly this many decimal digits, at least one.
fn digits(text: &str, count: usize) -> Option<u64> {
    let are_digits = text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    if are_digits { text.parse().ok() } else { None }
}

/// Returns the year, month and day of the date that is this many days after 1970-01-01 (Howard Hinnant,
/// "chrono-compatible low-level date algorithms", <https://howardhinnant.github.io/date_algorithms.html>).
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, is_next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year + is_next, month, day)
}

/// Returns the number of days from 1970-01-01 to this day, or `None` if the day is earlier or does not exist.
fn days(year: u64, month: u64, day: u64) -> Option<u64> {
    let from_march = if month > 2 { (year, month - 3) } else { (year.checked_sub(1)?, month + 9) };
    let (era, year_of_era) = (from_march.0 / 400, from_march.0 % 400);
    let day_of_year = (153 * from_march.1 + 2) / 5 + day.checked_sub(1)?;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    let days = (era * 146_097 + day_of_era).checked_sub(719_468)?;
    // A month or day that is out of range would result in a different date.
    (civil(days) == (year, month, day)).then_some(days)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nanos(name: &str) -> Option<u64> {
        Time::from_name(name).map(|time| time.0)
    }

    #[test]
    fn checkpoint_names_convert_to_times_and_back() {
        for time in [
            86_400_000_000_000,
            951_782_400_000_000_000,
            1_795_173_395_669_974_815,
            4_102_444_799_999_999_999,
        ] {
            assert_eq!(nanos(&Time(time).to_name()), Some(time), "where this machine is");
            for offset_minutes in [0, 1, -1, 540, -330, 840, -720] {
                assert_eq!(nanos(&Time(time).to_name_at(offset_minutes)), Some(time), "{offset_minutes}");
            }
        }
        let time = Time(1_795_173_395_669_974_815);
        assert_eq!(time.to_name_at(0), "2026-11-20T11:16:35.669974815+00:00");
        assert_eq!(time.to_name_at(13 * 60), "2026-11-21T00:16:35.669974815+13:00");
        assert_eq!(time.to_name_at(-330), "2026-11-20T05:46:35.669974815-05:30");
        assert_eq!(Time(951_782_400_000_000_000).to_name_at(0), "2000-02-29T00:00:00.000000000+00:00");
    }

    #[test]
    fn offsets_and_digits_vary() {
        let base = nanos("2026-11-20T11:16:35+00:00").unwrap();
        assert_eq!(nanos("2026-11-20T20:16:35+09:00"), Some(base));
        assert_eq!(nanos("2026-11-20T05:46:35-05:30"), Some(base));
        assert_eq!(nanos("2026-11-20T11:16:35.25Z"), Some(base + 250_000_000));
        assert_eq!(nanos("2026-11-20T11:16:35.000000001Z"), Some(base + 1));
    }

    #[test]
    fn other_names_are_not_parsed_as_times() {
        let names = [
            "",
            "T",
            "zzz",
            "2026-11-20",
            "2026-11-20T11:16:35",
            "2026-11-20T11:16+00:00",
            "2026-13-01T00:00:00Z",
            "2026-02-29T00:00:00Z",
            "2026-01-00T00:00:00Z",
            "2026-11-20T24:00:00Z",
            "2026-11-20T11:16:35.Z",
            "2026-11-20T11:16:35.0000000001Z",
            "2026-11-20T11:16:35 00:00",
            "2026-11-20T+1:16:35Z",
            "1969-12-31T23:59:59Z",
            "26-11-20T11:16:35Z",
            "2026-11-20T11:16:35é0:00",
            "2026-11-20-01T11:16:35Z",
        ];
        for name in names {
            assert_eq!(nanos(name), None, "{name}");
        }
    }
}
