//! A context: the driver of the parts that own its state.
//!
//! | part | owns | calls |
//! |---|---|---|
//! | [`Base`] | configuration, clock, randomness, counters, poller; [`Resolution`], keys and certificates, AF_XDP, retained messages | none |
//! | [`Direct`] | direct connections, the request port, open requests | `Base` |
//! | [`Publishing`] | sources, the sessions they publish on ([`Outgoing`]), whose turn it is | `Base`, `Direct` for the request port |
//! | [`Receiving`] | receivers and their streams, the sessions they hear ([`Incoming`]), the gate, recovery | `Base`, `Direct` for recovery |
//! | [`Context`] | these, and when each has its turn | all |
//!
//! Arrows go one way. What happens to a connection for recovery [`Direct`] hands to whoever drives it
//! ([`Recoveries`]) or notes ([`RecoveryEvent`]), and [`Receiving`] takes it from
//! there. A transport knows no part: [`Outgoing`] and
//! [`Incoming`] tell the transports apart, each in one place.
//!
//! The files here are the calls of applications (`publish`, `receive`, `connect`, `statistics`, `security`, `closing`)
//! and the turns (`driving`, `pause`, `xdp`).
//!
//! [`Resolution`]: crate::resolution::Resolution
//! [`Outgoing`]: crate::outgoing::Outgoing
//! [`Incoming`]: crate::incoming::Incoming
//! [`Recoveries`]: crate::direct::Recoveries
//! [`RecoveryEvent`]: crate::direct::RecoveryEvent

mod closing;
mod connect;
mod driving;
mod pause;
mod presence;
mod publish;
mod receive;
mod security;
mod statistics;
mod xdp;

use std::io;

use net::clock::Clock;
use net::udp::ReceiveBatch;
use net::{Registrar, Waker};
use units::Nanos;

use crate::base::{Base, INDEX_MASK, PORT_SHIFT, Port};
use crate::closing::Stage;
use crate::context_counters::ContextCounters;
use crate::direct::Direct;
use crate::drops::Drops;
use crate::error::ContextError;
use crate::incoming::{Look, RmIncoming, RuIncoming};
use crate::publishing::Publishing;
use crate::receiving::Receiving;
use crate::statistics::census::Census;
use crate::{Handler, MessagingConfig, Source};
use driving::Standalone;

/// The sockets and protocol state of one thread.
///
/// A context goes by the time it was last told: by [`Context::on_ready`], [`Context::on_wakeup`],
/// [`Context::advance`], or by its own clock in [`Context::poll`] and [`Context::wait`].
pub struct Context {
    pub(crate) base: Base,
    pub(crate) direct: Direct,
    pub(crate) publishing: Publishing,
    pub(crate) receiving: Receiving,
    /// When timers were last looked at.
    woken_at: Nanos,
    drops: Drops,
    census: Census,
    standalone: Standalone,
    waker: Option<Waker>,
}

impl Context {
    /// A context without sources and receivers, for a thread that has a poller of its own: the context's
    /// descriptors are added to `registrar` under tokens whose upper 32 bits are `token_space`; the thread
    /// hands those to [`Context::on_ready`]. `seed` must differ from process to process.
    ///
    /// # Errors
    /// A socket cannot be opened or an option is out of range; the error names it.
    pub fn new(
        config: &MessagingConfig,
        registrar: &Registrar,
        token_space: u32,
        seed: u64,
        now: Nanos,
        counters: ContextCounters,
    ) -> Result<Context, ContextError> {
        let clock = Clock::Machine;
        let mut context = Context::unwatched(config, registrar, token_space, seed, now, clock, counters)?;
        context.watch_data()?;
        Ok(context)
    }

