//! Logins: who a client is, what it wants for all its streams, and the measurement of the round trip.

use std::net::Ipv4Addr;

use rdm::login::{
    BatchSupport, ConnectionStatus, Features, LoginMsg, LoginRefresh, LoginRequest, LoginStatus, Role,
    STANDBY_BY_LOGIN, STANDBY_BY_SERVICE,
};
use rdm::{Reply, ToVec};
use rwf::{GenericMsg, Msg, StateCode};
use units::Nanos;

use super::PointToPoint;
use super::base::{ClientId, PRIORITY_DEFAULT};
use super::notices::ClientError;
use super::sink::ServerSink;
use crate::users::Credentials;

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
                self.items.clients.on_round_trip(now, client, &answer);
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
        let Some(known) = self.items.clients.get_mut(client) else { return Ok(()) };
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
        let credentials = Credentials::of(request, (address != 0).then(|| Ipv4Addr::from_bits(address)));
        let admitted = self.gate.admit(&credentials);
        let before = known.class;
        let class = admitted.is_ok().then(|| self.config.classes.of(&credentials.user)).flatten();
        let admitted = admitted.and_then(|()| {
            let result = self.items.clients.enter_class(client, class);
            result.inspect_err(|denial| self.gate.note_denied(&credentials, *denial))
        });
        if let Err(denial) = admitted {
            self.deny(client, LoginStatus::reject(request, denial.code(), &denial.to_string()), sink);
            return Err(ClientError::LoginDenied(denial));
        }
        let of_class = |class: Option<usize>| {
            let class = class.and_then(|at| self.config.classes.get(at));
            class.map_or((0, PRIORITY_DEFAULT), |class| (class.bytes_per_second, class.priority))
        };
        let ((rate, priority), before) = (of_class(class), of_class(before));
        if rate != before.0 {
            sink.set_rate(client, rate);
        }
        if priority != before.1 {
            sink.set_priority(client, priority);
        }
        // A position of more than 64 KiB, say, cannot be repeated.
        let Ok(answer) = self.accepted(request).to_vec() else { return Err(ClientError::LoginRefused) };
        let was_paused = self.items.clients.pauses_all(client);
        self.items.clients.take_login(now, client, request, credentials);
        if !request.no_refresh {
            sink.send(client, &answer);
        }
        if self.items.clients.pauses_all(client) != was_paused {
            self.pause_streams(client, sink);
        }
        Ok(())
    }

    /// A client that has several servers tells what this one is to it. A server that stands by goes on to send
    /// its data: the client is then ready at once when it needs it. One that becomes the active one sends its images.
    fn on_standby_role(&mut self, client: ClientId, msg: &GenericMsg<'_>, sink: &mut impl ServerSink) {
        match ConnectionStatus::parse(msg) {
            Ok(Some(said)) => {
                if let Some(login) = self.items.clients.get_mut(client).and_then(|c| c.login.as_mut()) {
                    let before = login.role.replace(said.role);
                    if said.role.takes_over_from(before) {
                        self.take_over(client, |_| true, sink);
                    }
                }
            }
            Ok(None) => {}
            Err(_) => self.counters.client_messages_refused.inc(),
        }
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
}
