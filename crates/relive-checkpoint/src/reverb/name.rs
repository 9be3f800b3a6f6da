//! The names of checkpoints, which are times in RFC 3339 format.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use chrono::{DateTime, FixedOffset, Local, Offset, Utc};
use relive_table::Timestamp;

/// A time in nanoseconds since 1970, UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Time(i64);

impl Time {
    pub(super) fn now() -> Self {
        Self::of(SystemTime::now())
    }

    fn of(time: SystemTime) -> Self {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
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
        Self(time.as_nanos()).next()
    }

    pub(super) fn timestamp(self) -> Timestamp {
        Timestamp::from_nanos(self.0)
    }

    /// Returns the next time that a name can represent.
    pub(super) fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// Returns a name such as `2026-11-20T11:16:35.669974815+00:00`, in the time zone of this machine: dm-reverb names
    /// its checkpoints this way, compares names as text, and loads the greatest as the newest.
    pub(super) fn to_name(self) -> String {
        let here = DateTime::from_timestamp_nanos(self.0).with_timezone(&Local);
        self.to_name_at(here.offset().local_minus_utc())
    }

    fn to_name_at(self, offset_seconds: i32) -> String {
        // A name has no seconds of an offset.
        let zone = FixedOffset::east_opt(offset_seconds / 60 * 60).unwrap_or_else(|| Utc.fix());
        let time = DateTime::from_timestamp_nanos(self.0).with_timezone(&zone);
        time.format("%Y-%m-%dT%H:%M:%S%.9f%:z").to_string()
    }

    /// Reads a time from 1970 to 2262 with any UTC offset and with up to nine fractional digits in its seconds. Returns
    /// `None` for any other name.
    pub(super) fn from_name(name: &str) -> Option<Self> {
        // chrono also reads other letters and signs, and ignores all digits after the ninth.
        let is_plain = name.bytes().all(|byte| byte.is_ascii_digit() || b"-:.+TZ".contains(&byte));
        let fraction = name.bytes().skip("2026-11-20T11:16:35.".len()).take_while(u8::is_ascii_digit);
        if !is_plain || fraction.count() > 9 {
            return None;
        }
        let nanos = DateTime::parse_from_rfc3339(name).ok()?.timestamp_nanos_opt()?;
        (nanos >= 0).then_some(Self(nanos))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nanos(name: &str) -> Option<i64> {
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
            for offset_seconds in [0, 60, -60, 32_400, -19_800, 50_400, -43_200, 1_172, -2_670] {
                assert_eq!(nanos(&Time(time).to_name_at(offset_seconds)), Some(time), "{offset_seconds}");
            }
        }
        let time = Time(1_795_173_395_669_974_815);
        assert_eq!(time.to_name_at(0), "2026-11-20T11:16:35.669974815+00:00");
        assert_eq!(time.to_name_at(13 * 3600), "2026-11-21T00:16:35.669974815+13:00");
        assert_eq!(time.to_name_at(-330 * 60), "2026-11-20T05:46:35.669974815-05:30");
        assert_eq!(Time(951_782_400_000_000_000).to_name_at(0), "2000-02-29T00:00:00.000000000+00:00");
    }

    #[test]
    fn offsets_and_digits_vary() {
        let base = nanos("2026-11-20T11:16:35+00:00").unwrap();
        assert_eq!(nanos("2026-11-20T20:16:35+09:00"), Some(base));
        assert_eq!(nanos("2026-11-20T05:46:35-05:30"), Some(base));
        assert_eq!(nanos("2026-11-20T11:16:35.25Z"), Some(base + 250_000_000));
        assert_eq!(nanos("2026-11-20T11:16:35.000000001Z"), Some(base + 1));
        assert_eq!(nanos("2016-12-31T23:59:60Z"), nanos("2017-01-01T00:00:00Z"), "a leap second");
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
            "2026-11-20 11:16:35Z",
            "2026-11-20t11:16:35Z",
            "2026-11-20T11:16:35z",
            "2026-11-20T11:16:35−05:30",
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