    /// The same, but whoever drives it looks at the data sockets in each turn and shows them to the poller
    /// only before it sleeps: see [`Context::watch_data`].
    pub(crate) fn unwatched(
        config: &MessagingConfig,
        registrar: &Registrar,
        token_space: u32,
        seed: u64,
        now: Nanos,
        clock: Clock,
        counters: ContextCounters,
    ) -> Result<Context, ContextError> {
        let is_simulated = matches!(clock, Clock::Manual(_));
        let mut base = Base::open(config, registrar, token_space, seed, now, clock, counters)?;
        let mut receiving = Receiving::new(config);
        receiving.learn_static_sources(&mut base)?;
        let census = if is_simulated { Census::default() } else { Census::new(config, &base.counters, now) };
        Ok(Context {
            base,
            direct: Direct::new(config),
            publishing: Publishing::default(),
            receiving,
            woken_at: now,
            drops: Drops::default(),
            census,
            standalone: Standalone::new(config),
            waker: None,
        })
    }

    /// The configuration it was made with.
    #[must_use]
    pub fn config(&self) -> &MessagingConfig {
        &self.base.config
    }

    /// What it counts into.
    #[must_use]
    pub fn counters(&self) -> &ContextCounters {
        &self.base.counters
    }

    /// How many receivers of a source's topic have answered, and not gone since; none unless
    /// [`Context::watch_receivers`] has begun to ask.
    #[must_use]
    pub fn receivers(&self, source: Source) -> Option<usize> {
        self.publishing.receivers(source)
    }

    /// A descriptor of this context is ready: takes what has arrived, up to one batch. Returns whether that was a whole
    /// batch of datagrams, so that more may be there: who has other work can take it before that, or the kernel drops
    /// what finds no room meanwhile.
    pub fn on_ready(&mut self, now: Nanos, ready: net::Ready, handler: &mut impl Handler) -> bool {
        self.base.advance(now);
        self.base.took_batch = false;
        self.receiving.tell_found(handler);
        let index = (ready.token.0 & INDEX_MASK) as usize;
        let Context { base, direct, publishing, receiving, .. } = self;
        match ready.token.0 as u32 >> PORT_SHIFT {
            p if p == Port::Group as u32 => {
                receiving.on_socket_ready::<RmIncoming>(base, direct, now, (index, Look::Told), handler);
            }
            p if p == Port::Resolver as u32 => self.on_resolver_ready(index, handler),
            p if p == Port::Outgoing as u32 => {
                publishing.on_outgoing_ready(base, now, index, handler);
            }
            p if p == Port::TcpClient as u32 => publishing.on_tcp_client_ready(base, index, ready, handler),
            p if p == Port::IpcSession as u32 => self.on_bell(index, handler),
            p if p == Port::Xdp as u32 => self.on_xdp_ready(now, handler),
            p if p == Port::Waker as u32 => self.waker.iter().for_each(Waker::acknowledge),
            p if p == Port::RuReceiver as u32 => {
                receiving.on_socket_ready::<RuIncoming>(base, direct, now, (0, Look::Told), handler);
            }
            p if p == Port::TcpSession as u32 => {
                receiving.read_tcp(base, direct, index, handler);
            }
            p if p == Port::Listener as u32 => {
                direct.on_listener_ready(base, index, handler);
                receiving.take_told(base, direct, handler);
            }
            p if p == Port::Connection as u32 => {
                direct.on_connection_ready(base, receiving, index, ready, handler);
                receiving.take_told(base, direct, handler);
            }
            _ => {}
        }
        self.rest(now, handler);
        self.base.took_batch
    }

    /// Takes what topic resolution says; who waits for a source hears of it later.
    pub(crate) fn hear_resolution(&mut self) {
        let Some(mut batch) = self.base.batch.take() else { return };
        for index in 0..=usize::from(self.base.second.is_some()) {
            self.take_resolution(index, &mut batch);
        }
        self.base.batch = Some(batch);
        self.base.send_resolution();
    }

    fn take_resolution(&mut self, index: usize, batch: &mut ReceiveBatch) {
        match self.base.resolution.receive(index, batch) {
            Ok(received) => received.datagrams().for_each(|(_, datagram)| {
                self.receiving.on_resolution_datagram(&mut self.base, &mut self.direct, datagram)
            }),
            Err(_) => self.base.counters.context.receives_failed.inc(),
        }
    }

