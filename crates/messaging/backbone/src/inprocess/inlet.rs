use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use market::p2ps::{SourceId, Topic};
use net::ring::Producer;
use net::ring::broadcast::Reader;
use net::{Ready, Registrar, Token};
use units::Nanos;

use super::{CONNECT, DISCONNECT, Hub, LINK, Mail, STREAM, Side, TOPIC_CLOSED, TOPIC_OPENED, head, split};
use crate::{DIRECTORY_TOPIC, Inlet, InletCommand, InletEvents, SERVICE_TOPIC_PREFIX};

/// A point-to-point server's side of the backbone inside a process.
pub struct InProcessInlet {
    side: Arc<Side>,
    outlets: Vec<Attached>,
    /// Names of the services that are subscribed to.
    services: BTreeSet<String>,
    next_source: u32,
    next_session: u64,
}

struct Attached {
    to_outlet: Producer,
    from_outlet: Reader,
    outlet: Arc<Side>,
    session: u64,
    /// Topics of this outlet: name, and the source it has become here.
    topics: BTreeMap<u32, (String, Option<SourceId>)>,
    /// The same for the path of a message.
    sources: HashMap<u32, SourceId>,
    /// The instance this is, once a link was asked for.
    instance: Option<u64>,
    is_linked: bool,
}

impl Attached {
    /// Shows the outlet what was sent. One that was sent nothing is left asleep, or two idle sides would wake each
    /// other for ever.
    fn publish(&mut self) {
        if self.to_outlet.publish() {
            self.outlet.nudge();
        }
    }
}

impl InProcessInlet {
    /// Joins a hub. The thread's poller is woken under `token`; a thread that never sleeps `spins`.
    ///
    /// # Errors
    /// The process is out of descriptors.
    pub fn new(hub: &Hub, registrar: &Registrar, token: Token, spins: bool) -> io::Result<InProcessInlet> {
        let side = hub.join(registrar, token, spins, false)?;
        let (services, outlets) = (BTreeSet::new(), Vec::new());
        Ok(InProcessInlet { side, outlets, services, next_source: 0, next_session: 0 })
    }

    fn poll(&mut self, now: Nanos, events: &mut impl InletEvents) {
        for mail in self.side.take_mail() {
            let Mail::Outlet { to_outlet, from_outlet, outlet } = mail else { continue };
            self.next_session += 1;
            self.outlets.push(Attached {
                to_outlet,
                from_outlet,
                outlet,
                session: self.next_session,
                topics: BTreeMap::new(),
                sources: HashMap::new(),
                instance: None,
                is_linked: false,
            });
        }
        for at in 0..self.outlets.len() {
            self.poll_one(now, at, events);
        }
        self.outlets.retain(|o| !o.outlet.is_closed() || !o.topics.is_empty());
    }

    fn poll_one(&mut self, now: Nanos, at: usize, events: &mut impl InletEvents) {
        let Attached { from_outlet, outlet, session, topics, sources, instance, is_linked, .. } =
            &mut self.outlets[at];
        let (services, next_source) = (&self.services, &mut self.next_source);
        let is_gone = outlet.is_closed();
        from_outlet.drain(TURN_MESSAGES, |message| match split(message) {
            Some((STREAM, number, bytes)) => {
                if let Some(&source) = sources.get(&number) {
                    events.on_stream_message(now, source, bytes);
                }
            }
            Some((LINK, _, bytes)) => {
                if let Some(instance) = *instance {
                    events.on_link_message(now, instance, bytes);
                }
            }
            Some((TOPIC_OPENED, number, name)) => {
                let name = String::from_utf8_lossy(name).into_owned();
                let found = found(&name, services, next_source, *session, now, events);
                sources.extend(found.map(|source| (number, source)));
                topics.insert(number, (name, found));
            }
            Some((TOPIC_CLOSED, number, _)) => {
                sources.remove(&number);
                if let Some((_, Some(source))) = topics.remove(&number) {
                    events.on_source_ended(now, source);
                }
            }
            Some((DISCONNECT, ..)) => {
                if let (true, Some(instance)) = (std::mem::take(is_linked), *instance) {
                    events.on_link_down(now, instance);
                }
            }
            _ => {}
        });
        if is_gone && from_outlet.is_empty() {
            sources.clear();
            for (_, (_, source)) in std::mem::take(topics) {
                source.into_iter().for_each(|source| events.on_source_ended(now, source));
            }
            if let (true, Some(instance)) = (std::mem::take(is_linked), *instance) {
                events.on_link_down(now, instance);
            }
        }
    }

