//! The messages on a stream of samples.
//!
//! gRPC's framing is parsed by [`Deframer`] rather than by a codec, so messages are passed on without a copy.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_core::Stream;
use http::header::{CONTENT_TYPE, TE};
use http::{HeaderMap, HeaderValue, Request};
use http_body::{Body as _, Frame};
use relive_connection::{Error, ErrorKind, GrpcChannel};
use relive_wire::framing::{Deframer, FramingError, framed};
use relive_wire::{Message, WireError};
use tonic::body::Body;
use tonic::client::GrpcService;
use tonic::{Code, Status};

/// The RPC that returns samples.
pub(crate) const SAMPLE_STREAM: &str = "/deepmind.reverb.ReverbService/SampleStream";

/// The responses on a sample stream.
pub(crate) struct Responses {
    body: Body,
    deframer: Deframer,
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
        let deframer = Deframer::new(usize::MAX, MAX_RESERVED_BYTES);
        Ok(Responses { body, deframer, early_status })
    }

    /// Returns the next message, or `None` once the server has ended the stream normally.
    pub(crate) async fn message(&mut self) -> Result<Option<Bytes>, Status> {
        std::future::poll_fn(|cx| self.poll_message(cx)).await
    }

    fn poll_message(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Status>> {
        loop {
            if let Some(message) = self.deframer.take_message().map_err(unreadable)? {
                return Poll::Ready(Ok(Some(message)));
            }
            let Some(frame) = ready!(Pin::new(&mut self.body).poll_frame(cx)) else {
                return Poll::Ready(self.end(None));
            };
            let frame = frame.map_err(|status| Status::from_error(status.into()))?;
            match frame.into_data() {
                Ok(data) => self.deframer.push(data),
                Err(frame) => return Poll::Ready(self.end(frame.into_trailers().ok().as_ref())),
            }
        }
    }

    /// Returns the result of a stream that has ended.
    fn end(&self, trailers: Option<&HeaderMap>) -> Result<Option<Bytes>, Status> {
        let status = trailers.and_then(Status::from_header_map).or_else(|| self.early_status.clone());
        match status {
            Some(status) if status.code() != Code::Ok => Err(status),
            Some(_) if self.deframer.held_bytes() == 0 => Ok(None),
            Some(_) => Err(Status::internal("the stream ended inside a message")),
            None => Err(Status::unavailable("the stream ended without a status")),
        }
    }
}

/// The largest amount of memory that is reserved for an announced length: the usual size of a server's message, plus
/// one chunk.
const MAX_RESERVED_BYTES: usize = 4 << 20;

fn unreadable(error: FramingError) -> Status {
    match error {
        FramingError::Compressed => {
            Status::unimplemented("the server sent compressed messages, which were not requested")
        }
        FramingError::TooLong { .. } => {
            Status::out_of_range(format!("a message from the server is too long: {error}"))
        }
    }
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
