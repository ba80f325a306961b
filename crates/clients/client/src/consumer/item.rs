//! One item of a consumer, and the life it leads.

use std::sync::Arc;

use market::CachedItem;
use rdm::directory::QosRange;
use rdm::item::{ItemKey, ItemRequest, Target};
use rdm::login::Features;
use rwf::{DataState, Domain, Priority, Qos, State, StateCode, StreamState};

use super::{ItemRequestSpec, ItemView};

/// One item.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) name: Arc<str>,
    /// The place of its service in the watchlist.
    pub(crate) service: u32,
    pub(crate) domain: Domain,
    pub(crate) tag: u64,
    pub(crate) phase: Phase,
    /// What the application was told last; `None`: nothing yet.
    pub(crate) shown: Option<Shown>,
    /// The group that the server has put it in; empty for none.
    pub(crate) group: Box<[u8]>,
    pub(crate) image: Option<Box<CachedItem>>,
    pub(crate) wish: Box<Wish>,
    /// What of the wish the server does not know yet.
    pub(crate) change: Change,
}

/// What an open stream is asked for again for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Change {
    /// It is not: the server knows all of the wish.
    None,
    /// The wish has changed; no image is wanted.
    Quiet,
    /// An image is wanted, perhaps of another part of the item.
    Image,
}

/// How the item stands with the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Not asked for on this connection: it stands in the queue of its service.
    Waiting,
    /// Asked for, not answered.
    Requested {
        /// Its stream.
        stream_id: i32,
    },
    /// Answered.
    Open {
        /// Its stream.
        stream_id: i32,
    },
    /// Closed by the server for now; it goes back to the queue after a while.
    Resting,
}

/// A state without its words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) stream: StreamState,
    pub(crate) data: DataState,
    pub(crate) code: StateCode,
}

/// What was asked for, beside the name.
#[derive(Debug)]
pub(crate) struct Wish {
    pub(crate) streaming: bool,
    pub(crate) private_stream: bool,
    qos: Option<Qos>,
    worst_qos: Option<Qos>,
    pub(crate) priority: Priority,
    pub(crate) view: Option<ItemView>,
    key_in_updates: bool,
    conflation_info: bool,
    pub(crate) is_paused: bool,
    /// Items of one number go in one request where the server takes several; 0: it goes alone.
    pub(crate) batch: u32,
}

/// What becomes of an item with a state that the server has sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It goes on.
    Lives,
    /// It is asked for again after a while.
    Rests,
    /// It is over.
    Ends,
}

impl Wish {
    /// Whether one request can ask for both, with the names of both.
    pub(crate) fn is_one_request_with(&self, other: &Wish) -> bool {
        self.batch == other.batch
            && self.is_paused == other.is_paused
            && self.priority == other.priority
            && self.view == other.view
    }
}

impl Phase {
    /// The stream, if there is one.
    pub(crate) fn stream_id(self) -> Option<i32> {
        match self {
            Phase::Requested { stream_id } | Phase::Open { stream_id } => Some(stream_id),
            Phase::Waiting | Phase::Resting => None,
        }
    }
}

impl Shown {
    /// The state that follows from this one by what the server says: "no change" leaves the data as it was.
    pub(crate) fn after(before: Option<Shown>, state: State<'_>) -> Shown {
        let data = match (state.data, before) {
            (DataState::NoChange, Some(before)) => before.data,
            (DataState::NoChange, None) => DataState::Suspect,
            (data, _) => data,
        };
        Shown { stream: state.stream, data, code: state.code }
    }

    pub(crate) fn as_state(self) -> State<'static> {
        State { stream: self.stream, data: self.data, code: self.code, text: b"" }
    }
}

impl Item {
    pub(crate) fn new(
        spec: &ItemRequestSpec<'_>,
        name: Arc<str>,
        service: u32,
        keep_image: bool,
        batch: u32,
    ) -> Item {
        let wish = Wish {
            streaming: spec.streaming,
            private_stream: spec.private_stream,
            qos: spec.qos,
            worst_qos: spec.worst_qos,
            priority: spec.priority,
            view: spec.view.clone(),
            key_in_updates: spec.key_in_updates,
            conflation_info: spec.conflation_info,
            is_paused: false,
            batch,
        };
        Item {
            name,
            service,
            domain: spec.domain,
            tag: spec.tag,
            phase: Phase::Waiting,
            shown: None,
            group: Box::default(),
            image: keep_image.then(Box::default),
            wish: Box::new(wish),
            change: Change::None,
        }
    }

    /// What becomes of the item with a stream state. `is_whole`: its image is whole with the message.
    pub(crate) fn fate(&self, stream: StreamState, is_whole: bool, single_open: bool) -> Fate {
        match stream {
            StreamState::Open if self.wish.streaming || !is_whole => Fate::Lives,
            StreamState::NonStreaming if !is_whole => Fate::Lives,
            StreamState::Open | StreamState::NonStreaming => Fate::Ends,
            StreamState::ClosedRecover if single_open => Fate::Rests,
            StreamState::ClosedRecover | StreamState::Closed | StreamState::Redirected => Fate::Ends,
        }
    }

