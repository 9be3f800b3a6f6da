//! The messages on a stream of samples.
//!
//! gRPC's framing is parsed here rather than by a codec. A message that is complete in one HTTP/2 frame, which is usual
//! for small items, is therefore passed on without a copy.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use futures_core::Stream;
use http::header::{CONTENT_TYPE, TE};
use http::{HeaderMap, HeaderValue, Request};
use http_body::{Body as _, Frame};
use relive_connection::{Error, ErrorKind, GrpcChannel};
use relive_wire::limits::GRPC_HEADER_BYTES;
use relive_wire::{Message, WireError};
use tonic::body::Body;
use tonic::client::GrpcService;
use tonic::{Code, Status};

/// The RPC that returns samples.
pub(crate) const SAMPLE_STREAM: &str = "/deepmind.reverb.ReverbService/SampleStream";

/// The number of bytes before a message: a flag (1 if compressed) and the length, big-endian.
const HEADER_BYTES: usize = GRPC_HEADER_BYTES;

/// The responses on a sample stream.
pub(crate) struct Responses {
    body: Body,
    /// The unread remainder of the last frame.
    frame: Bytes,
    /// The beginning of a message that spans frames, with its header.
    begun: BytesMut,
    /// The status, if it arrived with the headers of the response.
    early_status: Option<Status>,
}

impl Responses {
    /// Opens a stream of the RPC at `path` that sends `requests`.
    pub(crate) async fn open<R>(
        channel: &mut GrpcChannel,
        path: &'static str,
        requests: R,
    ) -> Result<Responses, Status>
    where
        R: Stream<Item: Message> + Send + 'static,
    {
        std::future::poll_fn(|cx| GrpcService::<Body>::poll_ready(channel, cx)).await.map_err(transport)?;
        let mut request = Request::post(path).body(Body::new(RequestBody { requests: Box::pin(requests) }));
        if let Ok(request) = &mut request {
            request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
            request.headers_mut().insert(TE, HeaderValue::from_static("trailers"));
        }
        let request = request.map_err(|error| Status::internal(error.to_string()))?;
        let response = GrpcService::call(channel, request).await.map_err(transport)?;
        let (head, body) = response.into_parts();
        if !head.status.is_success() {
            let code = if head.status.is_server_error() { Code::Unavailable } else { Code::Unknown };
            return Err(Status::new(code, format!("the server answered with HTTP status {}", head.status)));
        }
        let early_status = Status::from_header_map(&head.headers);
        if let Some(status) = early_status.as_ref().filter(|status| status.code() != Code::Ok) {
            return Err(status.clone());
        }
        Ok(Responses { body, frame: Bytes::new(), begun: BytesMut::new(), early_status })
    }

    /// Returns the next message, or `None` once the server has ended the stream normally.
    pub(crate) async fn message(&mut self) -> Result<Option<Bytes>, Status> {
        std::future::poll_fn(|cx| self.poll_message(cx)).await
    }

