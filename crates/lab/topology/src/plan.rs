//! What a run is made of: drawn from its seed, and made smaller when it fails.

use std::time::Duration;

use units::{Nanos, Rng};

/// What carries the streams of the backbone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// LBT-RM: datagrams to all, with NAKs.
    Multicast,
    /// LBT-RU: datagrams to each, with NAKs.
    Unicast,
    /// LBMC over byte streams.
    Ordered,
    /// Messages without numbers, which may be dropped, as by servers of NATS.
    Bare,
}

/// Where something runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Host {
    /// The provider of a service.
    Provider(usize),
    /// A source distributor of the backbone.
    Distributor(usize),
    /// A point-to-point server; the source distributor in a point of presence is in the same process.
    Server(usize),
    /// A client.
    Client(usize),
}

/// A source distributor of the backbone.
#[derive(Clone, Debug)]
pub struct DistributorPlan {
    /// Keeps images of what it asks for.
    pub has_cache: bool,
    /// How many sequence numbers of a stream gap queries reach back.
    pub gap_memory: usize,
}

/// A service: one provider publishes it to one source distributor.
#[derive(Clone, Debug)]
pub struct ServicePlan {
    /// The source distributor.
    pub distributor: usize,
    /// How many items it has.
    pub items: usize,
}

/// A point-to-point server.
#[derive(Clone, Debug)]
pub struct ServerPlan {
    /// The server that it is a client of, if it is a point of presence.
    pub upstream: Option<usize>,
    /// Shards behind a relay; 0 for one thread that does all.
    pub shards: usize,
    /// Keeps images that nobody needs now.
    pub has_cache: bool,
    /// Images that a shard keeps besides.
    pub kept_images: usize,
    /// The source distributor of a point of presence keeps images.
    pub has_upstream_cache: bool,
}

/// A client.
#[derive(Clone, Debug)]
pub struct ClientPlan {
    /// Its server.
    pub server: usize,
    /// It speaks JSON over WebSocket; else RSSL.
    pub websocket: bool,
    /// It asks for compression.
    pub compression: bool,
    /// When it starts.
    pub joins: Nanos,
    /// It wants each item by this chance.
    pub appetite: f64,
}

/// What networks do until they are healed.
#[derive(Clone, Debug)]
pub struct Weather {
    /// A datagram is lost.
    pub loss: f64,
    /// The same in the bad state of the Gilbert-Elliott model.
    pub loss_bad: f64,
    /// Chances to come into that state, and out of it, with each datagram.
    pub to_bad: f64,
    /// See `to_bad`.
    pub to_good: f64,
    /// A datagram comes twice.
    pub duplicate: f64,
    /// A datagram is held back for up to `reorder_by`.
    pub reorder: f64,
    /// See `reorder`.
    pub reorder_by: Duration,
    /// The longest delay of a datagram.
    pub delay: Duration,
    /// The longest delay of bytes on a connection.
    pub stream_delay: Duration,
    /// Bytes on a connection are cut at arbitrary places, by this chance for each write.
    pub cut: f64,
}

/// Something that happens at a time.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// The provider changes an item, by its place among all; whether another field changes too.
    Update(usize, bool),
    /// The provider publishes the image of an item again.
    Refresh(usize),
    /// A process is killed and started again after a while.
    Crash(Host, Duration),
    /// Connections between two hosts break.
    Break(Host, Host),
    /// Nothing passes from the first to the second.
    Cut(Host, Host, Duration),
    /// A client reads too slowly: its updates are conflated.
    Slow(usize, Duration),
    /// A client ends the stream of an item and asks for it again.
    Reopen(usize, usize),
}

/// A whole run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where it was drawn from.
    pub seed: u64,
    /// The carrier of the backbone.
    pub carrier: Carrier,
    /// The transmission window and its receivers' patience are small: some losses stay.
    pub small_window: bool,
    /// The longest message that goes unfragmented over RSSL.
    pub message_size: u16,
    /// Servers find now and then that a client lags, so that images come later.
    pub lags: bool,
    /// Source distributors of the backbone.
    pub distributors: Vec<DistributorPlan>,
    /// Services.
    pub services: Vec<ServicePlan>,
    /// Servers; one that has an upstream stands behind it.
    pub servers: Vec<ServerPlan>,
    /// Clients.
    pub clients: Vec<ClientPlan>,
    /// Networks.
    pub weather: Weather,
    /// What happens, in the order of time.
    pub steps: Vec<(Nanos, Step)>,
}

