//! `/events`: the dashboard's data, as server-sent events.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::extract::State;
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Interval, MissedTickBehavior};
use tokio_stream::Stream;

use super::facts;
use super::overview::Overview;
use super::view::View;
use crate::limits::{EVENT_INTERVAL, MAX_EVENT_STREAMS};

/// Returns a stream that begins with the history and continues with the current facts, every second.
pub(super) async fn events(State(view): State<View>) -> Response {
    let Ok(slot) = Arc::clone(&view.share.slots).try_acquire_owned() else {
        let text = format!("the limit of {MAX_EVENT_STREAMS} open dashboards is reached; close one\n");
        return (StatusCode::SERVICE_UNAVAILABLE, text).into_response();
    };
    let mut ticks = tokio::time::interval(EVENT_INTERVAL);
    // A slow reader receives the current facts and misses older ones.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    Sse::new(Events { view, ticks, is_begun: false, _slot: slot }).into_response()
}

struct Events {
    view: View,
    ticks: Interval,
    is_begun: bool,
    _slot: OwnedSemaphorePermit,
}

impl Stream for Events {
    type Item = Result<Event, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if !self.is_begun {
            self.is_begun = true;
            let past = serde_json::to_string(&self.view.history.past());
            let past = past.expect("strings, numbers and lists of these can be serialized");
            return Poll::Ready(Some(Ok(Event::default().event("past").data(past))));
        }
        std::task::ready!(self.ticks.poll_tick(cx));
        Poll::Ready(Some(Ok(Event::default().event("facts").data(&*now(&self.view)))))
    }
}

/// The maximum age at which facts are reused for other readers.
const SHARED_FOR: Duration = Duration::from_millis(500);

fn now(view: &View) -> Arc<str> {
    let mut last = view.share.last.lock();
    if let Some((at, facts)) = &*last
        && at.elapsed() < SHARED_FOR
    {
        return Arc::clone(facts);
    }
    let facts: Arc<str> = facts::json(&Overview::at(&view.monitor)).into();
    *last = Some((Instant::now(), Arc::clone(&facts)));
    facts
}
