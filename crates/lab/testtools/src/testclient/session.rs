//! What one connection hears: counts, latencies, the state of its items.

use std::collections::HashMap;
use std::fs::File;
use std::hint::black_box;
use std::io::{BufWriter, Write};

use client::{ConsumerEvent, ItemEvent, ItemHandle, ItemMsg, PostOutcome, StreamState, Value};
use net::clock;
use rwf::PostUserInfo;
use rwf::{Real, UpdateMsg};
use units::Nanos;

use super::args::Decode;
use super::counts::{ClientCounts, IntervalCounts};
use crate::messages::{STAMPS, TIM_TRK_1, TIM_TRK_2, TIM_TRK_3, stamp_in};
use crate::stamp_clock::StampUnit;

/// An item of a connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Item {
    /// Once it has been asked for, and until it has ended.
    pub(super) handle: Option<ItemHandle>,
    pub(super) is_snapshot: bool,
    /// It has had its image, or never will.
    pub(super) is_settled: bool,
}

/// What is told of a connection, kept.
pub(super) struct Session {
    pub(super) service: String,
    pub(super) decode: Decode,
    pub(super) unit: StampUnit,
    pub(super) keeps_going: bool,
    /// Who posts here.
    pub(super) user: PostUserInfo,
    /// How much of steady state is left out.
    pub(super) delay: std::time::Duration,
    pub(super) latencies: Option<BufWriter<File>>,

    pub(super) items: Vec<Item>,
    pub(super) places: HashMap<ItemHandle, usize>,
    /// Items that have neither had an image nor ended.
    pub(super) unsettled: usize,
    pub(super) has_service: bool,
    pub(super) has_dictionary: bool,
    is_connected: bool,
    /// Why there is no connection, service or dictionary, the last time.
    pub(super) obstacle: Option<String>,
    pub(super) failure: Option<String>,
    pub(super) counts: ClientCounts,
    pub(super) interval: IntervalCounts,
    /// From here on steady state is counted.
    steady_from: Nanos,
}

/// The time stamps of a message: 0 for one that it does not have.
type Stamps = [u64; 3];

impl Session {
    pub(super) fn new(items: Vec<Item>, service: &str, decode: Decode, unit: StampUnit) -> Session {
        Session {
            service: service.to_owned(),
            decode,
            unit,
            keeps_going: false,
            user: PostUserInfo { address: 0, user_id: 0 },
            delay: std::time::Duration::ZERO,
            latencies: None,
            unsettled: items.len(),
            places: HashMap::with_capacity(items.len()),
            items,
            has_service: false,
            has_dictionary: false,
            is_connected: false,
            obstacle: None,
            failure: None,
            counts: ClientCounts::default(),
            interval: IntervalCounts::default(),
            steady_from: Nanos::NEVER,
        }
    }

    /// All items can be asked for.
    pub(super) fn is_ready(&self) -> bool {
        self.has_service && self.has_dictionary
    }

    /// All images have come.
    pub(super) fn is_steady(&self) -> bool {
        self.counts.complete_at.is_some()
    }

    #[inline]
    pub(super) fn on_event(&mut self, event: &ConsumerEvent<'_>) {
        match event {
            ConsumerEvent::Item(item) => match item.msg() {
                ItemMsg::Update(update) => self.on_update(item, update),
                ItemMsg::Refresh(refresh) => self.on_refresh(item, refresh.state.stream),
                ItemMsg::Status(_) => self.on_status(item),
                ItemMsg::Generic(_) => self.on_generic(item),
                ItemMsg::Ack(_) | _ => {}
            },
            other => self.on_other(other),
        }
    }

