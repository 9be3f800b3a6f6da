//! Generates dm-reverb's message descriptors for Python from the protocol files of `relive-wire`.
//!
//! Python creates its message classes from the descriptors at run time; no code is generated. The descriptors equal
//! dm-reverb's, file by file, since programs compare names, fields and files: they lack Relive's own fields, have
//! chunks as messages rather than bytes, and have TensorFlow's messages in TensorFlow's files.

use std::env;
use std::error::Error;
use std::fs;
use std::path::PathBuf;

use protox::prost_reflect::prost::Message;
use protox::prost_reflect::prost_types::field_descriptor_proto::Type;
use protox::prost_reflect::prost_types::{DescriptorProto, FileDescriptorProto, FileDescriptorSet};

/// The protocol's source files.
const PROTOCOL: &str = "../relive-wire/proto";

const ROOTS: [&str; 3] = [
    "reverb/cc/reverb_service.proto",
    "reverb/cc/patterns.proto",
    "reverb/server_executable/reverb_config.proto",
];

/// The prefix of the names of Relive's own fields.
const OWN_FIELDS: &str = "relive_";

/// The folder of Relive's own messages.
const OWN_FILES: &str = "relive/";

/// Fields with chunks, which the server and the client handle as undecoded bytes: the message and the field.
const CHUNKS: [(&str, &str); 2] = [("InsertStreamRequest", "chunks"), ("SampleEntry", "data")];

/// The message type of a chunk.
const CHUNK: &str = ".deepmind.reverb.ChunkData";

/// The file with all of TensorFlow's messages here, and the files that contain them in TensorFlow, each of which
/// imports the ones before it.
const STRUCTURES: &str = "tensorflow/structures.proto";
const TYPES: &str = "tensorflow/core/framework/types.proto";
const SHAPE: &str = "tensorflow/core/framework/tensor_shape.proto";
const TENSOR: &str = "tensorflow/core/framework/tensor.proto";
const STRUCT: &str = "tensorflow/core/protobuf/struct.proto";

/// The only file of dm-reverb that uses TensorFlow's tensor messages directly.
const SCHEMA: &str = "reverb/cc/schema.proto";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed={PROTOCOL}");
    let mut compiler = protox::Compiler::new([PROTOCOL])?;
    compiler.include_imports(true).open_files(ROOTS)?;
    let mut file = Vec::new();
    for written in
        compiler.file_descriptor_set().file.into_iter().filter(|file| !file.name().starts_with(OWN_FILES))
    {
        match written.name() {
            STRUCTURES => file.extend(tensorflows(written)),
            _ => file.push(reverbs(written)),
        }
    }
    let path = PathBuf::from(env::var("OUT_DIR")?).join("descriptors.bin");
    fs::write(path, FileDescriptorSet { file }.encode_to_vec())?;
    Ok(())
}

/// Converts a file to dm-reverb's version of it.
fn reverbs(mut file: FileDescriptorProto) -> FileDescriptorProto {
    let structures: &[&str] = if file.name() == SCHEMA { &[TENSOR, STRUCT] } else { &[STRUCT] };
    let dependencies = std::mem::take(&mut file.dependency).into_iter();
    file.dependency = dependencies
        .filter(|name| !name.starts_with(OWN_FILES))
        .flat_map(|name| match name.as_str() {
            STRUCTURES => structures.iter().map(|name| (*name).to_owned()).collect(),
            _ => vec![name],
        })
        .collect();
    file.message_type.iter_mut().for_each(as_in_reverb);
    file
}

/// Removes Relive's own fields, and changes the type of chunks to messages.
fn as_in_reverb(message: &mut DescriptorProto) {
    message.field.retain(|field| !field.name().starts_with(OWN_FIELDS));
    let name = message.name().to_owned();
    for field in &mut message.field {
        if CHUNKS.contains(&(name.as_str(), field.name())) {
            field.set_type(Type::Message);
            field.type_name = Some(CHUNK.to_owned());
        }
    }
    message.nested_type.iter_mut().for_each(as_in_reverb);
}

/// Distributes TensorFlow's messages to TensorFlow's files.
fn tensorflows(whole: FileDescriptorProto) -> [FileDescriptorProto; 4] {
    let FileDescriptorProto { package, syntax, mut message_type, enum_type, .. } = whole;
    message_type.iter_mut().for_each(as_in_reverb);
    let file = |name: &str, imports: &[&str]| FileDescriptorProto {
        name: Some(name.to_owned()),
        package: package.clone(),
        syntax: syntax.clone(),
        dependency: imports.iter().map(|name| (*name).to_owned()).collect(),
        ..FileDescriptorProto::default()
    };
    let mut take = |name: &str| {
        let (taken, left) = std::mem::take(&mut message_type).into_iter().partition(|it| it.name() == name);
        message_type = left;
        taken
    };
    let shape = FileDescriptorProto { message_type: take("TensorShapeProto"), ..file(SHAPE, &[]) };
    let tensor = FileDescriptorProto { message_type: take("TensorProto"), ..file(TENSOR, &[SHAPE, TYPES]) };
    let types = FileDescriptorProto { enum_type, ..file(TYPES, &[]) };
    let structs = FileDescriptorProto { message_type, ..file(STRUCT, &[TENSOR, SHAPE, TYPES]) };
    [types, shape, tensor, structs]
}
