//! Nodes, each a whole context as if in a process of its own, in one virtual time.

use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use net::clock::ManualClock;
use net::faults::{Faults, Host};
use net::udp::{MulticastOptions, ReceiveBatch};
use tickcast_messaging::{
    Context, ContextCounters, MessagingConfig, Order, Receiver, ReceiverOptions, Source, SourceOptions,
    Transport,
};
use units::{Nanos, Rng};

use crate::failover::Copy;
use crate::oracle::{Ears, Life, Run, Shared, payload};

/// A process with one context.
pub(crate) struct Node {
    pub(crate) context: Context,
    pub(crate) ears: Ears,
    pub(crate) faults: Arc<Faults>,
    host: Host,
    /// Each with its run.
    pub(crate) sources: Vec<(Source, usize)>,
    /// Sources with hot failover.
    pub(crate) copies: Vec<Copy>,
    /// Each with its topic.
    pub(crate) receivers: Vec<(Receiver, String)>,
    pub(crate) paused_until: Nanos,
    pub(crate) cut_until: Nanos,
    /// When it ends whatever it has left to say.
    closes_until: Nanos,
    /// Those that this one was forked from, which are dead: it has their sockets, as every child has, and nobody reads
    /// them.
    parents: Vec<(Context, Host)>,
}

impl Node {
    /// Does something with its context as this process.
    pub(crate) fn within<T>(&mut self, work: impl FnOnce(&mut Context, &mut Ears) -> T) -> T {
        let Node { context, ears, faults, host, .. } = self;
        host.work(|| faults.within(|| work(context, ears))).expect("there are descriptors")
    }

    fn turn(&mut self) -> bool {
        self.within(|context, ears| context.poll(ears)).expect("the poller works")
    }

    /// Before it sleeps: how long it may.
    fn sleep(&mut self) -> Duration {
        self.within(|context, _| context.until_wakeup()).unwrap_or(Duration::MAX)
    }
}

/// Everything there is.
pub(crate) struct World {
    pub(crate) clock: ManualClock,
    pub(crate) rng: Rng,
    pub(crate) config: MessagingConfig,
    pub(crate) nodes: Vec<Option<Node>>,
    /// Those that end in order.
    leaving: Vec<Node>,
    pub(crate) ledger: Shared,
    /// Of 1,000 datagrams: lost, late, twice.
    pub(crate) weather: (u32, u32, u32),
    probe: UdpSocket,
    stranger: Stranger,
    pub(crate) turns: u64,
}

/// How long after something was done to a node its sessions may end for that: the longest time-out, and time
/// to notice.
pub(crate) const AFTERMATH: Duration = Duration::from_secs(45);
/// How long a context that ends may go on with what it has accepted.
const LINGER: Duration = Duration::from_secs(5);
/// Time between two looks at those that end.
const LEAVING_STEP: Duration = Duration::from_millis(2);
/// Rounds at one instant, at most.
const ROUNDS_MAX: usize = 200;

impl World {
    pub(crate) fn new(seed: u64, config: MessagingConfig, nodes: usize) -> World {
        let probe = UdpSocket::bind("127.0.0.1:0").expect("a port is free");
        probe.connect(probe.local_addr().expect("bound")).expect("loopback");
        probe.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
        let mut world = World {
            clock: ManualClock::new(Nanos(1_000_000_000)),
            rng: Rng::new(seed),
            stranger: Stranger::new(&config),
            config,
            nodes: (0..nodes).map(|_| None).collect(),
            leaving: Vec::new(),
            ledger: Shared::default(),
            weather: (0, 0, 0),
            probe,
            turns: 0,
        };
        world.ledger.borrow_mut().disturbed = vec![Nanos::ZERO; nodes];
        world.ledger.borrow_mut().paused = vec![Nanos::ZERO; nodes];
        world.ledger.borrow_mut().now = world.clock.now();
        (0..nodes).for_each(|at| world.start(at));
        world
    }