const MS: Duration = Duration::from_millis(1);

/// Everything starts here.
pub(crate) const BEGIN: Nanos = Nanos(1_000_000_000);
/// Faults come from here on, so that some runs see them while they start.
const FAULTS_BEGIN: Duration = Duration::from_millis(200);
/// So long things go wrong.
pub(crate) const TROUBLE: Duration = Duration::from_millis(3_000);
/// The last change comes so much later.
pub(crate) const LATE: Duration = Duration::from_millis(500);

impl Plan {
    /// The run of a seed.
    #[must_use]
    pub fn draw(seed: u64) -> Plan {
        let mut rng = Rng::new(seed ^ 0x7070_1067);
        let rng = &mut rng;
        let carriers =
            [Carrier::Multicast, Carrier::Multicast, Carrier::Unicast, Carrier::Ordered, Carrier::Bare];
        let carrier = carriers[below(rng, carriers.len())];
        let distributors: Vec<DistributorPlan> = (0..1 + below(rng, 2))
            .map(|_| DistributorPlan {
                has_cache: rng.chance(0.5),
                gap_memory: if rng.chance(0.3) { 16 } else { 4_096 },
            })
            .collect();
        let services: Vec<ServicePlan> = (0..1 + below(rng, 3))
            .map(|at| ServicePlan { distributor: at % distributors.len(), items: 1 + below(rng, 8) })
            .collect();
        let items: usize = services.iter().map(|service| service.items).sum();
        let roots = 1 + below(rng, 2);
        let pops = [0, 0, 1, 2][below(rng, 4)];
        let servers: Vec<ServerPlan> =
            (0..roots + pops).map(|at| draw_server(rng, (at >= roots).then_some(at))).collect();
        let clients: Vec<ClientPlan> =
            (0..2 + below(rng, 4)).map(|_| draw_client(rng, servers.len())).collect();
        let weather = draw_weather(rng);
        let mut plan = Plan {
            seed,
            carrier,
            small_window: rng.chance(0.3),
            message_size: if rng.chance(0.3) { 64 + below(rng, 200) as u16 } else { 6_144 },
            lags: rng.chance(0.15),
            distributors,
            services,
            servers,
            clients,
            weather,
            steps: Vec::new(),
        };
        let mut steps: Vec<(Nanos, Step)> = Vec::new();
        for _ in 0..50 + below(rng, 250) {
            let at = BEGIN + span(rng, TROUBLE + LATE);
            let item = below(rng, items);
            steps.push((
                at,
                if rng.chance(0.03) { Step::Refresh(item) } else { Step::Update(item, rng.chance(0.3)) },
            ));
        }
        if rng.chance(0.85) {
            for _ in 0..1 + below(rng, 8) {
                let at = BEGIN + FAULTS_BEGIN + span(rng, TROUBLE - FAULTS_BEGIN);
                steps.push((at, plan.draw_fault(rng)));
            }
        }
        steps.sort_by_key(|(at, _)| *at);
        plan.steps = steps;
        plan
    }

    fn draw_fault(&self, rng: &mut Rng) -> Step {
        let length = span(rng, MS * 900);
        let client = below(rng, self.clients.len());
        match below(rng, 10) {
            0 | 1 => Step::Crash(self.draw_host(rng), length),
            2..=4 => {
                let (a, b) = self.draw_pair(rng);
                Step::Break(a, b)
            }
            5..=7 => {
                let (a, b) = self.draw_pair(rng);
                Step::Cut(a, b, length)
            }
            8 => Step::Slow(client, length),
            _ => Step::Reopen(client, below(rng, self.item_count())),
        }
    }

    /// How many items all services have.
    #[must_use]
    pub fn item_count(&self) -> usize {
        self.services.iter().map(|service| service.items).sum()
    }

    /// Whether an image that a client is shown may stand for updates that it is not shown, though its item is good: where
    /// a point of presence without a cache asks for an image again, and where a provider that is back takes over from its
    /// own dead connection; and where images wait for room.
    pub(crate) fn images_stand_for_updates(&self, client: usize) -> bool {
        if self.lags {
            return true;
        }
        let mut at = Some(self.clients[client].server);
        while let Some(server) = at {
            let plan = &self.servers[server];
            if plan.upstream.is_some() && !plan.has_upstream_cache {
                return true;
            }
            at = plan.upstream;
        }
        let is_provider = |host: &Host| matches!(host, Host::Provider(_));
        self.steps.iter().any(|(_, step)| match step {
            Step::Crash(host, _) => is_provider(host),
            Step::Break(a, b) | Step::Cut(a, b, _) => is_provider(a) || is_provider(b),
            _ => false,
        })
    }

