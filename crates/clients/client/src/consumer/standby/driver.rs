//! The consumer with warm standby with its sockets.

use std::io;
use std::ops::Deref;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use net::{Interest, Poller, Registrar, Resolver, Token, clock};
use rwf::{Dictionary, Domain, EncodeError, Priority, Writer};
use units::Nanos;

use super::StandbyCore;
use crate::consumer::driver::core_calls;
use crate::consumer::{
    ConsumerEvent, ConsumerSendError, GenericSpec, ItemHandle, ItemRequestSpec, ItemView, PostId, PostSpec,
    SubscribeError,
};
use crate::driver::LAST_WORDS;
use crate::wire::{READS_MAX, Wire};
use crate::{ClientTlsConfig, ConsumerConfig, Identity, StartError, WarmStandbyConfig};

/// A consumer of market data with several servers, one of which is the active one, the others ready to take
/// over at once.
///
/// It is used like a [`Consumer`](crate::Consumer) and tells the same events, and
/// [`ConsumerEvent::Active`] beside them. When the active server is lost, each item goes on with the image
/// that the next server has of it, reported as an unsolicited refresh, and that server's updates: the application
/// sees one stream, without a suspect state in between.
///
/// ```no_run
/// use std::time::Duration;
/// use tickcast_client::{
///     ConsumerConfig, ConsumerEvent, StandbyConsumer, StandbyServerConfig, WarmStandbyConfig,
/// };
///
/// let first = ConsumerConfig { hosts: vec!["p2ps1:14002".parse()?], ..ConsumerConfig::default() };
/// let second = StandbyServerConfig { hosts: vec!["p2ps2:14002".parse()?], services: Vec::new() };
/// let standby = WarmStandbyConfig { servers: vec![second], ..WarmStandbyConfig::default() };
/// let mut consumer = StandbyConsumer::new(&first, &standby)?;
/// consumer.subscribe("DIRECT_FEED", "IBM.N")?;
/// loop {
///     consumer.dispatch(Duration::from_secs(1), &mut |event: ConsumerEvent<'_>| match event {
///         ConsumerEvent::Active(event) => println!("data comes from {}", event.host),
///         ConsumerEvent::Item(event) => println!("{} is {}", event.name(), event.state()),
///         _ => {}
///     })?;
/// }
/// # #[allow(unreachable_code)]
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct StandbyConsumer {
    core: StandbyCore,
    /// One for each server.
    wires: Vec<Wire>,
    poller: Poller,
}

/// Reads from each server in one turn: fewer than a consumer of one server has, so that one of which much
/// comes does not keep the others' pings.
const READS: usize = READS_MAX / 4;

impl StandbyConsumer {
    /// A consumer that connects to all servers with the first call of [`StandbyConsumer::dispatch`].
    ///
    /// # Errors
    /// [`StartError`] for a configuration that cannot be used, or a system without resources.
    pub fn new(config: &ConsumerConfig, standby: &WarmStandbyConfig) -> Result<StandbyConsumer, StartError> {
        let identity = Identity::of_process(config.password_file.as_deref())?;
        let core = StandbyCore::new(config, standby, &identity, clock::seed())?;
        let mut wires = Vec::new();
        for _ in 0..core.server_count() {
            let tls = config.tls.as_ref().map(ClientTlsConfig::load).transpose()?;
            wires.push(Wire::new(config.read_buffer_bytes as usize, tls));
        }
        Ok(StandbyConsumer { core, wires, poller: Poller::new()? })
    }

    /// The same with the application's own dictionary; none is downloaded then.
    #[must_use]
    pub fn with_dictionary(mut self, dictionary: &Arc<Dictionary>) -> StandbyConsumer {
        self.core.set_dictionary(dictionary);
        self
    }

    /// The same with another resolver of host names than the system's.
    #[must_use]
    pub fn with_resolver(mut self, resolver: &Resolver) -> StandbyConsumer {
        self.wires.iter_mut().for_each(|wire| wire.set_resolver(resolver.clone()));
        self
    }

    /// Subscribes an item of the market price domain, with updates.
    ///
    /// # Errors
    /// As [`StandbyConsumer::subscribe_with`].
    pub fn subscribe(&mut self, service: &str, name: &str) -> Result<ItemHandle, SubscribeError> {
        self.core.subscribe(&ItemRequestSpec::new(service, name))
    }