    pub(crate) fn say(&self, what: String) {
        self.ledger.borrow_mut().say(what);
    }

    /// Starts a process; other settings than the world's by `config`.
    pub(crate) fn start_with(&mut self, at: usize, config: &MessagingConfig) {
        self.say(format!("node {at} starts"));
        let faults = Faults::new(self.rng.next_u64());
        faults.set(self.weather.0, self.weather.1, self.weather.2);
        let (mut host, seed, clock) =
            (Host::new().expect("descriptors"), self.rng.next_u64(), self.clock.clone());
        let make = || Context::manual(config, &clock, seed, ContextCounters::default());
        let context = host.work(|| faults.within(make)).expect("descriptors").expect("loopback");
        let ears = Ears::new(at, self.ledger.clone());
        let (sources, receivers) = (Vec::new(), Vec::new());
        let (paused_until, cut_until) = (Nanos::ZERO, Nanos::ZERO);
        let node = Node {
            context,
            ears,
            faults,
            host,
            sources,
            copies: Vec::new(),
            receivers,
            paused_until,
            cut_until,
            closes_until: Nanos::NEVER,
            parents: Vec::new(),
        };
        self.nodes[at] = Some(node);
        self.disturb(at, Duration::ZERO);
    }

    pub(crate) fn start(&mut self, at: usize) {
        let config = self.config.clone();
        self.start_with(at, &config);
    }

    pub(crate) fn node(&mut self, at: usize) -> &mut Node {
        self.nodes[at].as_mut().expect("it runs")
    }

    /// Whatever of its sessions ends within `span` and the aftermath is nobody's fault.
    pub(crate) fn disturb(&mut self, at: usize, span: Duration) {
        let until = self.clock.now() + span + AFTERMATH;
        let mut ledger = self.ledger.borrow_mut();
        ledger.disturbed[at] = ledger.disturbed[at].max(until);
    }

    pub(crate) fn create_source(
        &mut self,
        at: usize,
        topic: &str,
        transport: Transport,
        late_join: bool,
    ) -> usize {
        let options = SourceOptions {
            transport: Some(transport),
            late_join: Some(late_join),
            ..SourceOptions::default()
        };
        let run = self.ledger.borrow().runs.len();
        let node = self.node(at);
        let source =
            node.within(|context, _| context.create_source(topic, &options)).expect("a port is free");
        node.sources.push((source, run));
        let session = node.context.source_transport(source);
        self.ledger.borrow_mut().runs.push(Run {
            topic: topic.to_owned(),
            node: at,
            session,
            sent: Vec::new(),
            life: Life::Sends,
        });
        self.say(format!("node {at} publishes {topic} as run {run} at {}", session.expect("it exists")));
        run
    }

    pub(crate) fn delete_source(&mut self, at: usize, index: usize) {
        let (source, run) = self.node(at).sources.swap_remove(index);
        self.say(format!("node {at} deletes the source of run {run}"));
        self.ledger.borrow_mut().runs[run].life = Life::Ended;
        self.node(at).within(|context, _| context.delete_source(source));
    }

    pub(crate) fn create_receiver(&mut self, at: usize, topic: &str, order: Option<Order>) -> Receiver {
        let options = ReceiverOptions { order, ..ReceiverOptions::default() };
        let node = self.node(at);
        let receiver =
            node.within(|context, _| context.create_receiver(topic, &options)).expect("a legal name");
        node.receivers.push((receiver, topic.to_owned()));
        if order == Some(Order::Arrival) {
            node.ears.unordered.insert(receiver);
        }
        self.say(format!("node {at} receives {topic} as {receiver:?}, order {order:?}"));
        receiver
    }

    pub(crate) fn delete_receiver(&mut self, at: usize, index: usize) {
        let (receiver, topic) = self.node(at).receivers.swap_remove(index);
        self.say(format!("node {at} deletes {receiver:?} of {topic}"));
        let node = self.node(at);
        node.within(|context, _| context.delete_receiver(receiver));
        node.ears.streams.retain(|_, heard| heard.receiver != receiver);
    }