    /// Whether the transport of the backbone has the means and the time to repair all losses.
    pub(crate) fn is_repairable(&self) -> bool {
        let has_naks = matches!(self.carrier, Carrier::Multicast | Carrier::Unicast);
        let is_calm = self.weather.loss <= 0.15 && self.weather.to_bad == 0.0 && !self.small_window;
        let lasts = |step: &Step| !matches!(step, Step::Crash(..) | Step::Cut(..));
        has_naks && is_calm && self.steps.iter().all(|(_, step)| lasts(step))
    }

    fn draw_host(&self, rng: &mut Rng) -> Host {
        match below(rng, 4) {
            0 => Host::Provider(below(rng, self.services.len())),
            1 => Host::Distributor(below(rng, self.distributors.len())),
            2 => Host::Server(below(rng, self.servers.len())),
            _ => Host::Client(below(rng, self.clients.len())),
        }
    }

    /// Two hosts that have to do with each other, either first.
    fn draw_pair(&self, rng: &mut Rng) -> (Host, Host) {
        let pair = match below(rng, 3) {
            0 => {
                let service = below(rng, self.services.len());
                (Host::Provider(service), Host::Distributor(self.services[service].distributor))
            }
            1 => {
                let client = below(rng, self.clients.len());
                (Host::Server(self.clients[client].server), Host::Client(client))
            }
            _ => {
                let server = below(rng, self.servers.len());
                let above = match self.servers[server].upstream {
                    Some(upstream) => Host::Server(upstream),
                    None => Host::Distributor(below(rng, self.distributors.len())),
                };
                (above, Host::Server(server))
            }
        };
        if rng.chance(0.5) { pair } else { (pair.1, pair.0) }
    }
}

fn below(rng: &mut Rng, bound: usize) -> usize {
    rng.below(bound as u64) as usize
}

fn span(rng: &mut Rng, longest: Duration) -> Duration {
    Duration::from_nanos(1 + rng.below(longest.as_nanos() as u64))
}

fn draw_server(rng: &mut Rng, behind: Option<usize>) -> ServerPlan {
    ServerPlan {
        upstream: behind.map(|at| below(rng, at)),
        shards: [0, 0, 1, 2, 3][below(rng, 5)],
        has_cache: rng.chance(0.5),
        kept_images: [0, 1, 100][below(rng, 3)],
        has_upstream_cache: rng.chance(0.5),
    }
}

fn draw_client(rng: &mut Rng, servers: usize) -> ClientPlan {
    let within = if rng.chance(0.5) { MS * 300 } else { TROUBLE };
    ClientPlan {
        server: below(rng, servers),
        websocket: rng.chance(0.35),
        compression: rng.chance(0.1),
        joins: BEGIN + span(rng, within),
        appetite: if rng.chance(0.5) { 1.0 } else { 0.3 },
    }
}

fn draw_weather(rng: &mut Rng) -> Weather {
    let slowest = if rng.chance(0.3) { MS * 100 } else { MS * 3 };
    let mut weather = Weather {
        loss: 0.0,
        loss_bad: 0.0,
        to_bad: 0.0,
        to_good: 1.0,
        duplicate: 0.0,
        reorder: 0.0,
        reorder_by: Duration::ZERO,
        delay: span(rng, MS),
        stream_delay: span(rng, slowest),
        cut: if rng.chance(0.5) { 0.3 } else { 0.0 },
    };
    if rng.chance(0.7) {
        weather.loss = rng.unit() * 0.3;
    }
    if rng.chance(0.3) {
        weather.to_bad = rng.unit() * 0.05;
        weather.to_good = 0.02 + rng.unit() * 0.3;
        weather.loss_bad = 0.5 + rng.unit() * 0.5;
    }
    if rng.chance(0.4) {
        weather.duplicate = rng.unit() * 0.1;
        weather.reorder = rng.unit() * 0.2;
        weather.reorder_by = span(rng, MS * 4);
    }
    weather
}
