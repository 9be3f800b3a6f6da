//! Responses: a sequence of messages, then a status.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::atomic::Ordering;
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

use crate::limits::{SEND_BUFFER_BYTES, UNCOUNTED_REPLY_BYTES};
use crate::traffic::{ConnectionBudget, Load};

/// Returns a response with a stream of messages. If the stream fails, its error becomes the response's status.
pub(super) fn of_stream<S, R>(stream: S) -> Response<Body>
where
    S: Stream<Item = Result<R, Status>> + Send + Unpin + 'static,
    R: Message,
{
    of_body(Replies { stream, is_over: false })
}

/// Returns a response with one message or an error. A large message counts toward the bytes in flight, but does not
/// wait for room, so that operators can always look at a server.
pub(super) fn of_result<R: Message>(
    result: Result<R, Status>,
    connection_budget: &ConnectionBudget,
) -> Response<Body> {
    of_counted(result.map(|message| {
        let message = framed(&message);
        let is_large = message.len() > UNCOUNTED_REPLY_BYTES;
        let load = is_large.then(|| connection_budget.stream_budget().take_now(message.len() as u64));
        (message, load)
    }))
}

/// Returns a response with one encoded message, which counts toward the bytes in flight, or an error.
pub(super) fn of_counted(result: Result<(Bytes, Option<Load>), Status>) -> Response<Body> {
    of_body(match result {
        Ok((rest, load)) => Reply { rest, load, end: Some(Status::ok("")) },
        Err(status) => Reply { rest: Bytes::new(), load: None, end: Some(status) },
    })
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

/// The only message of a call, and its status.
struct Reply {
    /// The rest of the message.
    rest: Bytes,
    /// The accounted bytes, until the connection has taken all of them.
    load: Option<Load>,
    end: Option<Status>,
}

impl http_body::Body for Reply {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.rest.is_empty() {
            self.load.take().into_iter().for_each(Load::arrived);
            return Poll::Ready(self.end.take().map(|status| Ok(Frame::trailers(trailers(&status)))));
        }
        // The connection asks for the next piece when the client has taken nearly all of the previous one.
        let len = self.rest.len().min(SEND_BUFFER_BYTES);
        let piece = self.rest.split_to(len);
        if let Some(load) = &self.load {
            load.moved().fetch_add(len as u64, Ordering::Relaxed);
        }
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use http_body_util::BodyExt as _;
    use relive_wire::v1::DropTableRequest;

    use super::*;
    use crate::traffic::Traffic;

    #[tokio::test]
    async fn a_large_reply_counts_until_it_is_taken_even_if_there_is_no_room() {
        let traffic = Traffic::new(1);
        let connection_budget = traffic.enter(&Arc::from("10.0.0.1:1"));
        let reply = |len| Ok(DropTableRequest { table: "t".repeat(len) });
        let small = of_result(reply(UNCOUNTED_REPLY_BYTES - 100), &connection_budget);
        assert_eq!(traffic.status().bytes, 0);
        let large = of_result(reply(SEND_BUFFER_BYTES), &connection_budget);
        let len = traffic.status().bytes;
        assert!(len > SEND_BUFFER_BYTES as u64);
        drop(small);
        let mut body = large.into_body();
        let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!((first.len(), traffic.status().bytes), (SEND_BUFFER_BYTES, len));
        let rest = body.collect().await.unwrap();
        assert_eq!(rest.trailers().unwrap()["grpc-status"], "0");
        assert_eq!(
            (rest.to_bytes().len() as u64 + SEND_BUFFER_BYTES as u64, traffic.status().bytes),
            (len, 0)
        );
    }

    #[tokio::test]
    async fn an_error_is_a_reply_without_a_message() {
        let connection_budget = Traffic::new(1).enter(&Arc::from("10.0.0.1:1"));
        let failed = of_result::<DropTableRequest>(Err(Status::not_found("no")), &connection_budget);
        let body = failed.into_body().collect().await.unwrap();
        assert_eq!(body.trailers().unwrap()["grpc-status"], "5");
        assert!(body.to_bytes().is_empty());
    }
}
