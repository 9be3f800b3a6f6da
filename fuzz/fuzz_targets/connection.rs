#![no_main]

// Not a part of the library, which the tests of a crate below this one share.
#[path = "../src/connection.rs"]
mod connection;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    connection::check(data);
});
