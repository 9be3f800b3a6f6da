//! A server in the test's process, and raw streams to it.

pub mod raw;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use relive_engine::Engine;
use relive_server::{ServerOptions, bind, serve};
use relive_table::TableConfig;
use relive_tensor::{Chunk, Codec, SequenceRange, Tensor, encode_chunk};
use relive_wire::chunk;
use relive_wire::item_run::RunSlice;
use relive_wire::reverb::flat_trajectory::{ChunkSlice, Column};
use relive_wire::reverb::reverb_service_client::ReverbServiceClient;
use relive_wire::reverb::{
    FlatTrajectory, InsertStreamRequest, InsertStreamResponse, PrioritizedItem, SampleStreamRequest,
    SampleStreamResponse, Timeout,
};
use relive_wire::v1::{InsertItems, ItemRun};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Status, Streaming};

/// The time within which every expected event must happen.
pub const DUE: Duration = Duration::from_secs(20);

pub struct TestServer {
    pub address: SocketAddr,
    pub engine: Engine,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<std::io::Result<()>>,
}

impl TestServer {
    pub async fn start(tables: impl IntoIterator<Item = TableConfig>) -> Self {
        let mut builder = Engine::builder().seed(3);
        for table in tables {
            builder = builder.table(table);
        }
        Self::of(builder.build().unwrap(), ServerOptions::default()).await
    }

    pub async fn of(engine: Engine, options: ServerOptions) -> Self {
        let listener = bind(([127, 0, 0, 1], 0).into()).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(serve(listener, engine.clone(), options, async { drop(stopped.await) }));
        Self { address, engine, stop: Some(stop), task }
    }

    pub async fn client(&self) -> ReverbServiceClient<Channel> {
        ReverbServiceClient::new(self.channel().await).max_decoding_message_size(usize::MAX)
    }

    pub async fn channel(&self) -> Channel {
        Endpoint::from_shared(format!("http://{}", self.address)).unwrap().connect().await.unwrap()
    }

    pub fn begin_stop(&mut self) {
        drop(self.stop.take());
    }

    pub async fn stop(self) {
        self.end().await.unwrap();
    }

    /// Stops the server and returns the result of `serve`.
    pub async fn end(mut self) -> std::io::Result<()> {
        self.begin_stop();
        tokio::time::timeout(DUE, self.task).await.expect("the server ends").unwrap()
    }
}

/// An open insert stream.
pub struct Inserter {
    requests: Option<mpsc::UnboundedSender<InsertStreamRequest>>,
    responses: Streaming<InsertStreamResponse>,
}

impl Inserter {
    pub async fn open(client: &mut ReverbServiceClient<Channel>) -> Self {
        let (requests, stream) = mpsc::unbounded_channel();
        let responses =
            client.insert_stream(UnboundedReceiverStream::new(stream)).await.unwrap().into_inner();
        Self { requests: Some(requests), responses }
    }

    pub fn send(&self, request: InsertStreamRequest) {
        // If the server has ended the stream, the status reports it.
        let _ = self.requests.as_ref().expect("the stream is open for sending").send(request);
    }

    pub fn half_close(&mut self) {
        self.requests = None;
    }

    /// Returns the next confirmed keys, or `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Vec<u64>>, Status> {
        let message = tokio::time::timeout(DUE, self.responses.message()).await.expect("a response is due");
        Ok(message?.map(|response| response.keys))
    }

    /// Waits until every one of `keys` is confirmed, each exactly once.
    pub async fn confirmed(&mut self, keys: impl IntoIterator<Item = u64>) {
        let mut open: BTreeMap<u64, u32> = keys.into_iter().map(|key| (key, 1)).collect();
        while !open.is_empty() {
            for key in self.next().await.unwrap().expect("the stream goes on") {
                assert!(open.remove(&key).is_some(), "key {key} was not outstanding");
            }
        }
    }

    pub async fn status(&mut self) -> Status {
        loop {
            match self.next().await {
                Ok(Some(_)) => {}
                Ok(None) => return Status::ok(""),
                Err(status) => return status,
            }
        }
    }
}

