//! Deterministic pseudorandom numbers.

/// Scrambles a number.
pub(crate) fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_add(1).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// Returns a byte of a pseudorandom number. Many bytes are 0x00, 0x7f and 0xff, of which zeros, infinities, NaN and the
/// limits of integers consist.
pub(crate) fn special(number: u64) -> u8 {
    let [choice, byte, ..] = number.to_le_bytes();
    match choice % 8 {
        0 => 0x00,
        1 => 0x7f,
        2 => 0xff,
        3 => 0x80 | byte & 0x7c,
        _ => byte,
    }
}

/// Returns a weight; a third of all weights are 0.
pub(crate) fn weight(index: u64) -> f32 {
    let bytes = mixed(index).to_le_bytes();
    if bytes[0] < 90 { 0.0 } else { f32::from(bytes[1]) * 0.037 + f32::from(bytes[2]) * 3e-7 }
}