    #[inline]
    fn on_update(&mut self, event: &ItemEvent<'_>, update: &UpdateMsg<'_>) {
        self.interval.updates += 1;
        let is_steady = self.is_steady();
        let stamps = match self.decode {
            Decode::All => self.decode_all(event),
            Decode::Stamps => stamps_of(event),
            Decode::None => Stamps::default(),
        };
        if self.counts.first_update_at.is_none() {
            self.counts.first_update_at = Some(clock::monotonic());
        }
        let mut counted = true;
        if is_steady {
            // The clock is only read until the part that is left out is over.
            if self.steady_from > Nanos(0) && clock::monotonic() < self.steady_from {
                self.counts.left_out += 1;
                counted = false;
            } else {
                self.steady_from = Nanos(0);
                self.counts.steady.updates += 1;
            }
        } else {
            self.counts.startup.updates += 1;
        }
        let is_ours = match update.post_user_info {
            Some(user) => user == self.user,
            None => stamps[1] > 0,
        };
        self.counts.posts_returned += u64::from(is_ours);
        if stamps != Stamps::default() {
            self.on_stamps(stamps, is_ours, is_steady, counted);
        }
    }

    /// The stamps of an update.
    fn on_stamps(&mut self, stamps: Stamps, is_ours: bool, is_steady: bool, counted: bool) {
        let now = clock::monotonic();
        if stamps[0] > 0 {
            match self.unit.since(stamps[0], now) {
                Some(age) => {
                    self.interval.latency[0].record(age);
                    let phase = if is_steady { &mut self.counts.steady } else { &mut self.counts.startup };
                    if counted {
                        phase.latency.record(age);
                    }
                    self.write_latency(stamps[0], now);
                }
                None => self.counts.stamps_unusable += 1,
            }
        }
        if stamps[1] > 0 && is_ours {
            match self.unit.since(stamps[1], now) {
                Some(age) => {
                    self.interval.latency[1].record(age);
                    self.counts.post_latency.record(age);
                }
                None => self.counts.stamps_unusable += 1,
            }
        }
    }

    fn write_latency(&mut self, sent: u64, now: Nanos) {
        let Some(file) = &mut self.latencies else { return };
        let received = self.unit.stamp(now);
        if let Err(error) = writeln!(file, "{sent},{received},{}", received - sent) {
            self.failure.get_or_insert_with(|| format!("the latency file cannot be written: {error}"));
            self.latencies = None;
        }
    }

    /// Decodes every field to its type, and looks up what enumerations stand for.
    #[inline]
    fn decode_all(&mut self, event: &ItemEvent<'_>) -> Stamps {
        let mut stamps = Stamps::default();
        let Ok(fields) = event.fields() else {
            self.counts.unreadable += 1;
            return stamps;
        };
        let (mut sum, mut count) = (0_u64, 0);
        for field in fields {
            count += 1;
            let Ok(field) = field else {
                self.counts.unreadable += 1;
                continue;
            };
            sum ^= match field.value {
                Value::Real(Real::Finite { mantissa, hint }) => mantissa as u64 ^ u64::from(hint.number()),
                Value::Enum(value) => {
                    field.enum_display().map_or(0, |text| text.len() as u64) ^ u64::from(value.0)
                }
                Value::UInt(value) => {
                    if let Some(at) = STAMPS.iter().position(|id| *id == field.id.0) {
                        stamps[at] = value;
                    }
                    value
                }
                Value::Int(value) => value as u64,
                Value::Time(time) => u64::from(time.hour) + u64::from(time.nanosecond),
                Value::Date(date) => u64::from(date.year),
                Value::Unknown(_) => {
                    self.counts.unknown += 1;
                    0
                }
                Value::Rmtes(text) => text.0.len() as u64,
                _ => 0,
            };
        }
        self.counts.fields += count;
        black_box(sum);
        stamps
    }

    fn on_refresh(&mut self, event: &ItemEvent<'_>, stream: StreamState) {
        if self.decode == Decode::All {
            self.decode_all(event);
        }
        let Some(place) = self.places.get(&event.handle()).copied() else { return };
        let is_snapshot = self.items[place].is_snapshot;
        let is_over = !matches!(stream, StreamState::Open) && !is_snapshot;
        if is_over || matches!(stream, StreamState::Closed | StreamState::ClosedRecover) {
            return self.on_closed(place, event);
        }
        if event.is_complete() && event.is_ok() {
            self.interval.images += 1;
            self.counts.images += 1;
            self.settle(place);
        }
        if event.is_final() {
            self.items[place].handle = None;
        }
    }