/// An open sample stream.
pub struct Sampler {
    requests: mpsc::UnboundedSender<SampleStreamRequest>,
    responses: Streaming<SampleStreamResponse>,
}

impl Sampler {
    pub async fn open(client: &mut ReverbServiceClient<Channel>) -> Self {
        let (requests, stream) = mpsc::unbounded_channel();
        let responses =
            client.sample_stream(UnboundedReceiverStream::new(stream)).await.unwrap().into_inner();
        Self { requests, responses }
    }

    pub fn ask(&self, table: &str, num_samples: i64, timeout_ms: i64) {
        self.ask_as(&[], table, num_samples, timeout_ms);
    }

    /// Requests samples as a reader that supports the codecs with the given numbers.
    pub fn ask_as(&self, codecs: &[i32], table: &str, num_samples: i64, timeout_ms: i64) {
        let rate_limiter_timeout = Some(Timeout { milliseconds: timeout_ms });
        let request = SampleStreamRequest {
            table: table.to_owned(),
            num_samples,
            rate_limiter_timeout,
            relive_codecs: codecs.to_vec(),
            ..SampleStreamRequest::default()
        };
        let _ = self.requests.send(request);
    }

    pub fn take_back(&self) {
        let request = SampleStreamRequest { relive_take_back: true, ..SampleStreamRequest::default() };
        let _ = self.requests.send(request);
    }

    pub async fn next(&mut self) -> Result<Option<SampleStreamResponse>, Status> {
        tokio::time::timeout(DUE, self.responses.message()).await.expect("a response is due")
    }

    pub async fn status(&mut self) -> Status {
        loop {
            match self.next().await {
                Ok(Some(_)) => {}
                Ok(None) => return Status::ok(""),
                Err(status) => return status,
            }
        }
    }
}

/// Returns an encoded chunk of `values.len()` steps of one float32 column.
pub fn chunk_of(key: u64, values: &[f32]) -> bytes::Bytes {
    chunk_under(Codec::Snappy, key, values)
}

/// Like [`chunk_of`], but with a codec.
pub fn chunk_under(codec: Codec, key: u64, values: &[f32]) -> bytes::Bytes {
    let rows = Tensor::from_slice(values, [u32::try_from(values.len()).unwrap()]).unwrap();
    let end = i32::try_from(values.len()).unwrap() - 1;
    let range = SequenceRange { episode_id: 1, start: 0, end, sparse: false };
    chunk::encode(&Chunk::new(encode_chunk(key, range, &[rows], false, codec).unwrap()).unwrap())
}

/// Returns an item with one column: the first `length` rows of each chunk.
pub fn item_over(table: &str, key: u64, chunks: &[u64], length: i32) -> PrioritizedItem {
    let slice = |chunk_key: &u64| ChunkSlice { chunk_key: *chunk_key, offset: 0, length, index: 0 };
    let column = Column { chunk_slices: chunks.iter().map(slice).collect(), squeeze: false };
    PrioritizedItem {
        key,
        table: table.to_owned(),
        priority: 1.0,
        flat_trajectory: Some(FlatTrajectory { columns: vec![column] }),
        ..PrioritizedItem::default()
    }
}

/// Returns a request with one chunk of one step and one item that refers to this chunk, both with the key `key`.
pub fn step(table: &str, key: u64) -> InsertStreamRequest {
    InsertStreamRequest {
        chunks: vec![chunk_of(key, &[1.5])],
        items: vec![item_over(table, key, &[key], 1)],
        keep_chunk_keys: Vec::new(),
    }
}

/// Like [`step`], but for the bulk path.
pub fn step_in_run(table: &str, key: u64) -> InsertItems {
    let mut run = ItemRun::new(table, [false].into_iter());
    run.begin_item(key, 1.0);
    run.push_column([RunSlice { chunk_key: key, index: 0, offset: 0, length: 1 }].into_iter());
    InsertItems { chunks: vec![chunk_of(key, &[1.5])], runs: vec![run], keep_chunk_keys: Vec::new() }
}
