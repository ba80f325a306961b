//! `tickcast pub`.

use std::collections::{HashMap, VecDeque};
use std::io::{self, Write};
use std::net::{SocketAddr, SocketAddrV4};
use std::str::FromStr;
use std::time::Duration;

use measure::Schedule;
use messaging::{
    Context, Handler, Message, RequestError, RequestId, SendError, SendFlags, Source, SourceEvent,
    SourceOptions, Transport,
};
use net::clock;
use units::Nanos;

use super::payload::{Next, Payloads};
use super::{TURN, printable, seconds, warn_of_counters};
use crate::config::ConfigArgs;
use crate::failure::Failure;
use crate::host::Stop;

/// What to publish and how.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tickcast pub greeting --text hello --count 3             three texts, one a second
  ls | tickcast pub names --stdin                          each line is a message
  tickcast pub load --size 200 --rate 50000 --seconds 10   numbered test messages with time stamps
  tickcast pub load --rate 1000000 --burst 100             a hundred at a time, which share datagrams
  tickcast pub load --rate max --count 1000000 --wait-for-receivers 1
  tickcast pub clock --request --text 'what time is it' --count 1 --linger 5      all answers of five seconds
  tickcast pub px.eq --hot-failover 0 --rate 1000          one of several publishers of the same messages
  tickcast pub px.eq --text hello --set messaging.interface=10.29.4.0/24

Test messages carry their number and the time at which they were meant to leave, so that `tickcast sub --quiet`
on the same host can tell how long they took, waiting before the send included. Without --count, --seconds or
the end of standard input it publishes until it is stopped.

Exit status: 0 all was sent (and with --request answered); 1 it was not, standard error says why; 2 wrong usage
or configuration.")]
pub(crate) struct PublishArgs {
    /// The topic.
    topic: String,
    /// Sends this text.
    #[arg(long, conflicts_with_all = ["stdin", "size"])]
    text: Option<String>,
    /// Sends each line of standard input.
    #[arg(long, conflicts_with = "size")]
    stdin: bool,
    /// Sends test messages of so many bytes (this is the default); below 32 they carry neither number nor
    /// time.
    #[arg(long, value_name = "BYTES", default_value_t = 64, value_parser = size())]
    size: u32,
    /// Messages a second, or max for as many as go; else one a second, and lines as they come.
    #[arg(long, value_name = "NUMBER")]
    rate: Option<Rate>,
    /// Sends so many messages at a time, when the last of them is due, so that they share datagrams; with a
    /// rate.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000))]
    burst: u32,
    /// Ends after so many messages.
    #[arg(long, value_name = "NUMBER")]
    count: Option<u64>,
    /// Ends after so many seconds.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    seconds: Option<Duration>,
    /// The transport, whatever the configuration says for the topic: lbtrm, lbtru, tcp or lbtipc.
    #[arg(long, value_name = "NAME", value_parser = transport)]
    transport: Option<Transport>,
    /// Multicast group and port of the topic, for lbtrm.
    #[arg(long, value_name = "ADDRESS:PORT")]
    group: Option<SocketAddrV4>,
    /// Waits so long before the first message: receivers that do not know the topic yet find it meanwhile. 0.5 by
    /// default; with --wait-for-receivers 0.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    delay: Option<Duration>,
    /// Waits until so many receivers have connected, on transports with connections.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    receivers: usize,
    /// Waits until so many receivers have found the topic and get the next message, on any transport, in place of
    /// --delay. Receivers of other software, and of older versions, are not counted.
    #[arg(long, value_name = "NUMBER", conflicts_with = "receivers")]
    wait_for_receivers: Option<usize>,
    /// Publishes after so long all the same, with a line on standard error.
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    wait_timeout: Duration,
    /// Stays so long after the last message: what receivers have missed is sent again meanwhile.
    #[arg(long, value_name = "SECONDS", default_value = "0.5", value_parser = seconds)]
    linger: Duration,
    /// Sends requests, and writes every answer to standard output that comes within --linger of its request.
    #[arg(long)]
    request: bool,
    /// Is content with so many answers to each request, and waits no longer for more.
    #[arg(long, value_name = "NUMBER", requires = "request", value_parser = clap::value_parser!(u64).range(1..))]
    answers: Option<u64>,
    /// Numbers the messages for hot failover, from this number on: of several publishers of the same messages
    /// under the same numbers `tickcast sub --hot-failover` hears the first copies.
    #[arg(long, value_name = "NUMBER", conflicts_with = "request")]
    hot_failover: Option<u64>,
    /// No progress on standard error, only the end.
    #[arg(long)]
    quiet: bool,
    #[command(flatten)]
    config: ConfigArgs,
}

