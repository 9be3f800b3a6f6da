#![no_main]

// Not a part of the library, which the tests of a crate below this one share.
#[expect(dead_code, reason = "the check of another target")]
#[path = "../src/connection.rs"]
mod connection;
#[path = "../src/grpc_connection.rs"]
mod grpc_connection;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    grpc_connection::check(data);
});
