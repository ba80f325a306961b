use super::requester::Requester;
use crate::delivery::{BeginOfStream, Delivered, DeliverySink, EndOfStream, Lost};
use units::Nanos;

/// Stands between a transport session and the application's sink while a datagram is being processed.
pub struct Tap<'a, S> {
    pub(super) requester: &'a mut Requester,
    pub(super) now: Nanos,
    pub(super) sink: &'a mut S,
}

impl<S: DeliverySink> DeliverySink for Tap<'_, S> {
    #[inline]
    fn deliver(&mut self, message: Delivered<'_>) {
        let Some(slot) = self.requester.find(message.topic_index) else { return self.sink.deliver(message) };
        if self.requester.topic_mut(slot).passes(&message) {
            return self.sink.deliver(message);
        }
        let (now, sink) = (self.now, &mut *self.sink);
        self.requester.with(slot, |topic, shared| topic.take_live(now, &message, shared, sink));
    }

    fn lost(&mut self, lost: Lost) {
        let Some(slot) = self.requester.find(lost.topic_index) else { return self.sink.lost(lost) };
        let (now, sink) = (self.now, &mut *self.sink);
        self.requester.with(slot, |topic, shared| topic.lose_live(now, &lost, shared, sink));
    }

    fn begin_of_stream(&mut self, begin: BeginOfStream) {
        let Some(slot) = self.requester.find(begin.topic_index) else {
            return self.sink.begin_of_stream(begin);
        };
        let (now, sink) = (self.now, &mut *self.sink);
        self.requester.with(slot, |topic, shared| topic.begin(now, begin.first, shared, sink));
    }

    /// Something of it may have come by request all the same.
    fn unheard(&mut self, end: EndOfStream, is_known: bool) {
        let Some(slot) = self.requester.find(end.topic_index) else {
            return self.sink.unheard(end, is_known);
        };
        let (now, sink) = (self.now, &mut *self.sink);
        self.requester.with(slot, |topic, shared| topic.end_unheard(now, end, is_known, shared, sink));
    }

    fn end_of_stream(&mut self, end: EndOfStream) {
        let Some(slot) = self.requester.find(end.topic_index) else { return self.sink.end_of_stream(end) };
        let sink = &mut *self.sink;
        self.requester.with(slot, |topic, shared| topic.end_live(end, shared, sink));
    }
}
