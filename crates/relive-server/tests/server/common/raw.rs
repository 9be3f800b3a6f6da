//! Manually written frames of the bulk path.

use relive_wire::Message;
use relive_wire::bulk::{FrameHeader, FrameKind, HEADER_BYTES, MAGIC};
use relive_wire::v1::{AskBatches, BulkError, OpenSampler};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tonic::Code;

use super::{DUE, TestServer};

/// A connection on which a test writes raw frames.
pub struct Raw(pub TcpStream);

impl Raw {
    pub async fn open(server: &TestServer) -> Self {
        let mut raw = Self(TcpStream::connect(server.address).await.unwrap());
        raw.write(MAGIC).await;
        raw
    }

    pub async fn sampler(server: &TestServer, open: OpenSampler) -> Self {
        let mut raw = Self::open(server).await;
        raw.send(FrameKind::OpenSampler, &open.encode_to_vec(), &[]).await;
        raw
    }

    pub async fn writer(server: &TestServer) -> Self {
        let mut raw = Self::open(server).await;
        raw.send(FrameKind::OpenWriter, &[], &[]).await;
        raw
    }

    pub async fn write(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).await.unwrap();
    }

    pub async fn send(&mut self, kind: FrameKind, head: &[u8], body: &[u8]) {
        let header = FrameHeader::new(kind, head.len(), body.len()).unwrap().encode();
        self.write(&[&header, head, body].concat()).await;
    }

    pub async fn ask(&mut self, batches: u64) {
        let ask = AskBatches { batches, ..AskBatches::default() };
        self.send(FrameKind::Ask, &ask.encode_to_vec(), &[]).await;
    }

    pub async fn next(&mut self) -> (FrameKind, Vec<u8>, Vec<u8>) {
        let reading = async {
            let mut header = [0; HEADER_BYTES];
            self.0.read_exact(&mut header).await.unwrap();
            let header = FrameHeader::decode(&header).unwrap();
            let (mut head, mut body) = (vec![0; header.head_len()], vec![0; header.body_len()]);
            self.0.read_exact(&mut head).await.unwrap();
            self.0.read_exact(&mut body).await.unwrap();
            (header.kind, head, body)
        };
        timeout(DUE, reading).await.expect("a frame comes")
    }

    pub async fn confirmed(&mut self) -> Vec<u64> {
        let (kind, _, body) = self.next().await;
        assert_eq!(kind, FrameKind::Confirm);
        body.as_chunks().0.iter().map(|key| u64::from_le_bytes(*key)).collect()
    }

    pub async fn error(&mut self) -> (Code, String) {
        loop {
            let (kind, head, _) = self.next().await;
            if kind == FrameKind::Error {
                let error = BulkError::decode(head.as_slice()).unwrap();
                return (Code::from(error.code), error.message);
            }
        }
    }

    /// Waits for the end of the connection, and ignores all data before it.
    pub async fn end(mut self) {
        let mut rest = Vec::new();
        // The server may reset a connection with unread data.
        drop(timeout(DUE, self.0.read_to_end(&mut rest)).await.expect("the connection ends"));
    }
}
