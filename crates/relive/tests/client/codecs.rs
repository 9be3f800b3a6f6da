//! Tests codecs that writers choose: every reader receives the same data, and a server receives only codecs that it
//! supports.

use relive::{
    BatchOptions, Client, Codec, CodecSet, ErrorKind, Nest, SelectorKind, SourceColumn, StructuredConfig,
    StructuredWriterOptions, TableConfig, Tensor, TrajectoryWriterOptions,
};

use crate::common::{LONG, TestServer, client, dict, grpc_server, leaf};

/// Returns a table in which sixteen samples of sixteen items return each item once.
fn table() -> TableConfig {
    TableConfig::new("t").sampler(SelectorKind::WithoutReplacement)
}

fn step(number: i64) -> Nest<Tensor> {
    let wide = Tensor::from_slice(&[number; 200], [200]).unwrap();
    let text = Tensor::from_strings([format!("step {number}")], []).unwrap();
    dict(&[("number", leaf(number)), ("text", Nest::Leaf(text)), ("wide", Nest::Leaf(wide))])
}

async fn write(client: &Client, options: TrajectoryWriterOptions, steps: std::ops::Range<i64>) {
    let mut writer = client.trajectory_writer(options).unwrap();
    for number in steps {
        writer.append(&step(number)).unwrap();
        let history = writer.history();
        let columns: Vec<_> =
            ["number", "text", "wide"].map(|name| history.column(name).unwrap().slice(-1..).unwrap()).into();
        writer.create_item("t", 1.0, columns).await.unwrap();
    }
    writer.close().await.unwrap();
}

/// Returns the codecs of the chunks of the table's items.
async fn stored(server: &TestServer) -> CodecSet {
    let keys: Vec<u64> =
        server.client().items("t", 0, 1000).await.unwrap().items.iter().map(|item| item.key).collect();
    let items = server.engine().table("t").unwrap().get_items(&keys).await.unwrap();
    let chunks = items.iter().flatten().flat_map(|sampled| sampled.item.trajectory.chunks());
    chunks.flat_map(|chunk| chunk.codecs().iter()).collect()
}

#[tokio::test]
async fn every_codec_returns_the_same_data_to_every_reader() {
    for codec in Codec::ALL {
        for delta in [false, true] {
            let server = TestServer::start([table()]).await;
            let options = TrajectoryWriterOptions::new(4).chunk_length(4).codec(codec).delta_encoded(delta);
            write(&server.client(), options, 0..8).await;
            write(&server.client_in_process(), options, 8..16).await;
            // Eight bytes by themselves do not shrink.
            assert!(CodecSet::NONE.with(codec).with(Codec::Raw).includes(stored(&server).await));
            assert!(stored(&server).await.contains(codec));
            for client in [server.client(), server.client_in_process()] {
                assert_eq!(client.status().await.unwrap().codecs, CodecSet::ALL);
                let mut samples = client.sample("t", 16).await.unwrap();
                samples.sort_by_key(|sample| sample.columns().unwrap()[0].to_vec::<i64>().unwrap());
                for (number, sample) in (0..).zip(&samples) {
                    let columns = sample.columns().unwrap();
                    let Nest::Dict(step) = step(number) else { unreachable!("steps are dictionaries") };
                    for (column, value) in columns.iter().zip(step.values()) {
                        let Nest::Leaf(value) = value else { unreachable!("with leaves") };
                        assert_eq!(*column, Tensor::stack(std::slice::from_ref(value)).unwrap());
                    }
                }
                let keys: Vec<u64> = samples.iter().map(|sample| sample.info().key).collect();
                let items = client.get_items("t", &keys).await.unwrap();
                assert_eq!(items[5].as_ref().unwrap().columns().unwrap(), samples[5].columns().unwrap());
                let mut batches = client.batches("t", BatchOptions::new(16)).unwrap();
                let batch = batches.next_within(Some(LONG)).await.unwrap().unwrap();
                let mut wide = vec![0; 16 * 8 * 200];
                batch.gather_into(2, &mut wide).unwrap();
                let mut wide: Vec<i64> = wide
                    .chunks_exact(8 * 200)
                    .map(|row| i64::from_le_bytes(row[..8].try_into().unwrap()))
                    .collect();
                wide.sort_unstable();
                assert_eq!(wide, (0..16).collect::<Vec<_>>());
            }
            server.stop().await;
        }
    }
}

#[tokio::test]
async fn structured_writers_choose_codecs_as_well() {
    let server = TestServer::start([table()]).await;
    let wide = Nest::Leaf(SourceColumn::at(2).slice(-2..).unwrap());
    let options = StructuredWriterOptions::default().codec(Codec::Lz4);
    let client = server.client();
    let configs = vec![StructuredConfig::new("t", wide)];
    let mut writer = client.structured_writer_with(configs, options).unwrap();
    for number in 0..3 {
        writer.append(&step(number)).await.unwrap();
    }
    writer.close().await.unwrap();
    assert_eq!(stored(&server).await, CodecSet::NONE.with(Codec::Lz4));
    server.stop().await;
}

#[tokio::test]
async fn the_default_codec_is_readable_by_dm_reverb() {
    let server = TestServer::start([table()]).await;
    write(&server.client(), TrajectoryWriterOptions::new(1), 0..4).await;
    write(&server.client(), TrajectoryWriterOptions::new(1).codec(Codec::Snappy), 0..4).await;
    assert_eq!(stored(&server).await, CodecSet::REVERB);
    server.stop().await;
}

/// Returns a server that only supports Snappy, and answers a request for its description in one of two ways: with an
/// empty description, or with the error that the call is unknown.
async fn old_server(describes: bool) -> std::net::SocketAddr {
    grpc_server(move |path| {
        let is_question = path.ends_with("/Describe") || path.ends_with("/Negotiate");
        assert!(is_question, "{path}: nothing is sent before");
        if describes { ("0", vec![0; 5]) } else { ("12", Vec::new()) }
    })
    .await
}

#[tokio::test]
async fn servers_that_support_only_snappy_get_only_snappy() {
    for describes in [false, true] {
        let address = old_server(describes).await;
        for codec in [Codec::Raw, Codec::Lz4, Codec::Zstd] {
            let options = TrajectoryWriterOptions::new(1).validate_items(false).codec(codec);
            let mut writer = client(address, LONG).trajectory_writer(options).unwrap();
            writer.append(&leaf(1_i64)).unwrap();
            let column = writer.history().column("").unwrap().slice(-1..).unwrap();
            writer.create_item("t", 1.0, column).await.unwrap();
            let error = writer.flush(LONG).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unimplemented, "{error}");
            let text = error.to_string();
            assert!(
                text.contains(&format!("snappy, but not {codec}")) && text.contains(&address.to_string()),
                "{text}"
            );
            let again = writer.append(&leaf(2_i64)).unwrap_err();
            assert_eq!(again.to_string(), text, "the writer is broken for good");
        }
    }
}
