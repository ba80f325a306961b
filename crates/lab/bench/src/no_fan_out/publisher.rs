//! An interactive provider on the state machines of the protocol, as cheap as a sink-driven source can be: its updates
//! are made beforehand, and it keeps of an item who watches it and how often it has changed.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::mpsc::TryRecvError;
use std::time::Duration;

use clap::Args;
use counters::table::RsslConnections;
use measure::Latencies;
use net::tcp::{self, Moved};
use net::{Interest, Poller, Token, Transport, clock};
use rdm::ToVec;
use rdm::directory::{DirectoryRefresh, DirectoryRequest, Info, Service, ServiceState};
use rdm::login::{LoginRefresh, LoginRequest};
use rssl::{Handler, Outbound, ServerConfig, ServerConnection, ServerParams, Session, Stop};
use rwf::{
    DataState, DataType, Domain, Key, Msg, Qos, RefreshMsg, RequestMsg, State, StateCode, StatusMsg,
    StreamState,
};
use serde_json::json;
use units::Nanos;

use crate::BenchError;
use crate::chain::run_number;
use crate::end_to_end::{Items, Pacing, SERVICE, SERVICE_ID};
use crate::options::Cpu;
use crate::process::{self, answer};
use crate::update::{NumberedUpdates, Stamps, write_numbered};

#[derive(Debug, Args)]
pub(crate) struct PublisherArgs {
    #[command(flatten)]
    items: Items,
    #[arg(long)]
    pacing: Pacing,
    /// Updates say when they were sent in place of their number.
    #[arg(long)]
    says_sent: bool,
    #[command(flatten)]
    cpu: Cpu,
}

/// While more bytes than these wait for the peer, it does not keep up: nothing is published or answered.
const HELD_BYTES: usize = 1 << 20;
/// A peer that takes nothing for so long is stuck.
const STUCK: Duration = Duration::from_secs(10);
const READ_BYTES: usize = 256 << 10;
/// One of so many updates is asked how late it was handed to the socket.
const SAMPLE: u64 = 16;

const LISTENER: Token = Token(0);
const PEER: Token = Token(1);

/// Listens, and publishes to the one peer that has connected.
struct Publisher {
    listener: TcpListener,
    poller: Poller,
    params: Arc<ServerParams>,
    link: Option<Link>,
    items: PublishedItems,
    bytes: Vec<u8>,
    /// How late updates were handed to the socket.
    late: Latencies,
}

/// The connection to the peer.
struct Link {
    transport: Transport,
    connection: ServerConnection,
    /// What is waited for: room in the socket, if something waits for it; and requests, unless too much does.
    interest: Interest,
}

/// What there is to publish, and who watches it.
struct PublishedItems {
    updates: NumberedUpdates,
    /// The peer's stream of each item; 0 if it has none.
    streams: Vec<i32>,
    /// The item of each stream.
    by_stream: HashMap<i32, u32>,
    /// Which items they are: those that are common stand first.
    items: Items,
    /// How many updates there were of each item.
    numbers: Vec<u64>,
    /// Updates have the time of sending in the place of their number.
    says_sent: bool,
    /// How many there were of all.
    count: u64,
}

