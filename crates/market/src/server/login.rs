//! Logins: who a client is, what it wants for all its streams, and the measurement of the round trip.

use std::net::Ipv4Addr;

use rdm::login::{
    BatchSupport, ConnectionStatus, Features, LoginMsg, LoginRefresh, LoginRequest, LoginStatus, Role,
    RoundTrip, STANDBY_BY_LOGIN, STANDBY_BY_SERVICE, StandbyRole,
};
use rdm::{Reply, ToVec};
use rwf::{GenericMsg, Msg, StateCode};
use units::Nanos;

use super::audience::OnSuspect;
use super::{ClientError, ClientId, PointToPoint, ServerSink};
use crate::users::Claim;

/// What a client has said about itself.
#[derive(Debug)]
pub(super) struct Login {
    pub(super) stream_id: i32,
    pub(super) claim: Claim,
    pub(super) application: String,
    /// What becomes of the streams it opens from now on when their data is suspect.
    pub(super) on_suspect: OnSuspect,
    /// All its streams are paused.
    pub(super) is_paused: bool,
    /// It lets the round trip be measured.
    round_trip: Option<Measurement>,
    /// The number under which instances answer what went up on the login stream.
    pub(super) conversation: Option<u64>,
    /// What this server is to it, if it has several for the same data.
    pub(super) role: Option<StandbyRole>,
}

/// The measurement of a client's round trip.
#[derive(Clone, Copy, Debug)]
struct Measurement {
    /// When the next one begins.
    next_at: Nanos,
    /// When the one under way began.
    sent_at: Option<Nanos>,
    last_us: Option<u64>,
}

impl Login {
    fn of(request: &LoginRequest<'_>, claim: Claim) -> Login {
        Login {
            stream_id: request.stream_id,
            claim,
            application: String::from_utf8_lossy(request.application_name.unwrap_or_default()).into_owned(),
            on_suspect: match (request.allow_suspect_data, request.single_open) {
                (false, _) => OnSuspect::Close,
                (true, false) => OnSuspect::CloseIfLost,
                (true, true) => OnSuspect::Tell,
            },
            is_paused: request.pause,
            round_trip: None,
            conversation: None,
            role: None,
        }
    }

    pub(super) fn round_trip_us(&self) -> Option<u64> {
        self.round_trip?.last_us
    }
}

impl PointToPoint {
    pub(super) fn on_login(
        &mut self,
        now: Nanos,
        client: ClientId,
        msg: &Msg<'_>,
        sink: &mut impl ServerSink,
    ) -> Result<(), ClientError> {
        match LoginMsg::parse(msg) {
            Ok(LoginMsg::Request(request)) => self.on_login_request(now, client, &request, sink),
            Ok(LoginMsg::Close(_)) => {
                self.on_client_closed(now, client, sink);
                Err(ClientError::LoggedOut)
            }
            Ok(LoginMsg::RoundTrip(answer)) => {
                self.on_round_trip(now, client, &answer);
                Ok(())
            }
            Ok(LoginMsg::Generic(generic)) => {
                self.on_standby_role(client, &generic, sink);
                Ok(())
            }
            Ok(LoginMsg::Refresh(_) | LoginMsg::Status(_)) => {
                self.counters.client_messages_refused.inc();
                Ok(())
            }
            Err(error) => {
                self.counters.client_messages_refused.inc();
                if let Ok(answer) = Reply::to(msg).refuse(&error) {
                    sink.send(client, &answer);
                }
                Err(ClientError::LoginRefused)
            }
        }
    }

    fn on_login_request(
        &mut self,
        now: Nanos,
        client: ClientId,
        request: &LoginRequest<'_>,
        sink: &mut impl ServerSink,
    ) -> Result<(), ClientError> {
        let Some(known) = self.clients.get_mut(&client) else { return Ok(()) };
        let refusal = match &known.login {
            _ if request.role == Role::Provider => {
                Some("this port is for consumers, providers connect to a source distributor")
            }
            Some(login) if login.stream_id != request.stream_id => {
                Some("this connection is logged in on another stream")
            }
            _ => None,
        };
        if let Some(text) = refusal {
            if let Ok(answer) = LoginStatus::reject(request, StateCode::USAGE_ERROR, text).to_vec() {
                sink.send(client, &answer);
            }
            return Err(ClientError::LoginRefused);
        }
        let address = known.profile.address;
        let claim = Claim::of(request, (address != 0).then(|| Ipv4Addr::from_bits(address)));
        if let Err(denial) = self.gate.admit(&claim) {
            self.deny(client, LoginStatus::reject(request, denial.code(), &denial.to_string()), sink);
            return Err(ClientError::LoginDenied(denial));
        }
        // A position of more than 64 KiB, say, cannot be repeated.
        let Ok(answer) = self.accepted(request).to_vec() else { return Err(ClientError::LoginRefused) };
        let was_paused = self.pauses_all(client);
        self.take_login(now, client, request, claim);
        if !request.no_refresh {
            sink.send(client, &answer);
        }
        if self.pauses_all(client) != was_paused {
            self.pause_streams(client, sink);
        }
        Ok(())
    }