    fn has_work(&self) -> bool {
        let mail = self.side.has_mail.load(Ordering::Acquire);
        mail || self.outlets.iter().any(|o| !o.from_outlet.is_empty() || o.outlet.is_closed())
    }

    fn subscribe(&mut self, now: Nanos, service: String, events: &mut impl InletEvents) {
        self.services.insert(service.clone());
        let wanted = format!("{SERVICE_TOPIC_PREFIX}{service}");
        for outlet in &mut self.outlets {
            for (&number, (name, source)) in &mut outlet.topics {
                if *name == wanted && source.is_none() {
                    *source = found(name, &self.services, &mut self.next_source, outlet.session, now, events);
                    outlet.sources.extend(source.map(|source| (number, source)));
                }
            }
        }
    }

    fn unsubscribe(&mut self, service: &str) {
        self.services.remove(service);
        let gone = format!("{SERVICE_TOPIC_PREFIX}{service}");
        for outlet in &mut self.outlets {
            for (number, (name, source)) in &mut outlet.topics {
                if *name == gone {
                    *source = None;
                    outlet.sources.remove(number);
                }
            }
        }
    }
}

/// Most messages taken from one ring before others have a turn, and what they led to is sent.
const TURN_MESSAGES: usize = 4096;

/// Reports a topic as a source if it is wanted.
fn found(
    name: &str,
    services: &BTreeSet<String>,
    next_source: &mut u32,
    session: u64,
    now: Nanos,
    events: &mut impl InletEvents,
) -> Option<SourceId> {
    let topic = match name.strip_prefix(SERVICE_TOPIC_PREFIX) {
        Some(service) if services.contains(service) => Topic::Service(service),
        _ if name == DIRECTORY_TOPIC => Topic::Directory,
        _ => return None,
    };
    let source = SourceId(*next_source);
    *next_source += 1;
    events.on_source(now, source, topic, session);
    Some(source)
}

impl Inlet for InProcessInlet {
    fn execute(&mut self, now: Nanos, command: InletCommand, events: &mut impl InletEvents) {
        match command {
            InletCommand::Subscribe(service) => self.subscribe(now, service, events),
            InletCommand::Unsubscribe(service) => self.unsubscribe(&service),
            InletCommand::Connect { instance, directory } => {
                let behind = |o: &&mut Attached| o.sources.values().any(|s| *s == directory);
                let outlet = self.outlets.iter_mut().find(behind).filter(|o| !o.outlet.is_closed());
                let is_linked = outlet.is_some_and(|outlet| {
                    outlet.instance = Some(instance);
                    outlet.is_linked = outlet.to_outlet.push(&[&head(CONNECT, 0)]).is_ok();
                    outlet.is_linked
                });
                if is_linked {
                    events.on_link_up(now, instance);
                } else {
                    events.on_link_down(now, instance);
                }
            }
            InletCommand::Disconnect(instance) => {
                if let Some(outlet) = self.outlets.iter_mut().find(|o| o.instance == Some(instance)) {
                    outlet.is_linked = false;
                    // A ring of 32 MiB without room for one byte: the outlet's thread does not run any more.
                    let _ = outlet.to_outlet.push(&[&head(DISCONNECT, 0)]);
                }
            }
            InletCommand::Send { instance, bytes } => {
                let linked = self.outlets.iter_mut().find(|o| o.is_linked && o.instance == Some(instance));
                if let Some(outlet) = linked
                    && outlet.to_outlet.push(&[&head(LINK, 0), &bytes]).is_err()
                {
                    outlet.is_linked = false;
                    events.on_link_down(now, instance);
                }
            }
        }
    }

    fn on_ready(&mut self, now: Nanos, _: Ready, events: &mut impl InletEvents) -> bool {
        self.side.waker.acknowledge();
        self.on_wakeup(now, events);
        false
    }

    fn on_wakeup(&mut self, now: Nanos, events: &mut impl InletEvents) {
        self.poll(now, events);
        self.side.idle();
    }

    /// At once if a ring has something.
    fn next_wakeup(&self) -> Nanos {
        if self.has_work() { Nanos::ZERO } else { Nanos::NEVER }
    }

    fn flush(&mut self, _: Nanos) {
        self.outlets.iter_mut().for_each(Attached::publish);
    }

    /// The outlet is blocked while a ring is full.
    fn keeps_unread(&self) -> bool {
        true
    }
}

impl Drop for InProcessInlet {
    fn drop(&mut self) {
        self.side.close();
        self.outlets.iter().for_each(|o| o.outlet.waker.wake());
    }
}