/// Messages a second; infinite for as many as go.
#[derive(Clone, Copy, Debug)]
struct Rate(f64);

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Rate, String> {
        if text == "max" {
            return Ok(Rate(f64::INFINITY));
        }
        let number: f64 = text.parse().map_err(|_| "neither a number nor max".to_owned())?;
        if number > 0.0 && number.is_finite() { Ok(Rate(number)) } else { Err("must be above 0".to_owned()) }
    }
}

fn size() -> impl clap::builder::TypedValueParser<Value = u32> {
    clap::value_parser!(u32).range(0..=67_108_864)
}

fn transport(text: &str) -> Result<Transport, String> {
    let names = || Transport::ALL.iter().map(|t| t.name()).collect::<Vec<_>>().join(", ");
    Transport::ALL
        .iter()
        .copied()
        .find(|t| t.name() == text)
        .ok_or_else(|| format!("must be one of {}", names()))
}

/// Messages between two looks at the network.
const BURST_MAX: u32 = 64;
/// A wait below this is spun away: the kernel would make it longer.
const SPIN_BELOW: Duration = Duration::from_micros(100);

pub(crate) fn run(args: &PublishArgs) -> Result<(), Failure> {
    let config = args.config.load()?.value;
    let stop = Stop::default();
    stop.end_on_signals()?;
    let mut context = Context::standalone(&config.messaging).map_err(|e| Failure::Run(e.to_string()))?;
    warn_of_counters(&context);
    let options = SourceOptions { transport: args.transport, group: args.group, ..SourceOptions::default() };
    let source = context.create_source(&args.topic, &options).map_err(|e| Failure::Run(e.to_string()))?;
    let mut publisher = Publisher::new(args, context, source)?;
    say!("publishing `{}` on {}", args.topic, publisher.transport());
    publisher.wait_for_receivers(&stop)?;
    let result = publisher.publish(&stop);
    publisher.report("published");
    publisher.linger(&stop)?;
    result.and_then(|()| publisher.verdict())
}

struct Publisher<'a> {
    args: &'a PublishArgs,
    context: Context,
    source: Source,
    peers: Peers,
    payloads: Payloads,
    sent: u64,
    bytes: u64,
    refused: u64,
    /// Requests that are still open, and until when, in the order of sending.
    waiting: VecDeque<(Nanos, RequestId)>,
    begun: Nanos,
}