    /// A client that has several servers tells what this one is to it. A server that stands by goes on to send
    /// its data: the client is then ready at once when it needs it. One that becomes the active one sends its images.
    fn on_standby_role(&mut self, client: ClientId, msg: &GenericMsg<'_>, sink: &mut impl ServerSink) {
        match ConnectionStatus::parse(msg) {
            Ok(Some(told)) => {
                if let Some(login) = self.clients.get_mut(&client).and_then(|c| c.login.as_mut()) {
                    let before = login.role.replace(told.role);
                    if told.role.takes_over_from(before) {
                        self.take_over(client, |_| true, sink);
                    }
                }
            }
            Ok(None) => {}
            Err(_) => self.counters.client_messages_refused.inc(),
        }
    }

    /// Whether a client's login says that all its streams pause.
    pub(super) fn pauses_all(&self, client: ClientId) -> bool {
        let login = self.clients.get(&client).and_then(|known| known.login.as_ref());
        login.is_some_and(|login| login.is_paused)
    }

    /// What this server can do. Permission data is passed on; there is no permission profile.
    fn accepted<'r>(&self, request: &LoginRequest<'r>) -> LoginRefresh<'r> {
        let measures = !self.config.round_trip_interval.is_zero();
        LoginRefresh {
            application_name: Some(b"tickcast"),
            provide_permission_expressions: Some(true),
            provide_permission_profile: Some(false),
            features: Features {
                omm_post: Some(true),
                batch_requests: Some(BatchSupport::ALL),
                view_requests: Some(true),
                optimized_pause_resume: Some(true),
                standby: Some(true),
                standby_mode: Some(STANDBY_BY_LOGIN | STANDBY_BY_SERVICE),
                ..Features::default()
            },
            round_trip_latency: request.round_trip_latency.filter(|_| measures),
            ..LoginRefresh::accept(request)
        }
    }

    /// Takes over what a first login says, or what a later one changes.
    fn take_login(&mut self, now: Nanos, client: ClientId, request: &LoginRequest<'_>, claim: Claim) {
        let Some(known) = self.clients.get_mut(&client) else { return };
        let mut login = Login::of(request, claim);
        login.conversation = known.login.as_ref().and_then(|before| before.conversation);
        login.role = known.login.as_ref().and_then(|before| before.role);
        let interval = self.config.round_trip_interval;
        if request.round_trip_latency.is_some() && !interval.is_zero() {
            let before = known.login.as_ref().and_then(|before| before.round_trip);
            login.round_trip = Some(before.unwrap_or_else(|| {
                self.round_trips.push_back((now + interval, client));
                Measurement { next_at: now + interval, sent_at: None, last_us: None }
            }));
        }
        let is_first = known.login.replace(login).is_none();
        self.count_clients(i64::from(is_first));
    }
}

/// The round trip.
impl PointToPoint {
    /// Begins the measurements that are due.
    pub(super) fn measure_round_trips(&mut self, now: Nanos, sink: &mut impl ServerSink) {
        while let Some(&(at, client)) = self.round_trips.front()
            && now >= at
        {
            self.round_trips.pop_front();
            let Some(login) = self.clients.get_mut(&client).and_then(|c| c.login.as_mut()) else { continue };
            // What a login on an earlier connection of that number has left is passed over.
            let Some(measurement) = login.round_trip.as_mut().filter(|m| m.next_at == at) else { continue };
            measurement.sent_at = Some(now);
            measurement.next_at = now + self.config.round_trip_interval;
            self.round_trips.push_back((measurement.next_at, client));
            let question = RoundTrip {
                stream_id: login.stream_id,
                ticks: now.0,
                last_latency_us: measurement.last_us,
                tcp_retransmission_count: None,
            };
            if let Ok(question) = question.to_vec() {
                sink.send(client, &question);
            }
        }
    }

    pub(super) fn next_round_trip(&self) -> Nanos {
        self.round_trips.front().map_or(Nanos::NEVER, |(at, _)| *at)
    }

    fn on_round_trip(&mut self, now: Nanos, client: ClientId, answer: &RoundTrip) {
        let login = self.clients.get_mut(&client).and_then(|c| c.login.as_mut());
        let measurement = login.and_then(|login| login.round_trip.as_mut());
        match measurement.map(|m| (m.sent_at.take_if(|sent_at| sent_at.0 == answer.ticks), m)) {
            Some((Some(sent_at), measurement)) => {
                measurement.last_us = Some(now.since(sent_at).as_micros() as u64);
                self.counters.round_trips.inc();
            }
            _ => self.counters.client_messages_refused.inc(),
        }
    }
}