    fn on_status(&mut self, event: &ItemEvent<'_>) {
        self.interval.statuses += 1;
        self.counts.statuses += 1;
        let Some(place) = self.places.get(&event.handle()).copied() else { return };
        if event.is_final() {
            self.on_closed(place, event);
        }
    }

    /// A stream has ended that should go on, or has not given its image.
    fn on_closed(&mut self, place: usize, event: &ItemEvent<'_>) {
        self.counts.closed += 1;
        if event.is_final() {
            self.items[place].handle = None;
        }
        self.settle(place);
        if !self.keeps_going {
            let (name, state) = (event.name(), event.state());
            self.failure.get_or_insert_with(|| format!("item {name}: the stream was closed: {state}"));
        }
    }

    /// An item is no longer waited for.
    fn settle(&mut self, place: usize) {
        if std::mem::replace(&mut self.items[place].is_settled, true) {
            return;
        }
        self.unsettled -= 1;
        if self.unsettled == 0 {
            let now = clock::monotonic();
            self.counts.complete_at = Some(now);
            self.steady_from = now.after(self.delay);
        }
    }

    fn on_generic(&mut self, event: &ItemEvent<'_>) {
        self.interval.generics_returned += 1;
        self.counts.generics_returned += 1;
        let (container_type, payload) = event.payload();
        let Some(stamp) = stamp_in(container_type, payload, TIM_TRK_3) else { return };
        match self.unit.since(stamp, clock::monotonic()) {
            Some(age) => {
                self.interval.latency[2].record(age);
                self.counts.generic_latency.record(age);
            }
            None => self.counts.stamps_unusable += 1,
        }
    }

    #[cold]
    fn on_other(&mut self, event: &ConsumerEvent<'_>) {
        match event {
            ConsumerEvent::Connected { .. } => self.is_connected = true,
            ConsumerEvent::Disconnected { .. } => self.on_lost(event.to_string()),
            ConsumerEvent::LoginRefused { retry, .. } => {
                self.obstacle = Some(event.to_string());
                if !retry || !self.keeps_going {
                    self.failure.get_or_insert_with(|| event.to_string());
                }
            }
            ConsumerEvent::Service(service) if service.name == self.service => {
                self.has_service = service.is_usable();
                if !self.has_service {
                    self.obstacle = Some(format!("service {} is not up", self.service));
                }
            }
            ConsumerEvent::Service(service) if !self.has_service => {
                self.obstacle = Some(format!(
                    "the server has a service {}, not {}: choose with --service",
                    service.name, self.service
                ));
            }
            ConsumerEvent::DictionaryReady(_) => self.has_dictionary = true,
            ConsumerEvent::DictionaryUnavailable(_) => self.obstacle = Some(event.to_string()),
            ConsumerEvent::Posted(posted) => match posted.outcome {
                PostOutcome::Taken => self.counts.posts_acked += 1,
                _ => self.counts.posts_refused += 1,
            },
            _ => {}
        }
    }

    fn on_lost(&mut self, reason: String) {
        // A server that is not there yet is waited for, as long as startup may last.
        if std::mem::take(&mut self.is_connected) && self.counts.requested_at.is_some() {
            self.counts.connections_lost += 1;
            if !self.keeps_going {
                self.failure.get_or_insert_with(|| reason.clone());
            }
        }
        self.obstacle = Some(reason);
    }
}

/// The time stamps alone, looked up without decoding the rest.
fn stamps_of(event: &ItemEvent<'_>) -> Stamps {
    let stamp = |id: i16| match event.field(client::FieldId(id)) {
        Ok(Some(Value::UInt(stamp))) => stamp,
        _ => 0,
    };
    [stamp(TIM_TRK_1), stamp(TIM_TRK_2), 0]
}
