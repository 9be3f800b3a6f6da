//! Points in time, which callers pass to operations.

/// Nanoseconds since the Unix epoch, UTC; negative before it.
///
/// This crate reads no clock. Every operation that stores a time takes it as an argument, so that histories can be
/// replayed. The range is from the year 1677 to the year 2262.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The Unix epoch itself.
    pub const EPOCH: Self = Self(0);

    const NANOS_PER_SECOND: i64 = 1_000_000_000;

    /// Returns the point `nanos` nanoseconds after the epoch.
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// Returns the point `seconds` and `nanos` after the epoch, or `None` if it is out of range.
    ///
    /// ```
    /// use relive_table::Timestamp;
    /// assert_eq!(Timestamp::from_parts(2, 5), Some(Timestamp::from_nanos(2_000_000_005)));
    /// assert_eq!(Timestamp::from_parts(i64::MAX, 0), None);
    /// ```
    pub const fn from_parts(seconds: i64, nanos: u32) -> Option<Self> {
        match seconds.checked_mul(Self::NANOS_PER_SECOND) {
            Some(whole) => match whole.checked_add(nanos as i64) {
                Some(total) => Some(Self(total)),
                None => None,
            },
            None => None,
        }
    }

    /// Returns the nanoseconds since the epoch.
    pub const fn as_nanos(self) -> i64 {
        self.0
    }

    /// Returns the whole seconds since the epoch, rounded down, and the remaining nanoseconds (below 10^9).
    ///
    /// ```
    /// use relive_table::Timestamp;
    /// assert_eq!(Timestamp::from_nanos(-1).to_parts(), (-1, 999_999_999));
    /// ```
    pub fn to_parts(self) -> (i64, u32) {
        let nanos = self.0.rem_euclid(Self::NANOS_PER_SECOND);
        let nanos = u32::try_from(nanos).expect("a remainder by 10^9 fits 32 bits");
        (self.0.div_euclid(Self::NANOS_PER_SECOND), nanos)
    }
}