    /// Sends a message if it is taken.
    pub(crate) fn send(&mut self, at: usize, index: usize, len: usize) -> bool {
        let (source, run) = self.node(at).sources[index];
        let (count, next) = {
            let ledger = self.ledger.borrow();
            (ledger.runs[run].sent.len(), ledger.runs[run].next())
        };
        let bytes = payload(run, count, len);
        let sent = self.node(at).within(|context, _| context.send(source, &[&bytes]));
        let Ok(sqn) = sent else { return false };
        assert!(!sqn.precedes(next), "numbers go on");
        self.ledger.borrow_mut().runs[run].sent.push((sqn, bytes.len()));
        true
    }

    /// Sends until it is refused, or so many bytes are taken.
    pub(crate) fn fill(&mut self, at: usize, index: usize, bytes: usize) {
        let len = 1_000;
        (0..bytes / len).all(|_| self.send(at, index, len));
    }

    /// A process ends in order.
    pub(crate) fn stop(&mut self, at: usize) {
        let Some(mut node) = self.nodes[at].take() else { return };
        self.say(format!("node {at} stops"));
        self.note_end(&node, Life::Ended);
        self.disturb(at, LINGER);
        node.closes_until = self.clock.now() + LINGER;
        self.leaving.push(node);
    }

    /// Goes on with those that end, until nobody needs them any more.
    fn see_off(&mut self) -> bool {
        let (now, before) = (self.clock.now(), self.leaving.len());
        let over = self
            .leaving
            .extract_if(.., |node| node.within(|context, _| context.settle()) || now >= node.closes_until);
        over.for_each(|node| bury(node.parents));
        self.leaving.len() != before
    }

    /// A process is killed.
    pub(crate) fn kill(&mut self, at: usize) {
        let Some(node) = self.nodes[at].take() else { return };
        self.say(format!("node {at} is killed"));
        self.note_end(&node, Life::Killed);
        let Node { context, host, parents, .. } = node;
        bury(parents);
        bury(vec![(context, host)]);
        self.disturb(at, Duration::ZERO);
    }

    /// A process forks and is killed; its child goes on in its place with a context of its own.
    pub(crate) fn fork(&mut self, at: usize) {
        let Some(node) = self.nodes[at].take() else { return };
        self.say(format!("node {at} forks and is killed"));
        self.note_end(&node, Life::Killed);
        let Node { context, host, mut parents, .. } = node;
        parents.push((context, host));
        self.start(at);
        self.node(at).parents = parents;
    }

    fn note_end(&self, node: &Node, how: Life) {
        let runs = node.sources.iter().map(|(_, run)| *run).chain(node.copies.iter().map(Copy::run));
        runs.for_each(|run| self.ledger.borrow_mut().runs[run].life = how);
    }

    pub(crate) fn pause(&mut self, at: usize, span: Duration) {
        self.say(format!("node {at} is paused for {span:?}"));
        let until = self.clock.now() + span;
        self.node(at).paused_until = until;
        let mut ledger = self.ledger.borrow_mut();
        ledger.paused[at] = ledger.paused[at].max(until + AFTERMATH);
    }

    pub(crate) fn cut(&mut self, at: usize, span: Duration) {
        self.say(format!("node {at} is cut off for {span:?}"));
        let until = self.clock.now() + span;
        let node = self.node(at);
        node.cut_until = until;
        node.faults.cut(true);
        self.disturb(at, span);
    }

    /// No datagram suffers any more, or as the weather is.
    pub(crate) fn fair(&mut self, is_fair: bool) {
        let (lost, late, twice) = if is_fair { (0, 0, 0) } else { self.weather };
        self.nodes.iter().flatten().for_each(|node| node.faults.set(lost, late, twice));
    }