    fn poll_message(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Status>> {
        loop {
            if let Some(message) = self.take_message()? {
                return Poll::Ready(Ok(Some(message)));
            }
            let Some(frame) = ready!(Pin::new(&mut self.body).poll_frame(cx)) else {
                return Poll::Ready(self.end(None));
            };
            let frame = frame.map_err(|status| Status::from_error(status.into()))?;
            match frame.into_data() {
                Ok(data) => self.frame = data,
                Err(frame) => return Poll::Ready(self.end(frame.into_trailers().ok().as_ref())),
            }
        }
    }

    /// Returns the result of a stream that has ended.
    fn end(&self, trailers: Option<&HeaderMap>) -> Result<Option<Bytes>, Status> {
        let status = trailers.and_then(Status::from_header_map).or_else(|| self.early_status.clone());
        match status {
            Some(status) if status.code() != Code::Ok => Err(status),
            Some(_) if self.begun.is_empty() => Ok(None),
            Some(_) => Err(Status::internal("the stream ended inside a message")),
            None => Err(Status::unavailable("the stream ended without a status")),
        }
    }

    /// Takes a complete message without its header, if one is available.
    fn take_message(&mut self) -> Result<Option<Bytes>, Status> {
        if self.begun.is_empty() {
            let whole = end_of_message(&self.frame)?.filter(|end| *end <= self.frame.len());
            let Some(end) = whole else {
                self.set_aside(usize::MAX);
                return Ok(None);
            };
            let mut message = self.frame.split_to(end);
            message.advance(HEADER_BYTES);
            return Ok(Some(message));
        }
        self.set_aside(HEADER_BYTES.saturating_sub(self.begun.len()));
        let Some(end) = end_of_message(&self.begun)? else { return Ok(None) };
        self.set_aside(end - self.begun.len());
        if self.begun.len() < end {
            return Ok(None);
        }
        let mut message = std::mem::take(&mut self.begun).freeze();
        message.advance(HEADER_BYTES);
        Ok(Some(message))
    }

    /// Appends up to `most` bytes of the frame to the message that has begun.
    fn set_aside(&mut self, most: usize) {
        let part = self.frame.split_to(most.min(self.frame.len()));
        if self.begun.is_empty() && !part.is_empty() {
            // The announced length is trusted up to the usual size of a message. For a larger message, the buffer grows
            // as data arrives.
            let announced = end_of_message(&part).ok().flatten().unwrap_or(0);
            self.begun.reserve(announced.clamp(part.len(), MAX_RESERVED_BYTES.max(part.len())));
        }
        self.begun.extend_from_slice(&part);
    }
}

/// The largest amount of memory that is reserved for an announced length: the usual size of a server's message, plus
/// one chunk.
const MAX_RESERVED_BYTES: usize = 4 << 20;

/// Returns the end of the message at the beginning of `bytes`, or `None` if its header is incomplete.
pub(crate) fn end_of_message(bytes: &[u8]) -> Result<Option<usize>, Status> {
    let Some(([flag, length @ ..], _)) = bytes.split_first_chunk::<HEADER_BYTES>() else { return Ok(None) };
    if *flag != 0 {
        return Err(Status::unimplemented("the server sent compressed messages, which were not requested"));
    }
    let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
    Ok(length.checked_add(HEADER_BYTES))
}

fn transport(error: tonic::transport::Error) -> Status {
    Status::from_error(Box::new(error))
}

/// The requests on a stream, as the body of its HTTP request.
struct RequestBody<R> {
    requests: Pin<Box<R>>,
}

impl<R: Stream<Item: Message>> http_body::Body for RequestBody<R> {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let request = ready!(self.requests.as_mut().poll_next(cx));
        Poll::Ready(request.map(|request| Ok(Frame::data(framed(&request)))))
    }
}

fn framed(request: &impl Message) -> Bytes {
    let length = request.encoded_len();
    let mut out = BytesMut::with_capacity(HEADER_BYTES + length);
    out.put_u8(0);
    out.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    out.put_slice(&request.encode_to_vec());
    out.freeze()
}

/// The reason why a stream ended.
pub(crate) enum StreamEnd {
    /// The server or the transport reported an error.
    Status(Status),
    /// The received data is invalid.
    Permanent(Error),
}

impl StreamEnd {
    /// The server sent more than was requested.
    pub(crate) fn too_many() -> StreamEnd {
        let text = "sample: the server sent more samples than requested";
        StreamEnd::Permanent(Error::new(ErrorKind::Protocol, text))
    }
}

impl From<Status> for StreamEnd {
    fn from(status: Status) -> StreamEnd {
        StreamEnd::Status(status)
    }
}

impl From<WireError> for StreamEnd {
    fn from(error: WireError) -> StreamEnd {
        let text = format!("sample: {error}");
        StreamEnd::Permanent(Error::with_source(ErrorKind::Protocol, text, error))
    }
}