impl Publisher {
    fn listen(items: Items, says_sent: bool) -> Result<Publisher, BenchError> {
        let listener = tcp::listen(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0))?;
        let poller = Poller::new()?;
        poller.registrar().add(&listener, LISTENER, Interest::Read)?;
        let count = items.count() as usize;
        let items = PublishedItems {
            updates: NumberedUpdates::new()?,
            streams: vec![0; count],
            by_stream: HashMap::with_capacity(count),
            items,
            numbers: vec![0; count],
            says_sent,
            count: 0,
        };
        let params = Arc::new(ServerConfig::default().check()?);
        let (bytes, late) = (vec![0; READ_BYTES], Latencies::default());
        Ok(Publisher { listener, poller, params, link: None, items, bytes, late })
    }

    /// Reads and writes what can be, waiting for at most `timeout`.
    fn serve(&mut self, timeout: Duration) -> Result<(), BenchError> {
        let ready: Vec<Token> = self.poller.wait(Some(timeout))?.map(|ready| ready.token).collect();
        if ready.contains(&LISTENER) && self.link.is_none() {
            self.accept()?;
        }
        if ready.contains(&PEER) && self.held_bytes() <= HELD_BYTES {
            self.read();
        }
        let now = clock::monotonic();
        if let Some(link) = &mut self.link
            && link.connection.next_wakeup() <= now
            && link.connection.on_wakeup(now).is_err()
        {
            self.hang_up();
        }
        self.write();
        Ok(())
    }

    fn accept(&mut self) -> Result<(), BenchError> {
        let Some((stream, _)) = tcp::accept(&self.listener)? else { return Ok(()) };
        self.poller.registrar().add(&stream, PEER, Interest::Read)?;
        let counters = Arc::new(RsslConnections::default());
        let connection = ServerConnection::new(clock::monotonic(), &self.params, &counters, clock::seed());
        self.link = Some(Link { transport: Transport::Plain(stream), connection, interest: Interest::Read });
        Ok(())
    }

    /// The peer has gone: its streams have ended, and another may come.
    #[cold]
    fn hang_up(&mut self) {
        self.link = None;
        self.items.streams.fill(0);
        self.items.by_stream.clear();
    }

    fn read(&mut self) {
        loop {
            let Some(link) = &mut self.link else { return };
            match link.transport.read(&mut self.bytes) {
                Ok(Moved::Bytes(count)) => {
                    let bytes = &self.bytes[..count];
                    if link.connection.on_bytes(clock::monotonic(), bytes, &mut self.items).is_err() {
                        return self.hang_up();
                    }
                    self.write();
                    if count < self.bytes.len() || self.held_bytes() > HELD_BYTES {
                        return;
                    }
                }
                Ok(Moved::WouldBlock) => return,
                Ok(Moved::End) | Err(_) => return self.hang_up(),
            }
        }
    }

    /// Writes what the socket takes.
    fn write(&mut self) {
        let Some(link) = &mut self.link else { return };
        loop {
            let pending = link.connection.outbound().flush();
            let interest = if pending.is_empty() {
                Interest::Read
            } else {
                match link.transport.write(pending) {
                    Ok(Moved::Bytes(count)) => {
                        link.connection.outbound().consume(count);
                        continue;
                    }
                    Ok(Moved::WouldBlock) if pending.len() > HELD_BYTES => Interest::Write,
                    Ok(Moved::WouldBlock) => Interest::ReadWrite,
                    Ok(Moved::End) | Err(_) => return self.hang_up(),
                }
            };
            if interest != link.interest {
                link.interest = interest;
                if self.poller.registrar().change(link.transport.socket(), PEER, interest).is_err() {
                    self.hang_up();
                }
            }
            return;
        }
    }

    /// Bytes that the peer has not taken.
    fn held_bytes(&mut self) -> usize {
        self.link.as_mut().map_or(0, |link| link.connection.outbound().pending().len())
    }

    /// Publishes an update for each of these times. While the peer does not keep up it waits, and the wait makes the next
    /// ones late.
    fn publish(&mut self, due: &[Nanos]) -> Result<(), BenchError> {
        let Some(link) = self.link.as_mut().filter(|_| !due.is_empty()) else {
            return self.serve(Duration::ZERO);
        };
        let out = link.connection.outbound();
        for intended in due {
            self.items.update(out, *intended)?;
        }
        self.write();
        let now = clock::monotonic();
        let first = self.items.count - due.len() as u64;
        for (intended, count) in due.iter().zip(first..) {
            if count.is_multiple_of(SAMPLE) {
                self.late.record(now.since(*intended).as_nanos() as u64);
            }
        }
        self.await_room(HELD_BYTES)
    }

    /// Until at most so many bytes wait for the peer.
    fn await_room(&mut self, bytes: usize) -> Result<(), BenchError> {
        let (mut held, mut moved) = (self.held_bytes(), clock::monotonic());
        while held > bytes {
            self.serve(Duration::from_millis(100))?;
            let now = clock::monotonic();
            let left = self.held_bytes();
            if left != held {
                (held, moved) = (left, now);
            } else if now > moved.after(STUCK) {
                return Err(BenchError::new(format!("the peer has taken nothing for {STUCK:?}")));
            }
        }
        Ok(())
    }

    /// Publishes the end of a run, as an update of the first item.
    fn end_run(&mut self, ends_run: u8, intended: Nanos) -> Result<(), BenchError> {
        if let Some(link) = &mut self.link {
            self.items.send(
                link.connection.outbound(),
                0,
                Stamps { intended, ends_run, number: self.items.numbers[0] },
            )?;
        }
        self.write();
        self.await_room(0)
    }
}

impl PublishedItems {
    /// Publishes an update of the item whose turn it is.
    #[inline]
    fn update(&mut self, out: &mut Outbound, intended: Nanos) -> Result<(), BenchError> {
        self.count += 1;
        let item = self.items.pick(self.count);
        self.numbers[item] += 1;
        self.send(out, item, Stamps { intended, ends_run: 0, number: self.numbers[item] })
    }

    /// To who watches the item.
    #[inline]
    fn send(&self, out: &mut Outbound, item: usize, stamps: Stamps) -> Result<(), BenchError> {
        let stream_id = self.streams[item];
        if stream_id != 0 {
            let copy = out.push(self.updates.message(self.count));
            let copy = copy.map_err(|error| BenchError::new(format!("an update cannot be sent: {error}")))?;
            let stamps = match self.says_sent {
                true => Stamps { number: clock::monotonic().0, ..stamps },
                false => stamps,
            };
            NumberedUpdates::stamp(copy, stream_id, stamps);
        }
        Ok(())
    }

