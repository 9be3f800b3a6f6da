#![no_main]

// Not part of the library, because tests of a lower crate share the library's files.
#[path = "../src/checkpoint.rs"]
mod checkpoint;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    checkpoint::check(data);
});