    /// The state as the application is to see it: an item that is asked for again is open and suspect, a
    /// snapshot is never streaming.
    pub(crate) fn shown_state<'s>(&self, state: State<'s>, fate: Fate) -> State<'s> {
        let (stream, data) = match (state.stream, fate) {
            (_, Fate::Rests) => (StreamState::Open, DataState::Suspect),
            (StreamState::Open, _) if !self.wish.streaming => (StreamState::NonStreaming, state.data),
            (stream, _) => (stream, state.data),
        };
        let shown = Shown::after(self.shown, State { stream, data, ..state });
        State { stream: shown.stream, data: shown.data, ..state }
    }

    /// The qualities that will do, `None` for any.
    pub(crate) fn qos_range(&self) -> Option<QosRange> {
        QosRange::of(self.wish.qos, self.wish.worst_qos)
    }

    /// The request for it.
    pub(crate) fn request<'i>(
        &'i self,
        stream_id: i32,
        service_id: u16,
        offered: &[Qos],
        features: &Features,
    ) -> ItemRequest<'i> {
        let wish = &self.wish;
        let view = wish.view.as_ref().filter(|_| features.view_requests == Some(true));
        let any = wish.qos.is_none() && wish.worst_qos.is_none();
        ItemRequest {
            target: Target::Item(ItemKey::new(service_id, self.name.as_bytes())),
            streaming: wish.streaming,
            private_stream: wish.private_stream,
            // A private stream competes with no other; stock consumers send none.
            priority: Some(wish.priority).filter(|_| !wish.private_stream),
            qos: if any { Some(best(offered)) } else { wish.qos },
            worst_qos: wish.worst_qos,
            key_in_updates: wish.key_in_updates,
            conflation_info_in_updates: wish.conflation_info,
            pause: wish.is_paused && features.optimized_pause_resume == Some(true),
            view: view.map(ItemView::on_the_wire),
            ..ItemRequest::streaming(self.domain, stream_id, ItemKey::default())
        }
    }
}

/// The best quality that a service offers: real time and tick by tick, else the first it names.
fn best(offered: &[Qos]) -> Qos {
    let real_time = offered.contains(&Qos::REAL_TIME).then_some(Qos::REAL_TIME);
    real_time.or_else(|| offered.first().copied()).unwrap_or(Qos::REAL_TIME)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdm::item::View;
    use rwf::{Rate, Timeliness};

    const STREAMS: [StreamState; 5] = [
        StreamState::Open,
        StreamState::NonStreaming,
        StreamState::ClosedRecover,
        StreamState::Closed,
        StreamState::Redirected,
    ];

    fn item(streaming: bool) -> Item {
        let spec = ItemRequestSpec { streaming, ..ItemRequestSpec::new("S", "I") };
        Item::new(&spec, "I".into(), 0, false, 0)
    }

    #[test]
    fn each_state_has_its_fate() {
        use Fate::{Ends, Lives, Rests};
        // streaming, whole, single open
        let table = [
            ((true, true, true), [Lives, Ends, Rests, Ends, Ends]),
            ((true, false, true), [Lives, Lives, Rests, Ends, Ends]),
            ((false, true, true), [Ends, Ends, Rests, Ends, Ends]),
            ((false, false, true), [Lives, Lives, Rests, Ends, Ends]),
            ((true, true, false), [Lives, Ends, Ends, Ends, Ends]),
            ((false, false, false), [Lives, Lives, Ends, Ends, Ends]),
        ];
        for ((streaming, whole, single_open), fates) in table {
            let found = STREAMS.map(|stream| item(streaming).fate(stream, whole, single_open));
            assert_eq!(found, fates, "{streaming} {whole} {single_open}");
        }
    }

    #[test]
    fn what_rests_is_shown_open_and_suspect_and_a_snapshot_is_never_streaming() {
        let state =
            State::new(StreamState::ClosedRecover, DataState::Ok).because(StateCode::TIMEOUT, "later");
        let shown = item(true).shown_state(state, Fate::Rests);
        assert_eq!(shown, State { stream: StreamState::Open, data: DataState::Suspect, ..state });
        assert_eq!(item(false).shown_state(State::OPEN_OK, Fate::Ends).stream, StreamState::NonStreaming);
        let mut known = item(true);
        known.shown = Some(Shown::after(None, State::OPEN_OK));
        let no_change = State::new(StreamState::Open, DataState::NoChange);
        assert_eq!(known.shown_state(no_change, Fate::Lives).data, DataState::Ok);
        assert_eq!(item(true).shown_state(no_change, Fate::Lives).data, DataState::Suspect);
    }

    #[test]
    fn a_request_without_a_quality_asks_for_the_best_there_is() {
        let delayed = Qos { timeliness: Timeliness::Delayed(15), rate: Rate::TickByTick, dynamic: false };
        let asked = |offered: &[Qos]| item(true).request(5, 1, offered, &Features::default()).qos;
        assert_eq!(asked(&[delayed, Qos::REAL_TIME]), Some(Qos::REAL_TIME));
        assert_eq!(asked(&[delayed]), Some(delayed));
        assert_eq!(asked(&[]), Some(Qos::REAL_TIME));
    }

    #[test]
    fn a_view_goes_to_servers_that_know_views_alone() {
        let spec = ItemRequestSpec { view: Some([22, 25].into()), ..ItemRequestSpec::new("S", "I") };
        let item = Item::new(&spec, "I".into(), 0, false, 0);
        let views = Features { view_requests: Some(true), ..Features::default() };
        assert_eq!(item.request(5, 1, &[], &views).view, Some(View::Fields([22, 25].into())));
        assert_eq!(item.request(5, 1, &[], &Features::default()).view, None);
    }
    #[test]
    fn a_view_of_names_and_a_pause_go_as_the_server_knows_them() {
        let spec = ItemRequestSpec { view: Some(["A", "B"].into()), ..ItemRequestSpec::new("S", "I") };
        let mut item = Item::new(&spec, "I".into(), 0, false, 0);
        item.wish.is_paused = true;
        let all =
            Features { view_requests: Some(true), optimized_pause_resume: Some(true), ..Features::default() };
        let request = item.request(5, 1, &[], &all);
        assert_eq!((request.view, request.pause), (Some(View::Elements([&b"A"[..], b"B"].into())), true));
        assert!(!item.request(5, 1, &[], &Features::default()).pause);
    }
}