    fn on_request(&mut self, request: &RequestMsg<'_>) -> Option<Vec<u8>> {
        match request.domain {
            Domain::LOGIN => LoginRefresh::accept(&LoginRequest::parse(request).ok()?).to_vec().ok(),
            Domain::SOURCE => {
                let request = DirectoryRequest::parse(request).ok()?;
                DirectoryRefresh::answer(&request, [&service()]).ok()?.to_vec().ok()
            }
            _ => self.on_item_request(request),
        }
    }

    /// The image of an item, as often as it is asked for.
    fn on_item_request(&mut self, request: &RequestMsg<'_>) -> Option<Vec<u8>> {
        let name = request.key.name.unwrap_or_default();
        let found = std::str::from_utf8(name).ok().and_then(|name| self.items.place(name));
        let found = found.filter(|_| request.domain == Domain::MARKET_PRICE);
        let Some(item) = found else {
            let state = State::new(StreamState::Closed, DataState::Suspect);
            let state = state.because(StateCode::NOT_FOUND, "there is no such item");
            let status = StatusMsg::new(request.domain, request.stream_id, DataType::NO_DATA);
            return Msg::Status(StatusMsg { state: Some(state), ..status }).to_vec().ok();
        };
        let stream = if request.streaming { StreamState::Open } else { StreamState::NonStreaming };
        if request.streaming {
            self.streams[item as usize] = request.stream_id;
            self.by_stream.insert(request.stream_id, item);
        }
        if request.no_refresh {
            return None;
        }
        let stamps = Stamps { intended: Nanos::ZERO, ends_run: 0, number: self.numbers[item as usize] };
        let payload = rwf::encode_to_vec(|w| write_numbered(w, self.count, stamps)).ok()?;
        let refresh = RefreshMsg::new(request.domain, request.stream_id, DataType::FIELD_LIST);
        let refresh = RefreshMsg {
            solicited: true,
            complete: true,
            clear_cache: true,
            state: State::new(stream, DataState::Ok),
            qos: Some(Qos::REAL_TIME),
            key: Some(Key::item(SERVICE_ID, name)),
            payload: &payload,
            ..refresh
        };
        Msg::Refresh(refresh).to_vec().ok()
    }
}

fn service() -> Service {
    Service {
        id: SERVICE_ID,
        info: Info {
            name: SERVICE.to_owned(),
            capabilities: vec![Domain::MARKET_PRICE],
            qos: vec![Qos::REAL_TIME],
            ..Info::default()
        },
        state: ServiceState { up: true, accepting_requests: Some(true), ..ServiceState::default() },
        ..Service::default()
    }
}

impl Handler for PublishedItems {
    fn on_connected(&mut self, _: &Session<'_>, _: &mut Outbound) -> ControlFlow<Stop> {
        ControlFlow::Continue(())
    }

    fn on_message(&mut self, message: &[u8], out: &mut Outbound) -> ControlFlow<Stop> {
        match Msg::parse(message) {
            Ok(Msg::Request(request)) => {
                let answer = self.on_request(&request);
                match answer.map(|bytes| out.push(&bytes).map(|_| ())) {
                    Some(Err(error)) => ControlFlow::Break(error.into()),
                    Some(Ok(())) | None => ControlFlow::Continue(()),
                }
            }
            Ok(Msg::Close(close)) => {
                if let Some(item) = self.by_stream.remove(&close.stream_id)
                    && self.streams[item as usize] == close.stream_id
                {
                    self.streams[item as usize] = 0;
                }
                ControlFlow::Continue(())
            }
            Ok(_) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(Stop::Application),
        }
    }
}

/// Publishes at the rate that it is told, to whoever has connected.
pub(crate) fn publisher(args: &PublisherArgs) -> Result<(), BenchError> {
    args.cpu.enter()?;
    let mut publisher = Publisher::listen(args.items, args.says_sent)?;
    answer(&json!({ "port": publisher.listener.local_addr()?.port() }));
    let commands = process::commands();
    loop {
        match commands.try_recv() {
            Ok(command) => {
                publisher.late.clear();
                let sent = args.pacing.run(&command, |due| publisher.publish(due))?;
                publisher.end_run(run_number(&command), sent.end)?;
                let late = publisher.late.summary();
                let mut said = sent.answer();
                said["late_p99_ns"] = json!(late.p99_ns);
                said["late_max_ns"] = json!(late.max_ns);
                answer(&said);
            }
            Err(TryRecvError::Empty) => publisher.serve(Duration::from_millis(10))?,
            Err(TryRecvError::Disconnected) => return Ok(()),
        }
    }
}
