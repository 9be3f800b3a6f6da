#![no_main]

// Not a part of the library, which the tests of a crate below this one share.
#[path = "../src/checkpoint.rs"]
mod checkpoint;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    checkpoint::check(data);
});