    /// Subscribes an item; see [`StandbyCore::subscribe`].
    ///
    /// # Errors
    /// [`SubscribeError`]; nothing was done then.
    pub fn subscribe_with(&mut self, spec: &ItemRequestSpec<'_>) -> Result<ItemHandle, SubscribeError> {
        self.core.subscribe(spec)
    }

    /// Ends an item. Returns whether there was one; no event follows.
    pub fn unsubscribe(&mut self, handle: ItemHandle) -> bool {
        self.core.unsubscribe(handle)
    }

    /// Waits for events, for at most `timeout`, and gives all that there are to `on_event`. Returns their
    /// number.
    ///
    /// # Errors
    /// The system refuses to wait for the sockets. What happens to connections comes as events.
    pub fn dispatch<F: FnMut(ConsumerEvent<'_>)>(
        &mut self,
        timeout: Duration,
        on_event: &mut F,
    ) -> io::Result<usize> {
        let deadline = clock::monotonic().after(timeout);
        loop {
            let count = self.work(on_event);
            let now = clock::monotonic();
            if count > 0 || now >= deadline {
                return Ok(count);
            }
            for (wire, token) in self.wires.iter_mut().zip(0..) {
                wire.arm(self.poller.registrar(), Token(token))?;
            }
            let until = self.next_wakeup().min(deadline);
            let timeout = (until != Nanos::NEVER).then(|| until.since(now));
            self.poller.wait(timeout)?.for_each(drop);
        }
    }

    /// Logs out, writes what is pending, and closes the connections.
    pub fn close(mut self) {
        self.core.stop(clock::monotonic(), &mut |_| ());
        for (server, wire) in self.wires.iter_mut().enumerate() {
            wire.drain(self.core.at(server), LAST_WORDS);
        }
    }

    /// Begins again at servers that have refused the login for good.
    pub fn restart(&mut self) {
        self.core.restart(clock::monotonic());
    }
}

core_calls!(StandbyConsumer, StandbyCore, core);

/// In somebody else's loop: [`StandbyConsumer::arm`] (or [`StandbyConsumer::descriptors`]) before each wait,
/// of which [`StandbyConsumer::next_wakeup`] is the end at the latest, and [`StandbyConsumer::work`] after
/// it. A consumer that was armed there must not be waited for with [`StandbyConsumer::dispatch`] any more.
impl StandbyConsumer {
    /// Does what there is to do without waiting. Returns the number of events.
    pub fn work<F: FnMut(ConsumerEvent<'_>)>(&mut self, on_event: &mut F) -> usize {
        let mut count = 0;
        for (server, wire) in self.wires.iter_mut().enumerate() {
            wire.turn(self.core.at(server), READS, &mut |event: ConsumerEvent<'_>| {
                count += 1;
                on_event(event);
            });
        }
        count
    }

    /// Registers the sockets with a poller, one token for each server from `first` on. Always the same
    /// poller: a socket leaves it only when it is closed.
    ///
    /// # Errors
    /// The poller refuses a socket.
    pub fn arm(&mut self, registrar: &Registrar, Token(first): Token) -> io::Result<()> {
        self.wires.iter_mut().zip(first..).try_for_each(|(wire, token)| wire.arm(registrar, Token(token)))
    }

    /// The descriptors to wait for and what for, of the servers to which there are sockets.
    pub fn descriptors(&self) -> impl Iterator<Item = (BorrowedFd<'_>, Interest)> {
        self.wires.iter().filter_map(Wire::descriptor)
    }

    /// When [`StandbyConsumer::work`] is to be called whatever the sockets do, on [`net::clock::monotonic`].
    #[must_use]
    pub fn next_wakeup(&mut self) -> Nanos {
        let StandbyConsumer { core, wires, .. } = self;
        let due = |(server, wire): (usize, &Wire)| wire.next_wakeup(core.at(server));
        wires.iter().enumerate().map(due).min().unwrap_or(Nanos::NEVER)
    }
}

impl Deref for StandbyConsumer {
    type Target = StandbyCore;

    fn deref(&self) -> &StandbyCore {
        &self.core
    }
}