    /// Somebody who is none of the nodes sends what he has heard, what he has made of it, and nonsense.
    pub(crate) fn interfere(&mut self) {
        self.stranger.send(&mut self.rng);
    }

    /// Lets time pass, in steps of at least `step`.
    pub(crate) fn pass(&mut self, span: Duration, step: Duration) {
        let until = self.clock.now() + span;
        loop {
            let patience = self.settle();
            let now = self.clock.now();
            if now >= until {
                return;
            }
            let step = if self.leaving.is_empty() { step } else { step.min(LEAVING_STEP) };
            let patience = if self.leaving.is_empty() { patience } else { Duration::ZERO };
            let next = now.after(patience.max(step)).min(until);
            self.clock.set(next);
            self.ledger.borrow_mut().now = next;
        }
    }

    /// Drives all nodes until nothing happens any more at this instant; how long they may sleep.
    fn settle(&mut self) -> Duration {
        let now = self.clock.now();
        for node in self.nodes.iter_mut().flatten() {
            if node.paused_until != Nanos::ZERO && now >= node.paused_until {
                node.paused_until = Nanos::ZERO;
                // It was stopped while it slept: its timer is what it hears of first.
                node.within(|context, ears| context.on_wakeup(now, ears));
            }
            if node.cut_until != Nanos::ZERO && now >= node.cut_until {
                node.cut_until = Nanos::ZERO;
                node.faults.cut(false);
            }
        }
        for _ in 0..ROUNDS_MAX {
            let mut worked = false;
            for node in self.nodes.iter_mut().flatten().filter(|node| node.paused_until <= now) {
                worked |= node.turn();
                self.turns += 1;
            }
            worked |= self.see_off();
            if !worked {
                break;
            }
            self.wait_for_kernel();
        }
        let awake = self.nodes.iter_mut().flatten().filter(|node| node.paused_until <= now);
        awake.map(Node::sleep).min().unwrap_or(Duration::MAX)
    }

    /// What was sent to loopback before has arrived when this, which goes the same way, has.
    fn wait_for_kernel(&self) {
        self.probe.send(b"?").expect("loopback");
        self.probe.recv(&mut [0; 1]).expect("loopback loses nothing");
    }

    /// The receivers that do not hear a source they should, or not all of it.
    pub(crate) fn behind(&self) -> Vec<String> {
        let ledger = self.ledger.borrow();
        let mut behind = Vec::new();
        for (number, run) in ledger.runs.iter().enumerate().filter(|(_, run)| run.life == Life::Sends) {
            for node in self.nodes.iter().flatten().filter(|node| node.ears.node != run.node) {
                for (receiver, _) in node.receivers.iter().filter(|(_, topic)| *topic == run.topic) {
                    let next = node.ears.live(*receiver, number).and_then(|heard| heard.next);
                    if next != Some(run.next()) {
                        behind.push(format!(
                            "node {} {receiver:?} of {} has run {number} up to {next:?}, {:?} were sent",
                            node.ears.node,
                            run.topic,
                            run.next()
                        ));
                    }
                }
            }
        }
        behind
    }

    /// Fair weather, and each source says something each second, until every receiver hears every source.
    pub(crate) fn converge(&mut self, within: Duration) {
        self.say("fair weather".to_owned());
        let second = Duration::from_secs(1);
        let begun = self.clock.now();
        self.fair(true);
        loop {
            for at in 0..self.nodes.len() {
                for index in 0..self.nodes[at].as_ref().map_or(0, |node| node.sources.len()) {
                    self.send(at, index, 40);
                }
            }
            self.pass(second, Duration::from_millis(5));
            let is_awake = |node: &Node| node.paused_until.max(node.cut_until) <= self.clock.now();
            let behind = if self.nodes.iter().flatten().all(is_awake) { self.behind() } else { Vec::new() };
            if behind.is_empty() && self.nodes.iter().flatten().all(is_awake) {
                break;
            }
            if self.clock.now().since(begun) > within {
                let mut ledger = self.ledger.borrow_mut();
                for what in behind {
                    ledger.wrong.push(format!("deaf: {what}"));
                }
                break;
            }
        }
        // What is sent now and then nothing more: tails come as well.
        for at in 0..self.nodes.len() {
            for index in 0..self.nodes[at].as_ref().map_or(0, |node| node.sources.len()) {
                self.send(at, index, 3_000);
            }
        }
        self.pass(second * 5, Duration::from_millis(5));
        let behind = self.behind();
        let mut ledger = self.ledger.borrow_mut();
        ledger.wrong.extend(behind.into_iter().map(|what| format!("a tail is missing: {what}")));
    }

