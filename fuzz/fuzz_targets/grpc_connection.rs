#![no_main]

// Not part of the library, because tests of a lower crate share the library's files.
#[expect(dead_code, reason = "the check of another target")]
#[path = "../src/connection.rs"]
mod connection;
#[path = "../src/grpc_connection.rs"]
mod grpc_connection;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    grpc_connection::check(data);
});
