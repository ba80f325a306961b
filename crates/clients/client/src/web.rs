//! JSON over WebSocket below a core that speaks RSSL.
//!
//! The core talks to the server's end of an RSSL connection that lives in this process. What arrives there
//! is written as JSON and sent over WebSocket; what comes over WebSocket is made RWF and sent to the core.
//! So all above is the same over both protocols, at the cost of this edge.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use counters::table::{ConsumerSession, RsslConnections, WebSocketConnections};
use rssl::{ConfigError, Disconnect, ServerConnection, ServerParams};
use rwf::{DataType, Dictionary, Domain, ElementList, Msg, Value};
use rwf_json::{Converter, Incoming, Options, Reader, write_pong};
use units::{Nanos, Rng};
use websocket::{ClientConfig, ClientConnection, Message, Stop};

use crate::consumer::{ConsumerSink, Session};
use crate::lifecycle::Lifecycle;
use crate::{ConnectFailure, ConsumerConfig, DisconnectReason, Endpoint as _, Socket, WebSocketConfig};

/// What a consumer has below it if it speaks WebSocket.
pub(crate) struct WebBridge {
    config: ClientConfig,
    params: Arc<ServerParams>,
    near_counters: Arc<RsslConnections>,
    web_counters: Arc<WebSocketConnections>,
    counters: Arc<ConsumerSession>,
    rng: Rng,
    link: Option<Link>,
    reader: Reader,
    text: Vec<u8>,
    /// Known before the dictionary is downloaded: nothing.
    blank: Dictionary,
    now: Nanos,
}

/// One connection.
struct Link {
    web: ClientConnection,
    /// The end that the core is connected to.
    near: ServerConnection,
    /// The upgrade is complete.
    is_up: bool,
}

/// What comes of input from the socket.
#[derive(Default)]
struct FromServer {
    is_up: bool,
    texts: Vec<String>,
}

/// What comes from the core.
#[derive(Default)]
struct FromCore(Vec<Vec<u8>>);

impl websocket::Handler for FromServer {
    fn on_connected(&mut self, _: &websocket::Session<'_>, _: &mut websocket::Outbound) -> ControlFlow<Stop> {
        self.is_up = true;
        ControlFlow::Continue(())
    }

    fn on_message(&mut self, message: Message<'_>, _: &mut websocket::Outbound) -> ControlFlow<Stop> {
        match message {
            Message::Text(text) => {
                self.texts.push(text.to_owned());
                ControlFlow::Continue(())
            }
            // No sub-protocol that was offered has any.
            Message::Binary(_) => ControlFlow::Break(Stop::Application),
        }
    }
}

impl rssl::Handler for FromCore {
    fn on_connected(&mut self, _: &rssl::Session<'_>, _: &mut rssl::Outbound) -> ControlFlow<rssl::Stop> {
        ControlFlow::Continue(())
    }

    fn on_message(&mut self, message: &[u8], _: &mut rssl::Outbound) -> ControlFlow<rssl::Stop> {
        self.0.push(message.to_vec());
        ControlFlow::Continue(())
    }
}

impl WebBridge {
    pub(crate) fn new(
        config: &ConsumerConfig,
        web: &WebSocketConfig,
        counters: Arc<ConsumerSession>,
        seed: u64,
    ) -> Result<WebBridge, ConfigError> {
        let defaults = rssl::Limits::default();
        let limits = rssl::Limits {
            message_bytes_max: config.message_max_bytes,
            fragmented_bytes_max: defaults.fragmented_bytes_max.max(2 * u64::from(config.message_max_bytes)),
            // Whatever came in one frame waits here.
            backlog_bytes_max: 2 * config.message_max_bytes as usize + NEAR_BACKLOG_BYTES,
            ..defaults
        };
        let component_version = "WebSocket".to_owned();
        // Nothing that stays in the process is worth compressing.
        let compression = Vec::new();
        let near =
            rssl::ServerConfig { component_version, compression, limits, ..rssl::ServerConfig::default() };
        let web_limits = websocket::Limits {
            message_bytes_max: config.message_max_bytes as usize,
            backlog_bytes_max: config.backlog_max_bytes as usize,
            ..websocket::Limits::default()
        };
        Ok(WebBridge {
            config: ClientConfig {
                path: web.path.clone(),
                compression: web.compression,
                handshake_timeout: Duration::from_millis(config.connect_timeout_ms.into()),
                ping_timeout: Duration::from_secs(config.ping_timeout_s.into()),
                limits: web_limits,
                ..ClientConfig::new("")
            },
            params: Arc::new(near.check()?),
            near_counters: Arc::default(),
            web_counters: Arc::default(),
            counters,
            rng: Rng::new(seed),
            link: None,
            reader: Reader::new(),
            text: Vec::new(),
            blank: Dictionary::new(),
            now: Nanos::ZERO,
        })
    }