    fn on_resolver_ready(&mut self, index: usize, handler: &mut impl Handler) {
        let Some(mut batch) = self.base.batch.take() else { return };
        self.take_resolution(index, &mut batch);
        self.base.batch = Some(batch);
        self.receiving.tell_found(handler);
        self.base.send_resolution();
    }

    /// What ends a [`Context::wait`] from another thread.
    ///
    /// # Errors
    /// The process is out of descriptors.
    pub fn waker(&mut self) -> io::Result<Waker> {
        if let Some(waker) = &self.waker {
            return Ok(waker.clone());
        }
        let waker = Waker::new(&self.base.registrar, self.base.token(Port::Waker, 0))?;
        self.waker = Some(waker.clone());
        Ok(waker)
    }

    /// Does what is due: topic resolution, NAKs, session messages, retransmissions that waited for the rate
    /// limit.
    pub fn on_wakeup(&mut self, now: Nanos, handler: &mut impl Handler) {
        if !self.base.home.is_here() {
            return;
        }
        self.base.advance(now);
        self.receiving.tell_found(handler);
        self.end_pause(now, handler);
        self.receiving.wake_incoming(&mut self.base, &mut self.direct, now, handler);
        if now >= self.base.resolution.next_wakeup() {
            self.base.send_resolution();
        }
        self.publishing.wake_outgoing(&mut self.base, now, handler);
        self.receiving.wake_recovery(&mut self.base, &mut self.direct, now, handler);
        self.receiving.wake_failovers(now, handler);
        self.direct.wake_direct(&mut self.base, now, handler);
        self.receiving.take_told(&mut self.base, &mut self.direct, handler);
        self.base.wake_xdp(now);
        self.receiving.wake_static(&mut self.base, &mut self.direct, now);
        let sockets = self.receiving.data_sockets().chain(self.base.own_sockets());
        self.drops.look(now, sockets, &self.base.counters.context);
        self.wake_security(now, handler);
        self.take_census(now);
        self.rest(now, handler);
    }

    /// Before the thread that drives this context may sleep in its poller.
    fn rest(&mut self, now: Nanos, handler: &mut impl Handler) {
        if !self.standalone.has_poller() {
            self.receiving.drain_ipc(&mut self.base, &mut self.direct, now, handler);
        }
    }

    /// When [`Context::on_wakeup`] is due next.
    #[must_use]
    pub fn next_wakeup(&self) -> Nanos {
        self.protocol_wakeup().min(self.census.next_wakeup())
    }

    /// The same without what nobody on the network waits for.
    pub(crate) fn protocol_wakeup(&self) -> Nanos {
        let (base, receiving) = (&self.base, &self.receiving);
        let own = self.publishing.next_wakeup().min(receiving.next_wakeup(base));
        let own = own.min(self.direct.direct_wakeup(base)).min(base.xdp.next_wakeup());
        own.min(base.security.next_wakeup()).min(self.drops.next_wakeup()).min(base.resolution.next_wakeup())
    }

    /// Shows the data sockets and the bells of rings to the poller, for good.
    ///
    /// While a poller watches a socket, the kernel does work for each datagram that comes, within the call that sends
    /// it where both ends are on one machine. A context that spins looks at its sockets in each turn anyway: the poller
    /// does not learn of them before it is to sleep, or there are too many of them to look at. Nor does it learn of a
    /// socket that LBT-RU sends from to one client, as the kernel tells a poller of room as well, after each datagram.
    pub(crate) fn watch_data(&mut self) -> io::Result<()> {
        self.base.watch_xdp()?;
        self.watch_sockets()
    }

    /// The same without the socket of AF_XDP, which sleeping contexts too look at before they ask the poller.
    pub(crate) fn watch_sockets(&mut self) -> io::Result<()> {
        if self.base.watches_data {
            return Ok(());
        }
        self.receiving.watch_data(&self.base)?;
        self.publishing.watch()?;
        self.base.watches_data = true;
        Ok(())
    }

    /// Sends everything that waits: datagrams that are not full, and direct messages. Explicit batches that
    /// are not over stay.
    pub fn flush(&mut self) {
        self.publishing.flush(&mut self.base);
        self.direct.flush_direct(&mut self.base);
    }

