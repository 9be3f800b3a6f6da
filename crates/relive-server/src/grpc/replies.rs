//! Responses: a sequence of messages, then a status.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Response};
use http_body::Frame;
use relive_wire::Message;
use relive_wire::framing::framed;
use tokio_stream::Stream;
use tonic::Status;
use tonic::body::Body;

/// Returns a response with a stream of messages. If the stream fails, its error becomes the response's status.
pub(super) fn of_stream<S, R>(stream: S) -> Response<Body>
where
    S: Stream<Item = Result<R, Status>> + Send + Unpin + 'static,
    R: Message,
{
    of_body(Replies { stream, is_over: false })
}

/// Returns a response with one message or an error.
pub(super) fn of_result<R: Message + Unpin + 'static>(result: Result<R, Status>) -> Response<Body> {
    of_stream(tokio_stream::once(result))
}

/// Returns a response with the messages and status of `body`.
pub(super) fn of_body<B>(body: B) -> Response<Body>
where
    B: http_body::Body<Data = Bytes, Error = Infallible> + Send + 'static,
{
    let mut response = Response::new(Body::new(body));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    response
}

/// Returns the headers that end a response.
pub(super) fn trailers(status: &Status) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    if status.add_header(&mut trailers).is_err() {
        // The text cannot be encoded as a header.
        trailers.insert("grpc-status", HeaderValue::from(status.code() as i32));
    }
    trailers
}

struct Replies<S> {
    stream: S,
    is_over: bool,
}

impl<S, R> http_body::Body for Replies<S>
where
    S: Stream<Item = Result<R, Status>> + Unpin,
    R: Message,
{
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        let status = match ready!(Pin::new(&mut self.stream).poll_next(cx)) {
            Some(Ok(message)) => return Poll::Ready(Some(Ok(Frame::data(framed(&message))))),
            Some(Err(status)) => status,
            None => Status::ok(""),
        };
        self.is_over = true;
        Poll::Ready(Some(Ok(Frame::trailers(trailers(&status)))))
    }
}
