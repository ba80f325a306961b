//! What one message of a client asks for and is not all done at once: dictionaries, batches, a login that lets
//! many streams go on, the images of a server that stood by and is the active one now.
//!
//! A message of some bytes may ask for megabytes. The front end says after each step whether another may follow
//! ([`ServerSink::admits_more`]); what is left is a *continuation* of the client, which the front end takes up in its time
//! ([`PointToPoint::go_on`]). A client has one continuation at most: its messages are answered in order, so the front
//! end keeps those that follow until the continuation is done.

use std::sync::Arc;

use rdm::RdmError;
use rdm::dictionary::{DictionaryMsg, DictionaryRequest};
use rdm::item::{ItemRequest, Target};
use rwf::{Msg, RequestMsg};
use units::Nanos;

use super::PointToPoint;
use super::audience::Form;
use super::base::{ClientId, Watcher};
use super::client::Continuation;
use super::sink::ServerSink;

/// For the front end.
impl PointToPoint {
    /// Does one more step of the client's continuation, and further ones while the front end admits them.
    pub fn go_on(&mut self, now: Nanos, client: ClientId, sink: &mut impl ServerSink) {
        let Some(continuation) =
            self.items.clients.get_mut(client).and_then(|known| known.continuation.take())
        else {
            return;
        };
        let left = match *continuation {
            Continuation::Dictionary { request, next } => {
                self.go_on_with_dictionary(client, request, next, sink)
            }
            Continuation::Batch { request, form, next } => {
                self.go_on_with_batch(now, client, request, (form, next), sink)
            }
            Continuation::Pause { stream_ids, is_paused } => {
                self.pause_some(client, stream_ids, is_paused, sink)
            }
            Continuation::Images { stream_ids } => self.send_some_images(client, stream_ids, sink),
        };
        self.items.clients.set_continuation(client, left);
    }
}

/// Dictionaries.
impl PointToPoint {
    pub(super) fn on_dictionary_msg(
        &mut self,
        client: ClientId,
        msg: &Msg<'_>,
        bytes: &[u8],
        sink: &mut impl ServerSink,
    ) -> Result<(), RdmError> {
        let DictionaryMsg::Request(request) = DictionaryMsg::parse(msg)? else { return Ok(()) };
        if let Some(next) = self.send_dictionary(client, &request, 0, sink)? {
            self.items
                .clients
                .set_continuation(client, Some(Continuation::Dictionary { request: bytes.into(), next }));
        }
        Ok(())
    }

    fn go_on_with_dictionary(
        &mut self,
        client: ClientId,
        request: Box<[u8]>,
        next: usize,
        sink: &mut impl ServerSink,
    ) -> Option<Continuation> {
        let msg = Msg::parse(&request).ok()?;
        let Ok(DictionaryMsg::Request(wanted)) = DictionaryMsg::parse(&msg) else { return None };
        let next = self.send_dictionary(client, &wanted, next, sink).ok()??;
        Some(Continuation::Dictionary { request, next })
    }

    /// Sends parts from `next` on; returns the first that is left.
    fn send_dictionary(
        &mut self,
        client: ClientId,
        request: &DictionaryRequest<'_>,
        next: usize,
        sink: &mut impl ServerSink,
    ) -> Result<Option<usize>, RdmError> {
        let part_bytes = self.items.clients.profile(client).dictionary_part_bytes;
        let prepared = self.prepared.of(&self.dictionary, request, part_bytes)?;
        for number in next..prepared.part_count() {
            if number > next && !sink.admits_more(client) {
                return Ok(Some(number));
            }
            if let Some(part) = prepared.part(request, number) {
                sink.send(client, self.encoding.encode(|w| part.encode(w)));
            }
        }
        Ok(None)
    }
}