    /// What is wrong, with what led to it; `None` if nothing is.
    pub(crate) fn verdict(&self) -> Option<String> {
        let ledger = self.ledger.borrow();
        if ledger.wrong.is_empty() {
            return None;
        }
        let from =
            if std::env::var_os("TRACE").is_some() { 0 } else { ledger.trace.len().saturating_sub(60) };
        Some(format!("{}\n--\n{}", ledger.trace[from..].join("\n"), ledger.wrong.join("\n")))
    }
}

/// Dead processes of which nobody has the sockets any more.
fn bury(processes: Vec<(Context, Host)>) {
    for (context, host) in processes {
        host.kill().expect("there are descriptors");
        context.abandon();
    }
}

/// Somebody else on the network.
struct Stranger {
    socket: UdpSocket,
    /// The groups of topic resolution and of data, each with what hears it.
    groups: [(SocketAddrV4, net::udp::UdpSocket); 2],
    batch: ReceiveBatch,
    heard: [Vec<Vec<u8>>; 2],
}

/// Datagrams of each group that he remembers.
const HEARD_MAX: usize = 64;

impl Stranger {
    fn new(config: &MessagingConfig) -> Stranger {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port is free");
        let options = MulticastOptions { interface: Ipv4Addr::LOCALHOST, ttl: 0, buffer_bytes: 1 << 20 };
        let hears = |address, port| {
            let group = SocketAddrV4::new(address, port);
            (group, net::udp::UdpSocket::multicast_receiver(group, options).expect("loopback"))
        };
        let (resolver, data) = (config.resolver.multicast_address, config.lbtrm.multicast_address);
        let groups =
            [hears(resolver, config.resolver.multicast_port), hears(data, config.lbtrm.destination_port)];
        let (batch, heard) = (ReceiveBatch::new(16), [Vec::new(), Vec::new()]);
        Stranger { socket, groups, batch, heard }
    }

    fn send(&mut self, rng: &mut Rng) {
        for ((_, hears), heard) in self.groups.iter().zip(&mut self.heard) {
            for (_, datagram) in hears.receive(&mut self.batch).expect("loopback").datagrams() {
                match heard.len() {
                    HEARD_MAX.. => heard[rng.below(HEARD_MAX as u64) as usize] = datagram.to_vec(),
                    _ => heard.push(datagram.to_vec()),
                }
            }
        }
        for _ in 0..1 + rng.below(8) {
            let to = rng.below(2) as usize;
            let mut datagram: Vec<u8> = match self.heard[to].len() as u64 {
                count @ 1.. if rng.chance(0.8) => self.heard[to][rng.below(count) as usize].clone(),
                _ => (0..1 + rng.below(200)).map(|_| rng.next_u32() as u8).collect(),
            };
            // Topic resolution is repeated as it was: who forges that can end any topic, if it is not signed.
            if to == 1 && rng.chance(0.7) {
                let at = rng.below(datagram.len() as u64) as usize;
                datagram[at] ^= 1 << rng.below(8);
                datagram.truncate(1 + rng.below(datagram.len() as u64) as usize);
            }
            self.socket.send_to(&datagram, self.groups[to].0).expect("loopback");
        }
    }
}