    pub(crate) fn counters(&self) -> &Arc<WebSocketConnections> {
        &self.web_counters
    }

    pub(crate) fn socket<'l>(&mut self, life: &'l mut Lifecycle<Session>, now: Nanos) -> Socket<'l> {
        let socket = life.socket(now);
        if socket != Socket::Present {
            self.link = None;
        }
        socket
    }

    /// The TCP connection stands: the upgrade begins. The core hears of it when it is done.
    pub(crate) fn on_established(&mut self, life: &Lifecycle<Session>, now: Nanos) {
        let config = ClientConfig { host: life.connector.host().to_string(), ..self.config.clone() };
        let web = ClientConnection::new(now, &Arc::new(config), &self.web_counters, self.rng.next_u64());
        let near = ServerConnection::new(now, &self.params, &self.near_counters, self.rng.next_u64());
        self.link = Some(Link { web, near, is_up: false });
    }

    pub(crate) fn on_bytes(
        &mut self,
        life: &mut Lifecycle<Session>,
        now: Nanos,
        bytes: &[u8],
        sink: &mut ConsumerSink<'_>,
    ) {
        self.now = now;
        let Some(link) = &mut self.link else { return };
        let mut from_server = FromServer::default();
        let result = link.web.on_bytes(now, bytes, &mut from_server);
        if from_server.is_up && !std::mem::replace(&mut link.is_up, true) {
            life.on_established(now);
        }
        self.exchange(life, now, sink);
        for text in from_server.texts {
            self.on_text(life, now, text.as_bytes(), sink);
        }
        if result.is_err() {
            self.end(life, now, sink);
        }
    }

    /// A frame of the server: its messages go to the core.
    fn on_text(
        &mut self,
        life: &mut Lifecycle<Session>,
        now: Nanos,
        text: &[u8],
        sink: &mut ConsumerSink<'_>,
    ) {
        let Some(link) = &mut self.link else { return };
        let dictionary = life.session.dictionary.current().map_or(&self.blank, |known| &**known);
        let converter = Converter::new(dictionary, &life.session.directory, Options::default());
        let (mut is_pinged, mut is_full, mut errors, mut timeout) = (false, false, 0, None);
        let near = link.near.outbound();
        let result = self.reader.read_frame(&converter, text, |incoming| match incoming {
            Incoming::Ping => is_pinged = true,
            Incoming::Pong => {}
            Incoming::Error(_) => errors += 1,
            Incoming::Message { rwf, .. } => {
                timeout = timeout.or(ping_timeout(rwf));
                is_full |= near.push(rwf).is_err();
            }
        });
        let is_refused = result.is_err();
        self.counters.json_faults.add(errors + u64::from(is_refused));
        if let Some(timeout) = timeout {
            link.web.set_ping_timeout(now, timeout);
        }
        if is_pinged {
            self.text.clear();
            write_pong(&mut self.text);
            send(&mut link.web, &self.text);
        }
        self.exchange(life, now, sink);
        if is_refused || is_full {
            self.link = None;
            life.lose(now, DisconnectReason::Json, sink);
        }
    }

    /// Moves what the core and its end of the connection say, until both are silent.
    fn exchange(&mut self, life: &mut Lifecycle<Session>, now: Nanos, sink: &mut ConsumerSink<'_>) {
        loop {
            let has_said = self.take_out(life);
            let Some(link) = self.link.as_mut().filter(|link| link.is_up) else { return };
            let bytes = link.near.outbound().flush().to_vec();
            link.near.outbound().consume(bytes.len());
            if !bytes.is_empty() {
                life.on_bytes(now, &bytes, &mut |event: crate::ConsumerEvent<'_>| sink(event));
            } else if !has_said {
                return;
            }
        }
    }

    /// Takes what the core says, as long as the backlog to the server has room; returns whether it said
    /// anything.
    fn take_out(&mut self, life: &mut Lifecycle<Session>) -> bool {
        let Some(link) = self.link.as_mut().filter(|link| link.is_up) else { return false };
        let out = link.web.outbound();
        if out.depth_bytes() > out.limit_bytes() / 2 {
            return false;
        }
        let bytes = life.pending().to_vec();
        if bytes.is_empty() {
            return false;
        }
        life.consume(self.now, bytes.len());
        let mut from_core = FromCore::default();
        // It is the end of the core's own connection: it does not break the protocol.
        let _ = link.near.on_bytes(self.now, &bytes, &mut from_core);
        let dictionary = life.session.dictionary.current().map_or(&self.blank, |known| &**known);
        let converter = Converter::new(dictionary, &life.session.directory, Options::default());
        for message in from_core.0 {
            self.text.clear();
            let written = Msg::parse(&message).map(|msg| converter.write(&msg, &mut self.text));
            if !matches!(written, Ok(Ok(()))) || !send(&mut link.web, &self.text) {
                self.counters.json_faults.inc();
            }
        }
        true
    }

    pub(crate) fn on_disconnected(
        &mut self,
        life: &mut Lifecycle<Session>,
        now: Nanos,
        cause: Disconnect,
        sink: &mut ConsumerSink<'_>,
    ) {
        match self.link.take() {
            Some(link) if link.is_up => life.on_disconnected(now, cause, sink),
            _ => life.on_connect_failed(now, ConnectFailure::Upgrade, sink),
        }
    }

    /// The WebSocket connection is over.
    fn end(&mut self, life: &mut Lifecycle<Session>, now: Nanos, sink: &mut ConsumerSink<'_>) {
        self.on_disconnected(life, now, Disconnect::EndOfStream, sink);
    }

    /// The server lives, though nothing is read from it for now.
    pub(crate) fn on_sign_of_life(&mut self, now: Nanos) {
        if let Some(link) = &mut self.link {
            link.web.on_sign_of_life(now);
        }
    }

    pub(crate) fn on_wakeup(
        &mut self,
        life: &mut Lifecycle<Session>,
        now: Nanos,
        sink: &mut ConsumerSink<'_>,
    ) {
        self.now = now;
        if let Some(link) = &mut self.link {
            let is_over = link.web.next_wakeup() <= now && link.web.on_wakeup(now).is_err();
            if link.near.next_wakeup() <= now {
                // Its end would be the core's end too, which has the same timers.
                let _ = link.near.on_wakeup(now);
            }
            if is_over {
                return self.end(life, now, sink);
            }
        }
        if life.next_wakeup() <= now {
            life.on_wakeup(now, sink);
        }
        self.exchange(life, now, sink);
    }

    pub(crate) fn next_wakeup(&self, life: &Lifecycle<Session>) -> Nanos {
        let of_link = self.link.as_ref().map_or(Nanos::NEVER, |link| {
            let near = if link.is_up { link.near.next_wakeup() } else { Nanos::NEVER };
            link.web.next_wakeup().min(near)
        });
        life.next_wakeup().min(of_link)
    }

    pub(crate) fn pending(&mut self, life: &mut Lifecycle<Session>) -> &[u8] {
        self.take_out(life);
        self.link.as_mut().map_or(&[], |link| link.web.outbound().pending())
    }

    pub(crate) fn consume(&mut self, life: &mut Lifecycle<Session>, count_bytes: usize) {
        if let Some(link) = &mut self.link {
            link.web.outbound().consume(count_bytes);
        }
        self.take_out(life);
    }
}

/// Bytes that may wait for the core beside one message.
const NEAR_BACKLOG_BYTES: usize = 64 << 20;

fn send(web: &mut ClientConnection, text: &[u8]) -> bool {
    std::str::from_utf8(text).is_ok_and(|text| web.outbound().push(Message::Text(text)).is_ok())
}

/// The ping timeout that a server tells in the payload of its login refresh, in seconds.
fn ping_timeout(rwf: &[u8]) -> Option<Duration> {
    let Ok(Msg::Refresh(msg)) = Msg::parse(rwf) else { return None };
    if msg.domain != Domain::LOGIN || msg.container_type != DataType::ELEMENT_LIST {
        return None;
    }
    let list = ElementList::parse(msg.payload).ok()?;
    let named = list.entries().flatten().find(|entry| entry.name == b"PingTimeout")?;
    let seconds = match Value::decode(named.data_type, named.content).ok()? {
        Value::UInt(seconds) => seconds,
        Value::Int(seconds) => u64::try_from(seconds).ok()?,
        _ => return None,
    };
    (1..=3_600).contains(&seconds).then_some(Duration::from_secs(seconds))
}