    /// Flushes as long as that has anything to do.
    #[inline]
    pub(crate) fn flush_stirred(&mut self) {
        if !self.publishing.is_quiet(self.base.now) || !self.direct.is_settled() {
            self.flush();
            self.publishing.rest();
        }
    }

    /// Ends all sources: their sessions say the last number of each topic and the end, and sends and new sources are
    /// refused.
    /// Whoever goes on driving the context sends what waits and answers who asks again;
    /// [`Context::close`] does that for as long as it is of use, and so does dropping the context. In a child made
    /// by `fork` nothing happens.
    pub fn end(&mut self) {
        if !self.base.home.is_certain() {
            return;
        }
        self.base.refresh_clock();
        if self.base.stage == Stage::Open {
            self.base.stage = Stage::Ended;
        }
        self.publishing.end(&mut self.base);
        self.direct.flush_direct(&mut self.base);
    }

    /// Tells the context the time, for what is sent before the next input.
    #[inline]
    pub fn advance(&mut self, now: Nanos) {
        self.base.advance(now)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::net::Ipv4Addr;

    use net::udp::UdpSocket;

    use super::*;
    use crate::{
        Interface, LbtrmConfig, LbtruConfig, Source, SourceOptions, TopicResolutionConfig, Transport, Wait,
    };

    /// A context on loopback; no other test's is heard.
    pub(crate) fn lone(test: u8, wait: Wait) -> Context {
        lone_with(test, |config| config.wait = wait)
    }

    /// The same, with some of the configuration changed.
    pub(crate) fn lone_with(test: u8, change: impl FnOnce(&mut MessagingConfig)) -> Context {
        let process = std::process::id();
        let (low, high) = (30_000, 45_000);
        let mut config = MessagingConfig {
            interface: Interface::Address(Ipv4Addr::LOCALHOST),
            wait: Wait::Block,
            counters_directory: String::new(),
            request_tcp_send_buffer_maximum_bytes: 1 << 20,
            resolver: TopicResolutionConfig {
                multicast_address: Ipv4Addr::new(239, 247, (process / 2_000) as u8, test),
                multicast_port: 22_000 + (process % 2_000) as u16,
                ..TopicResolutionConfig::default()
            },
            lbtrm: LbtrmConfig { source_port_low: low, source_port_high: high, ..LbtrmConfig::default() },
            lbtru: LbtruConfig {
                port_low: low,
                port_high: high,
                receiver_port_low: low,
                receiver_port_high: high,
                ..LbtruConfig::default()
            },
            ..MessagingConfig::default()
        };
        change(&mut config);
        Context::standalone(&config).expect("loopback is there")
    }

    /// The same with a source.
    pub(crate) fn sending(test: u8, transport: Transport) -> (Context, Source) {
        let mut context = lone(test, Wait::Block);
        let options = SourceOptions { transport: Some(transport), ..SourceOptions::default() };
        let source = context.create_source("px", &options).expect("a port is free");
        (context, source)
    }

    /// A look at a socket that is broken is counted, one at it as it was made is not.
    pub(crate) fn assert_broken_is_counted(
        mut context: Context,
        socket: impl Fn(&Context) -> &UdpSocket,
        look: impl Fn(&mut Context),
    ) {
        look(&mut context);
        assert_eq!(context.base.counters.context.receives_failed.get(), 0);
        net::faults::spoil(socket(&context)).expect("there are descriptors");
        look(&mut context);
        assert_eq!(context.base.counters.context.receives_failed.get(), 1);
    }

    /// Looks at the sockets of the first session that sources send by.
    pub(crate) fn look_at_outgoing(context: &mut Context) {
        let now = context.base.now;
        context.publishing.on_outgoing_ready(&mut context.base, now, 0, &mut ());
    }

    #[test]
    fn a_broken_socket_of_topic_resolution_is_counted() {
        let look = |context: &mut Context| context.on_resolver_ready(0, &mut ());
        assert_broken_is_counted(
            lone(1, Wait::Block),
            |context| context.base.resolution.sockets().next().expect("one is open"),
            look,
        );
    }
}