impl<'a> Publisher<'a> {
    fn new(args: &'a PublishArgs, context: Context, source: Source) -> Result<Publisher<'a>, Failure> {
        let payloads = match &args.text {
            Some(text) => Payloads::text(text),
            None if args.stdin => Payloads::stdin()?,
            None => Payloads::test(args.size as usize),
        };
        let peers = Peers { answers_max: args.answers.unwrap_or(u64::MAX), ..Peers::default() };
        Ok(Publisher {
            args,
            context,
            source,
            peers,
            payloads,
            sent: 0,
            bytes: 0,
            refused: 0,
            waiting: VecDeque::new(),
            begun: clock::monotonic(),
        })
    }

    fn transport(&self) -> String {
        self.context.source_transport(self.source).map_or_else(String::new, |t| t.to_string())
    }

    fn wait_for_receivers(&mut self, stop: &Stop) -> Result<(), Failure> {
        let default = Duration::from_millis(if self.args.wait_for_receivers.is_some() { 0 } else { 500 });
        let until = clock::monotonic().after(self.args.delay.unwrap_or(default));
        while !stop.is_set() {
            let now = clock::monotonic();
            if now >= until && self.peers.connected >= self.args.receivers {
                break;
            }
            let patience = if now < until { until.since(now).min(TURN) } else { TURN };
            self.turn(patience)?;
        }
        let Some(count) = self.args.wait_for_receivers else { return Ok(()) };
        let until = clock::monotonic().after(self.args.wait_timeout);
        self.context.watch_receivers(self.source, true)?;
        let mut found = 0;
        while !stop.is_set() {
            found = self.context.receivers(self.source).unwrap_or(0);
            let now = clock::monotonic();
            if found >= count || now >= until {
                break;
            }
            self.turn(until.since(now).min(TURN))?;
        }
        self.context.watch_receivers(self.source, false)?;
        if found < count && !stop.is_set() {
            say!("{found} of {count} receivers have found `{}`", self.args.topic);
        }
        Ok(())
    }

    /// One turn, with a wait if it is worth one, and what follows from it.
    fn turn(&mut self, patience: Duration) -> Result<(), Failure> {
        if patience < SPIN_BELOW {
            self.context.poll(&mut self.peers)?;
        } else {
            self.context.wait(Some(patience), &mut self.peers)?;
        }
        self.close_requests();
        self.peers.failed.take().map_or(Ok(()), |error| Err(Failure::Output(error)))
    }

    /// Closes the requests that have all the answers that are wanted, or had their time.
    fn close_requests(&mut self) {
        for request in self.peers.satisfied.drain(..) {
            self.context.cancel_request(request);
        }
        let now = clock::monotonic();
        while let Some(&(until, request)) = self.waiting.front() {
            let is_open = self.peers.open.contains_key(&request);
            if is_open && until > now {
                break;
            }
            self.waiting.pop_front();
            if is_open {
                self.peers.open.remove(&request);
                self.context.cancel_request(request);
            }
        }
    }

    fn publish(&mut self, stop: &Stop) -> Result<(), Failure> {
        let default = if self.args.stdin { f64::INFINITY } else { 1.0 };
        let rate = self.args.rate.map_or(default, |rate| rate.0);
        self.begun = clock::monotonic();
        let mut schedule = Schedule::new(self.begun, rate);
        let end = self.args.seconds.map_or(Nanos::NEVER, |limit| self.begun.after(limit));
        let mut report_at = self.begun.after(Duration::from_secs(1));
        loop {
            let now = clock::monotonic();
            if stop.is_set() || now >= end {
                return Ok(());
            }
            if now >= report_at && !self.args.quiet {
                report_at = now.after(Duration::from_secs(1));
                self.report("so far");
            }
            let patience = match self.burst(now, rate, &mut schedule)? {
                Burst::Over => return Ok(()),
                Burst::Sent if self.due(rate, &schedule) <= now => Duration::ZERO,
                Burst::Sent => self.due(rate, &schedule).min(end).since(now).min(TURN),
                Burst::Waits => TURN,
            };
            self.turn(patience)?;
        }
    }

    /// When the next message may leave: the first of a burst waits for the last one's time.
    fn due(&self, rate: f64, schedule: &Schedule) -> Nanos {
        let others = match self.sent % u64::from(self.args.burst) {
            0 if rate.is_finite() => f64::from(self.args.burst - 1),
            _ => 0.0,
        };
        let span = Duration::try_from_secs_f64(others / rate).unwrap_or(Duration::MAX);
        schedule.next().after(span)
    }

    /// Sends what is due.
    fn burst(&mut self, now: Nanos, rate: f64, schedule: &mut Schedule) -> Result<Burst, Failure> {
        for _ in 0..self.args.burst.max(BURST_MAX) {
            if self.args.count.is_some_and(|count| self.sent >= count) {
                return Ok(Burst::Over);
            }
            if self.due(rate, schedule) > now {
                return Ok(Burst::Sent);
            }
            let due = schedule.next();
            // At no given rate a message is meant to leave when it leaves.
            let at = if rate.is_finite() { due } else { now };
            let payload = match self.payloads.next(self.sent, at)? {
                Next::Payload(payload) => payload,
                Next::Later => return Ok(Burst::Waits),
                Next::End => return Ok(Burst::Over),
            };
            let sent = if self.args.request {
                self.context.request(self.source, &[payload]).map(|request| {
                    self.peers.open.insert(request, 0);
                    self.waiting.push_back((now.after(self.args.linger), request));
                })
            } else if let Some(first) = self.args.hot_failover {
                let (number, flags) = (first.wrapping_add(self.sent), SendFlags::default());
                let sent = self.context.send_hot_failover(self.source, number, flags, &[payload]);
                sent.map(drop).map_err(RequestError::Send)
            } else {
                self.context.send(self.source, &[payload]).map(drop).map_err(RequestError::Send)
            };
            match sent {
                Ok(()) => {
                    self.sent += 1;
                    self.bytes += payload.len() as u64;
                    self.payloads.advance();
                    schedule.take_due(now);
                }
                Err(RequestError::Send(SendError::WouldBlock)) => {
                    self.refused += 1;
                    return Ok(Burst::Sent);
                }
                Err(error) => return Err(Failure::Run(format!("message {}: {error}", self.sent))),
            }
        }
        Ok(Burst::Sent)
    }

    fn linger(&mut self, stop: &Stop) -> Result<(), Failure> {
        let until = clock::monotonic().after(self.args.linger);
        self.context.flush();
        while !stop.is_set() && clock::monotonic() < until {
            if self.args.request && self.peers.open.is_empty() {
                break;
            }
            self.turn(TURN)?;
        }
        let left = self.context.close(self.context.config().linger());
        if !left.is_empty() {
            say!("{left}");
        }
        Ok(())
    }

    fn verdict(&self) -> Result<(), Failure> {
        let answered = self.peers.answered;
        if !self.args.request || answered == self.sent {
            return Ok(());
        }
        Err(Failure::Run(format!("{answered} of {} requests were answered", self.sent)))
    }

    fn report(&self, what: &str) {
        let took = clock::monotonic().since(self.begun).as_secs_f64();
        let rate = self.sent as f64 / took.max(1e-9);
        let Publisher { sent, bytes, refused, .. } = self;
        say!("{what}: {sent} messages, {bytes} bytes, {rate:.0} a second, {refused} sends had to wait");
    }
}

/// How far a burst came.
enum Burst {
    /// All has been sent, or the transport takes no more for now.
    Sent,
    /// The next line is not there.
    Waits,
    /// Nothing more is to be sent.
    Over,
}

/// Counts the connected receivers, and shows their answers.
#[derive(Default)]
struct Peers {
    connected: usize,
    /// Open requests with the answers that have come to each.
    open: HashMap<RequestId, u64>,
    /// Answers that are wanted of each.
    answers_max: u64,
    /// Requests with at least one answer.
    answered: u64,
    /// Requests with all the answers that are wanted.
    satisfied: Vec<RequestId>,
    /// The first error of standard output.
    failed: Option<io::Error>,
}

impl Handler for Peers {
    fn on_message(&mut self, _: &Message<'_>) {}

    fn on_response(&mut self, request: RequestId, payload: &[u8]) {
        let Some(answers) = self.open.get_mut(&request) else { return };
        *answers += 1;
        self.answered += u64::from(*answers == 1);
        if *answers == self.answers_max {
            self.open.remove(&request);
            self.satisfied.push(request);
        }
        let mut out = io::stdout().lock();
        let result = writeln!(out, "{}", printable(payload)).and_then(|()| out.flush());
        self.failed = self.failed.take().or(result.err());
    }

    fn on_source_event(&mut self, _: Source, event: SourceEvent) {
        let say = |what: &str, who: SocketAddr| say!("{what}: {who}");
        match event {
            SourceEvent::ReceiverConnected(who) => {
                self.connected += 1;
                say("receiver connected", who);
            }
            SourceEvent::ReceiverDisconnected(who) => {
                self.connected = self.connected.saturating_sub(1);
                say("receiver disconnected", who);
            }
            SourceEvent::ReceiverTooSlow(who) => say("receiver too slow", who),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_a_number_above_zero_or_max() {
        assert_eq!("2.5".parse::<Rate>().map(|r| r.0), Ok(2.5));
        assert_eq!("max".parse::<Rate>().map(|r| r.0), Ok(f64::INFINITY));
        for bad in ["0", "-1", "inf", "fast", ""] {
            assert!(bad.parse::<Rate>().is_err(), "{bad}");
        }
    }

    #[test]
    fn an_unknown_transport_is_refused_with_those_there_are() {
        assert_eq!(transport("lbtrm"), Ok(Transport::LbtRm));
        assert!(transport("pigeon").is_err_and(|e| e.contains("lbtrm")));
    }
}
