//! Properties that must hold for any bytes that a peer may send: one check per fuzz target.
//!
//! A check panics if the code under test is wrong, and otherwise returns whether the bytes were accepted, so that a
//! replay of a corpus can verify that it contains both kinds. The fuzz targets and the corpus test of `relive-wire`
//! share this file.

pub mod bulk_frame;
pub mod chunk_message;
pub mod codecs;
pub mod insert_items;
pub mod insert_request;
pub mod sample_response;
pub mod server_config;
pub mod signature;

mod trajectory;
