//! Status texts that dm-reverb's clients compare or that users search for.

/// Sent with DEADLINE_EXCEEDED when a sample request times out. Dataset iterators compare this text to distinguish the
/// end of their data from an RPC deadline, so it keeps the original's typo ("insert").
pub const SAMPLE_TIMEOUT: &str = "Rate Limiter: Timeout exceeded before the right to insert was acquired.";

/// Sent with CANCELLED once a table is closed.
pub const TABLE_CLOSED: &str = "RateLimiter has been cancelled";