/// Batches.
impl PointToPoint {
    /// Does what a batch asks for, item by item or stream by stream.
    pub(super) fn begin_batch(
        &mut self,
        now: Nanos,
        client: ClientId,
        msg: &RequestMsg<'_>,
        (request, form): (&ItemRequest<'_>, &Arc<Form>),
        sink: &mut impl ServerSink,
    ) {
        if let Some(next) = self.serve_batch(now, client, request, (form, 0), sink) {
            let request = self.encoding.encode(|w| msg.encode(w)).into();
            self.items.clients.set_continuation(
                client,
                Some(Continuation::Batch { request, form: Arc::clone(form), next }),
            );
        }
    }

    fn go_on_with_batch(
        &mut self,
        now: Nanos,
        client: ClientId,
        request: Box<[u8]>,
        (form, next): (Arc<Form>, usize),
        sink: &mut impl ServerSink,
    ) -> Option<Continuation> {
        let wanted = ItemRequest::parse(&RequestMsg::parse(&request).ok()?).ok()?;
        let next = self.serve_batch(now, client, &wanted, (&form, next), sink)?;
        Some(Continuation::Batch { request, form, next })
    }

    /// Serves the items or streams of a batch from `next` on; returns the first that is left.
    fn serve_batch(
        &mut self,
        now: Nanos,
        client: ClientId,
        request: &ItemRequest<'_>,
        (form, next): (&Arc<Form>, usize),
        sink: &mut impl ServerSink,
    ) -> Option<usize> {
        if let Target::Streams(stream_ids) = &request.target {
            for (at, &stream_id) in stream_ids.iter().enumerate().skip(next) {
                if at > next && !sink.admits_more(client) {
                    return Some(at);
                }
                let watcher = Watcher { client, stream_id };
                let service_id = self.service_of(watcher).unwrap_or_default();
                let form = self.paced_form(watcher, request, service_id, form);
                self.items.reissue(now, watcher, &form, (request.pause, request.no_refresh), sink);
            }
            self.end_reissue(now, client, (request, stream_ids), sink);
            return None;
        }
        for (at, (stream_id, key)) in request.target.keys(request.stream_id).enumerate().skip(next) {
            if at > next && !sink.admits_more(client) {
                return Some(at);
            }
            self.serve_single(now, client, (request, form), (stream_id, key), sink);
        }
        None
    }
}

/// Pauses.
impl PointToPoint {
    /// Pauses all streams of a client or lets them go on, as its login says now.
    pub(super) fn pause_streams(&mut self, client: ClientId, sink: &mut impl ServerSink) {
        let is_paused = self.items.clients.pauses_all(client);
        let Some(known) = self.items.clients.get(client) else { return };
        let unpaused = known.streams.keys().filter(|stream_id| !known.has_paused(**stream_id));
        let stream_ids = unpaused.copied().collect();
        let left = self.pause_some(client, stream_ids, is_paused, sink);
        self.items.clients.set_continuation(client, left);
    }

    fn pause_some(
        &mut self,
        client: ClientId,
        mut stream_ids: Vec<i32>,
        is_paused: bool,
        sink: &mut impl ServerSink,
    ) -> Option<Continuation> {
        while let Some(stream_id) = stream_ids.pop() {
            self.items.set_pause(Watcher { client, stream_id }, is_paused, sink);
            if !stream_ids.is_empty() && !sink.admits_more(client) {
                return Some(Continuation::Pause { stream_ids, is_paused });
            }
        }
        None
    }
}

/// Warm standby.
impl PointToPoint {
    /// This server stood by for a client, for those `services`, and is the active one now: the streams get their
    /// images. The client's library has marked the items suspect when it lost the other server, and what that one
    /// had not delivered is missing; the images mend both.
    pub(super) fn take_over(
        &mut self,
        client: ClientId,
        services: impl Fn(u16) -> bool,
        sink: &mut impl ServerSink,
    ) {
        let Some(known) = self.items.clients.get(client) else { return };
        let of_them = known.streams.iter().filter(|(_, stream)| {
            let item = self.items.table.get(stream.index());
            item.is_some_and(|item| services(stream.form.shown_key(item.key.as_key()).service))
        });
        let stream_ids = of_them.map(|(stream_id, _)| *stream_id).collect();
        let left = self.send_some_images(client, stream_ids, sink);
        self.items.clients.set_continuation(client, left);
    }

    fn send_some_images(
        &mut self,
        client: ClientId,
        mut stream_ids: Vec<i32>,
        sink: &mut impl ServerSink,
    ) -> Option<Continuation> {
        while let Some(stream_id) = stream_ids.pop() {
            self.send_images(&[Watcher { client, stream_id }], sink);
            if !stream_ids.is_empty() && !sink.admits_more(client) {
                return Some(Continuation::Images { stream_ids });
            }
        }
        None
    }
}
