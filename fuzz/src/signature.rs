//! `StructuredValue` messages that describe signatures and structures of columns.

use relive_wire::Message;
use relive_wire::signature::{from_wire, to_wire};
use relive_wire::structure;
use relive_wire::tensorflow::StructuredValue;

/// Checks that a decoded signature is unchanged after it is encoded and decoded again, as a message and as bytes.
pub fn check(data: &[u8]) -> bool {
    let Ok(message) = StructuredValue::decode(data) else { return false };
    check_structure(&message);
    let Ok(signature) = from_wire(&message) else { return false };
    let written = to_wire(&signature);
    assert_eq!(from_wire(&written).expect("a message of our own making"), signature);
    let bytes = written.encode_to_vec();
    assert_eq!(StructuredValue::decode(bytes.as_slice()).expect("bytes of our own making"), written);
    true
}

fn check_structure(message: &StructuredValue) {
    let Ok(columns) = structure::from_wire(message) else { return };
    let bytes = structure::to_wire(&columns).encode_to_vec();
    let again = StructuredValue::decode(bytes.as_slice()).expect("bytes of our own making");
    assert_eq!(structure::from_wire(&again).expect("a message of our own making"), columns);
}
