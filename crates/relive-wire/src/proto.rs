//! The generated messages. The modules are nested like the packages, because generated code has references between
//! them.

#![expect(missing_docs, reason = "the .proto files carry the documentation of their fields")]
#![expect(
    clippy::missing_errors_doc,
    clippy::large_enum_variant,
    unused_qualifications,
    reason = "generated code"
)]

pub mod tensorflow {
    //! Tensors, shapes and nested specs: TensorFlow's messages.
    tonic::include_proto!("tensorflow");
}

mod deepmind {
    pub mod reverb {
        //! dm-reverb's protocol, package `deepmind.reverb`.
        tonic::include_proto!("deepmind.reverb");
    }
}

mod relive {
    pub mod v1 {
        //! Relive's own protocol, package `relive.v1`.
        tonic::include_proto!("relive.v1");
    }
}

pub use deepmind::reverb;
pub use relive::v1;

/// The encoded `FileDescriptorSet` of all protocol files.
pub(crate) const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
