use std::collections::HashSet;
use std::net::SocketAddrV4;
use std::time::Duration;

use config::Complaint;
use daemon::ThreadConfig;
use market::p2ps::{AliasTarget, ClientClass, ClientClasses, ComposedMember, ComposedService, ServerConfig};
use market::{IntakeConfig, NamePattern, ServiceNames};
use server::LadderConfig;
use server::rssl::RsslConfig;
use server::websocket::WebSocketConfig;
use source_distributor::InteractiveConfig;

config::section! {
    /// What the clients of some users may have. A user is of the first class that names it.
    pub struct ClassConfig {
        /// What logs and status pages call it.
        name: String, required, length 1..=255;
        /// Names of users; one that ends with `*` stands for all that begin so.
        users: Vec<String>, required, length 1..=100_000;
        /// The least time between two updates of one item, in place of every update; the later ones bring the newest
        /// values. 0 for every update.
        update_interval_ms: u16 = 0;
        /// Most bytes that one client is sent in a second, before encryption. If more waits than a second's, its
        /// updates are conflated. 0 for as many as it takes.
        bytes_per_second: u32 = 0, range 0..=1_000_000_000;
        /// How much of what a turn allows its clients get, compared with others, when not everybody can be served at once;
        /// and how much may wait for them before they are closed at the port's backlogs_max_bytes. Clients of no class
        /// have 5.
        priority: u8 = 5, range 1..=9;
        /// Most item streams that one client may have open, if that is less than p2ps.client_streams_max.
        streams_max: u32 = 500_000, range 1..=10_000_000;
        /// Most clients of the class that may be logged in at a time.
        connections_max: u32 = 1_000_000, range 1..=1_000_000;
    }
}

config::section! {
    /// What clients get of a service at most.
    pub struct ServiceRateConfig {
        /// The name of the service.
        service: String, required, length 1..=255;
        /// The least time between two updates of one item, in place of every update; the later ones bring the newest
        /// values. The service offers this quality and slower ones, and no faster one.
        update_interval_ms: u16, required, range 1..=65_535;
    }
}

config::section! {
    /// A service that a composed one is made of.
    pub struct ComposedMemberConfig {
        /// The name of the service, as a source distributor announces it.
        service: String, required, length 1..=255;
        /// Patterns of the names of items that come from it: `*` stands for any characters, or none, `?` for one. Without
        /// any, all items may. An alias is looked up before.
        items: Vec<String> = [], length 0..=1_000;
    }
}

config::section! {
    /// Another name of an item of a composed service.
    pub struct ComposedAliasConfig {
        /// The name that clients ask for, and see.
        alias: String, required, length 1..=255;
        /// The name of the item at the member.
        name: String, required, length 1..=255;
        /// The member that it comes from, whatever the patterns say; any if it is not set.
        service: Option<String> = None, length 1..=255;
    }
}

config::section! {
    /// A service that is made of others (docs/guides/composed-services.md).
    pub struct ComposedServiceConfig {
        /// Its name, which no source distributor may announce.
        name: String, required, length 1..=255;
        /// The services that it is made of, in order of preference: 1 to 16.
        member: Vec<ComposedMemberConfig>;
        /// Other names of items: at most 100,000.
        alias: Vec<ComposedAliasConfig>;
        /// Whether items go back to a preferred member when that is up again.
        fail_back: bool = true;
        /// They do when it has been up for so long without a break.
        fail_back_delay_ms: u32 = 10_000, range 0..=3_600_000;
    }
}

config::section! {
    /// The point-to-point server: consumers connect here.
    pub struct P2psConfig {
        /// Servers that this one takes its data from as their client, in place of the backbone: P2PSs, ADSs, interactive
        /// providers (docs/guides/pop.md). Each item is asked for once, whoever watches it. A source distributor in the
        /// same process dials them; [source_distributor] configures it, but for its provider port, which it does not
        /// open.
        upstream: Vec<InteractiveConfig>;
        /// Port on which RSSL consumers connect.
        rssl_port: u16 = 14002;
        /// How consumer connections are treated.
        rssl: RsslConfig;
        /// Port on which consumers connect by WebSocket; 0 for none.
        websocket_port: u16 = 15000;
        /// How these connections are treated.
        websocket: WebSocketConfig;
        /// File with the users that may log in (docs/users.md), read again when it changes; everybody may if it
        /// is not set.
        users_file: Option<String> = None, length 1..=4096;
        /// The service that a WebSocket request means if it names none. Without this it is the only service
        /// that there is.
        default_service: Option<String> = None, length 1..=255;
        /// A stream over WebSocket that an update could not reach, because it cannot be written as JSON, gets
        /// an image after this time; until then it is suspect.
        json_image_delay_ms: u64 = 1_000, range 10..=600_000;
        /// The name that source distributors know this server by.
        name: String = "p2ps", length 1..=255;
        /// How long an item stays subscribed upstream after its last watcher has left.
        item_linger_ms: u64 = 5_000, range 0..=3_600_000;
        /// Most images asked for at a time, so that a recovery does not flood the source distributor.
        images_outstanding_max: u32 = 500, range 1..=1_000_000;
        /// An image that has not come by then is asked for again.
        image_timeout_ms: u64 = 5_000, range 100..=600_000;
        /// Most bytes of updates held back for one item while its image is on its way.
        held_max_bytes: u64 = 262_144, range 4_096..=1_073_741_824;
        /// Most bytes of a service's messages that wait behind a gap until it is known which items it
        /// concerns.
        gap_held_max_bytes: u64 = 67_108_864, range 65_536..=17_179_869_184;
        /// Most bytes of the backbone's messages that wait while the server is busy with others; beyond that
        /// they are dropped, and their items get new images. Several times
        /// source_distributor.flow.window_bytes of all source distributors together.
        intake_max_bytes: u64 = 67_108_864, range 1_048_576..=17_179_869_184;
        /// Most bytes of the backbone's messages handled in a second; 0 for no limit. To rehearse overload.
        intake_rate_limit_bytes_per_second: u64 = 0, range 0..=1_000_000_000_000;
        /// How far the streams are handled is reported to source distributors at this interval.
        progress_interval_ms: u32 = 20, range 1..=1_000;
        /// A broken link to a source distributor is opened again after this time.
        link_retry_ms: u64 = 200, range 10..=60_000;
        /// A source distributor that is not heard for so long is taken for gone, and so is one that does not
        /// acknowledge what is sent over its link for about as long; at least three times its heartbeat_interval_ms.
        /// A service of which nothing comes for so long is taken for gone there.
        silence_timeout_ms: u64 = 800, range 100..=600_000;
        /// Most item streams one client may have open.
        client_streams_max: u32 = 500_000, range 1..=10_000_000;
        /// The round trip to consumers that offer it at login is measured at this interval; 0 for never.
        round_trip_interval_ms: u64 = 10_000, range 0..=3_600_000;
        /// A post that is not acknowledged by then is refused; below the 15 s that stock consumers wait.
        post_timeout_ms: u64 = 10_000, range 100..=600_000;
        /// Most posts of all clients that may wait for their acknowledgement; more are refused.
        posts_outstanding_max: u32 = 100_000, range 1..=10_000_000;
        /// A client for which more bytes wait is sent the newest values when it has room, in place of every update
        /// (docs/guides/slow-clients.md); 0 for never. Below the port's backlog_max_bytes, at which the client is
        /// disconnected.
        conflate_above_bytes: u64 = 0, range 0..=17_179_869_184;
        /// The same for a client whose oldest byte has waited so long; 0 for never.
        conflate_above_ms: u32 = 0, range 0..=3_600_000;
        /// A client that is sent the newest values has room for them while no more bytes wait for it.
        conflated_room_bytes: u64 = 65_536, range 0..=17_179_869_184;
        /// A client that is sent the newest values is sent every update again when it had room for so long.
        tick_after_ms: u32 = 2_000, range 0..=3_600_000;
        /// A client that is sent the newest values is sent them in rounds when the oldest byte has waited so long: one in
        /// an interval, and none while the one before is on its way. 0 for never.
        interval_above_ms: u32 = 0, range 0..=3_600_000;
        /// The longest interval between two rounds. It begins with 250 ms, and grows while a round takes longer.
        interval_max_ms: u32 = 30_000, range 250..=3_600_000;
        /// A client whose oldest byte has waited so long is disconnected; 0 for never.
        disconnect_after_ms: u32 = 0, range 0..=86_400_000;
        /// Rates that clients may ask for in place of every update (docs/guides/slow-clients.md): an update of an item
        /// at most once in so many milliseconds, with the newest values. Each service that has every update offers
        /// them as qualities of its own.
        conflated_intervals_ms: Vec<u16> = [], range 1..=65_535, length 0..=64;
        /// Rates of services. The longest of the intervals of service, class and request counts.
        service_rate: Vec<ServiceRateConfig>;
        /// Classes of users, in the order in which they are looked at.
        class: Vec<ClassConfig>;
        /// Services of whose items an update changes only the fields that it has. In others a field's old value
        /// moves to the field that it ripples to by the dictionary, if the image has that. Source distributors
        /// have to be told the same: `ripples` of `source_distributor.services`.
        services_without_ripples: Vec<String> = [], length 0..=1_000;
        /// Services of whose items no images are kept here, `*` for all (docs/guides/caches.md). The first request for an
        /// item, and each later one, is answered with an image from the source distributor; a stream that lacks
        /// updates waits for one. With shards the thread that takes the backbone keeps images all the same. With upstream
        /// servers, images come from there.
        services_without_cache: Vec<String> = [], length 0..=1_000;
        /// Services that are taken from two source distributors at a time, `*` for all (docs/guides/pairs.md): the first
        /// copy of each message counts, by the provider's numbers, and the loss of one of them is not noticed. It costs
        /// the traffic of these services twice. Not with services_without_cache.
        hot_services: Vec<String> = [], length 0..=1_000;
        /// Services that are made of others: by preference, by patterns of names, with aliases
        /// (docs/guides/composed-services.md). At most 64.
        composed_service: Vec<ComposedServiceConfig>;
        /// If a source distributor of a hot service leaves out numbers of an item, so long the other one is waited for,
        /// which may have them.
        hot_wait_ms: u32 = 100, range 1..=10_000;
        /// Where many streams or items are concerned at once, because a client has gone or a service is lost, so
        /// many of them are dealt with before others are served again.
        cleanups_per_turn: u32 = 500, range 1..=1_000_000;
        /// Longest time from SIGTERM to the end, for clients to take what waits for them.
        shutdown_timeout_ms: u32 = 3_000, range 0..=600_000;
        /// On SIGTERM clients are moved on over this time before the server ends (docs/guides/rolling-restart.md), with
        /// `tickcast admin drain` without another time, too; 0 for an end at once, and 30 s with that command.
        drain_ms: u32 = 0, range 0..=86_400_000;
        /// Threads that serve clients (docs/guides/shards.md). With more than one, a further thread takes the backbone
        /// for all of them. 0 for as many as shard_cpus lists, or without it one for each CPU but one, or but two if there
        /// are upstream servers; on two CPUs one thread does everything.
        shards: u32 = 0, range 0..=64;
        /// With shards, most images that each keeps while none of its clients needs them; one that is needed again comes
        /// from the thread that takes the backbone, which has all of them.
        shard_images_max: u32 = 65_536, range 0..=10_000_000;
        /// CPUs that these threads are kept on, the first for the first. Threads without one run anywhere.
        shard_cpus: Vec<u32> = [], length 0..=64;
        /// The thread; with shards, that which takes the backbone. Shards wait as it does.
        thread: ThreadConfig;
    }
    check = P2psConfig::check;
}

/// The most composed services, members of one, aliases of one.
const COMPOSED_MAX: usize = 64;
const MEMBERS_MAX: usize = 16;
const ALIASES_MAX: usize = 100_000;

/// Something that may be there so often at most.
fn check_count(path: &str, what: &str, count: usize, most: usize) -> Option<Complaint> {
    (count > most).then(|| Complaint::new([path], format!("there are {count} {what}, at most {most} may be")))
}

impl ComposedServiceConfig {
    fn core(&self) -> ComposedService {
        let pattern = |pattern: &String| NamePattern::new(pattern);
        let member = |member: &ComposedMemberConfig| ComposedMember {
            service: member.service.clone(),
            items: member.items.iter().map(pattern).collect(),
        };
        let place = |service: &String| self.member.iter().position(|member| member.service == *service);
        let alias = |alias: &ComposedAliasConfig| {
            let target = AliasTarget {
                name: alias.name.clone().into_bytes(),
                member: alias.service.as_ref().and_then(place),
            };
            (alias.alias.clone().into_bytes(), target)
        };
        ComposedService {
            name: self.name.clone(),
            members: self.member.iter().map(member).collect(),
            aliases: self.alias.iter().map(alias).collect(),
            fail_back: self.fail_back.then(|| Duration::from_millis(self.fail_back_delay_ms.into())),
        }
    }

    /// What is wrong with one of several.
    fn check(&self, at: usize, all: &[ComposedServiceConfig], complaints: &mut Vec<Complaint>) {
        let path = |key: &str| format!("composed_service.{at}.{key}");
        if all[..at].iter().any(|other| other.name == self.name) {
            let text = format!("`{}` is the name of another composed service", self.name);
            complaints.push(Complaint::new([path("name")], text));
        }
        if self.member.is_empty() {
            let text = format!("`{}` has no member: 1 to {MEMBERS_MAX} services make it", self.name);
            // Of what is not there no line can be named.
            complaints.push(Complaint::new([path("name")], text));
        }
        complaints.extend(check_count(&path("member"), "members", self.member.len(), MEMBERS_MAX));
        complaints.extend(check_count(&path("alias"), "aliases", self.alias.len(), ALIASES_MAX));
        for (place, member) in self.member.iter().enumerate() {
            let key = path(&format!("member.{place}.service"));
            let name = &member.service;
            if all.iter().any(|other| other.name == *name) {
                let text =
                    format!("`{name}` is composed itself; members are services of source distributors");
                complaints.push(Complaint::new([key], text));
            } else if self.member[..place].iter().any(|other| other.service == *name) {
                let text = format!("`{name}` is a member of `{}` already", self.name);
                complaints.push(Complaint::new([key], text));
            }
            let is_bad = |pattern: &&String| pattern.is_empty() || pattern.len() > NamePattern::BYTES_MAX;
            if let Some(pattern) = member.items.iter().find(is_bad) {
                let text = format!(
                    "a pattern has 1 to {} bytes, not {}, as a name has",
                    NamePattern::BYTES_MAX,
                    pattern.len()
                );
                complaints.push(Complaint::new([path(&format!("member.{place}.items"))], text));
            }
        }
        let mut names = HashSet::new();
        for (place, alias) in self.alias.iter().enumerate() {
            if !names.insert(&alias.alias) {
                let text = format!("`{}` stands for an item already", alias.alias);
                complaints.push(Complaint::new([path(&format!("alias.{place}.alias"))], text));
            }
            if let Some(service) = &alias.service
                && !self.member.iter().any(|member| member.service == *service)
            {
                let text = format!("`{service}` is no member of `{}`", self.name);
                complaints.push(Complaint::new([path(&format!("alias.{place}.service"))], text));
            }
        }
    }
}

/// The most threads that serve clients.
const SHARDS_MAX: u32 = 64;
/// The least rate of a class: an image of a few hundred fields in a second.
const RATE_MIN: u32 = 4_096;

impl ClassConfig {
    fn core(&self) -> ClientClass {
        ClientClass {
            name: self.name.clone(),
            users: self.users.clone(),
            interval_ms: self.update_interval_ms,
            bytes_per_second: self.bytes_per_second.into(),
            priority: self.priority,
            streams_max: self.streams_max as usize,
            connections_max: self.connections_max as usize,
        }
    }
}

/// What a drain takes beyond its time and the shutdown time-out: connections that are being closed are looked at now and
/// then, and given some seconds at least.
pub(crate) const DRAIN_GRACE: Duration = Duration::from_secs(2);

impl P2psConfig {
    /// Longest time in which clients are moved on at the end, if they are.
    #[must_use]
    pub fn longest_drain(&self) -> Duration {
        match self.drain_ms {
            0 => Duration::ZERO,
            ms => Duration::from_millis(ms.into()) + self.patience() + DRAIN_GRACE,
        }
    }

    /// How long a client that is moved on may take what waits for it and end its side.
    pub(crate) fn patience(&self) -> Duration {
        Duration::from_millis(self.shutdown_timeout_ms.into()).max(DRAIN_GRACE)
    }

    fn check(&self) -> Result<(), Vec<Complaint>> {
        let mut complaints = Vec::new();
        if self.conflate_above_bytes > 0 && self.conflated_room_bytes >= self.conflate_above_bytes {
            complaints.push(Complaint::new(
                ["conflated_room_bytes", "conflate_above_bytes"],
                "a client that has room must have less waiting than one that is too slow",
            ));
        }
        if self.disconnect_after_ms > 0 && self.conflate_above_ms >= self.disconnect_after_ms {
            complaints.push(Complaint::new(
                ["conflate_above_ms", "disconnect_after_ms"],
                "a client would be disconnected before it is sent the newest values",
            ));
        }
        let rssl = SocketAddrV4::new(self.rssl.interface, self.rssl_port);
        if net::tcp::collide(rssl, SocketAddrV4::new(self.websocket.interface, self.websocket_port)) {
            let text = format!("port {} cannot be both that of RSSL and that of WebSocket", self.rssl_port);
            complaints.push(Complaint::new(["websocket_port", "rssl_port"], text));
        }
        complaints.extend(self.check_interval());
        complaints
            .extend(InteractiveConfig::check_all("upstream", &self.upstream).err().into_iter().flatten());
        let conflates = self.conflate_above_bytes > 0 || self.conflate_above_ms > 0;
        let rssl = Some(("rssl.backlog_max_bytes", self.rssl.backlog_max_bytes));
        let websocket = ("websocket.backlog_max_bytes", self.websocket.backlog_max_bytes);
        let websocket = (self.websocket_port != 0).then_some(websocket);
        for (key, most) in rssl.into_iter().chain(websocket) {
            if self.conflate_above_bytes >= most {
                complaints.push(Complaint::new(
                    ["conflate_above_bytes", key],
                    "a client would be disconnected before it is sent the newest values",
                ));
            } else if conflates && self.conflated_room_bytes >= most {
                complaints.push(Complaint::new(
                    ["conflated_room_bytes", key],
                    "a client that has room must have less waiting than one that is disconnected",
                ));
            }
        }
        if self.shards <= 1 && self.shard_cpus.len() == 1 {
            complaints.push(Complaint::new(
                ["shard_cpus"],
                "with one thread for everything it is p2ps.thread.cpu that keeps it on a CPU",
            ));
        } else if self.shards > 0 && self.shard_cpus.len() > self.shards as usize {
            let text = format!("there are {} CPUs for {} threads", self.shard_cpus.len(), self.shards);
            complaints.push(Complaint::new(["shard_cpus", "shards"], text));
        }
        let is_both = |name: &String| {
            let uncached = &self.services_without_cache;
            let all = |names: &[String]| names.iter().any(|name| name == ServiceNames::ALL);
            uncached.contains(name) || name == ServiceNames::ALL && !uncached.is_empty() || all(uncached)
        };
        if let Some(at) = self.hot_services.iter().position(is_both) {
            let text = format!(
                "`{}` cannot be hot without a cache: images of the two source distributors are compared with the one here",
                self.hot_services[at]
            );
            complaints.push(Complaint::new(["hot_services", "services_without_cache"], text));
        }
        if !self.hot_services.is_empty() && !self.upstream.is_empty() {
            let text = "with upstream servers there is one source distributor, in the same process; hot_services needs two";
            complaints.push(Complaint::new(["hot_services", "upstream"], text));
        }
        let composed = &self.composed_service;
        complaints.extend(check_count("composed_service", "composed services", composed.len(), COMPOSED_MAX));
        composed.iter().enumerate().for_each(|(at, one)| one.check(at, composed, &mut complaints));
        let mut services = HashSet::new();
        for (at, rate) in self.service_rate.iter().enumerate() {
            if !services.insert(&rate.service) {
                let text = format!("`{}` has a rate already", rate.service);
                complaints.push(Complaint::new([format!("service_rate.{at}.service")], text));
            }
        }
        let mut names = HashSet::new();
        for (at, class) in self.class.iter().enumerate() {
            if !names.insert(&class.name) {
                complaints
                    .push(Complaint::new([format!("class.{at}.name")], "each class has a name of its own"));
            }
            if (1..RATE_MIN).contains(&class.bytes_per_second) {
                let text = format!(
                    "{} bytes a second do not carry one image: 0 for no limit, or {RATE_MIN} to 1000000000",
                    class.bytes_per_second
                );
                complaints.push(Complaint::new([format!("class.{at}.bytes_per_second")], text));
            }
            let has_star = |name: &&String| name.strip_suffix('*').unwrap_or(name).contains('*');
            if let Some(name) = class.users.iter().find(has_star) {
                let text = format!("`*` stands at the end of a name only, not as in `{name}`");
                complaints.push(Complaint::new([format!("class.{at}.users")], text));
            }
        }
        if complaints.is_empty() { Ok(()) } else { Err(complaints) }
    }

    /// What is wrong with the step between the newest values and the end.
    fn check_interval(&self) -> Option<Complaint> {
        let interval = self.interval_above_ms;
        let is_rated = self.class.iter().any(|class| class.bytes_per_second > 0);
        let (other, text) = if interval == 0 {
            return None;
        } else if self.conflate_above_bytes == 0 && self.conflate_above_ms == 0 && !is_rated {
            let text =
                format!("no client is sent the newest values, which after {interval} ms would be in rounds");
            ("conflate_above_ms", text)
        } else if self.conflate_above_ms >= interval {
            let text = format!(
                "a client would be sent rounds after {interval} ms, and not before that the newest values as it has \
                 room, after {} ms",
                self.conflate_above_ms
            );
            ("conflate_above_ms", text)
        } else if self.disconnect_after_ms > 0 && interval >= self.disconnect_after_ms {
            let text = format!(
                "a client would be disconnected after {} ms, before it is sent rounds after {interval} ms",
                self.disconnect_after_ms
            );
            ("disconnect_after_ms", text)
        } else {
            return None;
        };
        Some(Complaint::new(["interval_above_ms", other], text))
    }

    /// How many threads serve clients; 1 is one for everything.
    #[must_use]
    pub fn shard_count(&self) -> u32 {
        let cpus = || std::thread::available_parallelism().map_or(1, usize::from);
        self.shard_count_on(cpus)
    }

    fn shard_count_on(&self, cpus: impl FnOnce() -> usize) -> u32 {
        match (self.shards, self.shard_cpus.len()) {
            // One CPU is left for the thread that takes the backbone, and one for that of upstream servers.
            (0, 0) => {
                let others = 1 + usize::from(!self.upstream.is_empty());
                cpus().saturating_sub(others).clamp(1, SHARDS_MAX as usize) as u32
            }
            (0, listed) => listed as u32,
            (shards, _) => shards,
        }
    }

    /// What each of several shards goes by: a share of what all clients together may have.
    pub(crate) fn of_shard(&self) -> P2psConfig {
        let (mut config, shards) = (self.clone(), self.shard_count());
        config.posts_outstanding_max = self.posts_outstanding_max.div_ceil(shards);
        config.rssl.backlogs_max_bytes = self.rssl.backlogs_max_bytes / u64::from(shards);
        config.websocket.backlogs_max_bytes = self.websocket.backlogs_max_bytes / u64::from(shards);
        config
    }

    /// How clients are served that do not keep up.
    pub(crate) fn ladder(&self) -> LadderConfig {
        let ms = |ms: u32| Duration::from_millis(ms.into());
        let is_set = |of: u32| (of > 0).then(|| ms(of));
        LadderConfig {
            conflate_above_bytes: (self.conflate_above_bytes > 0)
                .then_some(self.conflate_above_bytes as usize),
            conflate_above: is_set(self.conflate_above_ms),
            room_bytes: self.conflated_room_bytes as usize,
            tick_after: ms(self.tick_after_ms),
            interval_above: is_set(self.interval_above_ms),
            interval_max: ms(self.interval_max_ms),
            disconnect_after: is_set(self.disconnect_after_ms),
        }
    }

    /// What waits of the backbone's messages.
    pub(crate) fn intake(&self) -> IntakeConfig {
        let bytes_max = self.intake_max_bytes as usize;
        IntakeConfig { bytes_max, rate_limit: self.intake_rate_limit_bytes_per_second }
    }

    /// What the core goes by.
    #[must_use]
    pub fn core(&self) -> ServerConfig {
        let ms = Duration::from_millis;
        ServerConfig {
            name: self.name.clone(),
            item_linger: ms(self.item_linger_ms),
            images_outstanding_max: self.images_outstanding_max as usize,
            image_timeout: ms(self.image_timeout_ms),
            held_bytes_max: self.held_max_bytes as usize,
            gap_held_bytes_max: self.gap_held_max_bytes as usize,
            link_retry: ms(self.link_retry_ms),
            silence_timeout: ms(self.silence_timeout_ms),
            client_streams_max: self.client_streams_max as usize,
            round_trip_interval: ms(self.round_trip_interval_ms),
            post_timeout: ms(self.post_timeout_ms),
            progress_interval: ms(self.progress_interval_ms.into()),
            posts_outstanding_max: self.posts_outstanding_max as usize,
            unrippled: self.services_without_ripples.iter().cloned().collect(),
            uncached: self.services_without_cache.iter().cloned().collect(),
            hot: self.hot_services.iter().cloned().collect(),
            hot_wait: ms(self.hot_wait_ms.into()),
            cleanups_per_turn: self.cleanups_per_turn as usize,
            conflated_intervals_ms: self.conflated_intervals_ms.clone(),
            service_intervals_ms: self
                .service_rate
                .iter()
                .map(|rate| (rate.service.clone(), rate.update_interval_ms))
                .collect(),
            classes: ClientClasses::new(self.class.iter().map(ClassConfig::core).collect()),
            kept_images_max: None,
            composed: self.composed_service.iter().map(ComposedServiceConfig::core).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use market::p2ps::{PRIORITY_DEFAULT, PRIORITY_MAX};

    use super::*;

    fn load(text: &str) -> Result<LadderConfig, String> {
        let loaded = config::Loader::new::<P2psConfig>().file("p2ps.toml", text).load();
        loaded.map(|loaded| loaded.value.ladder()).map_err(|errors| errors.to_string())
    }

    #[test]
    fn the_declaration_is_sound() {
        assert_eq!(config::audit::<P2psConfig>(), Vec::<String>::new());
    }

    #[test]
    fn steps_that_are_set_to_zero_are_never_taken() {
        let off =
            load("conflate_above_bytes = 0\nconflate_above_ms = 0\ndisconnect_after_ms = 0").expect("legal");
        assert_eq!((off.conflate_above_bytes, off.conflate_above, off.disconnect_after), (None, None, None));
        assert_eq!(
            load("").expect("legal"),
            off,
            "every client gets every update unless somebody wants it so"
        );
        let on =
            load("conflate_above_bytes = 8_388_608\nconflate_above_ms = 5_000\ndisconnect_after_ms = 60_000");
        let on = on.expect("legal");
        assert!(on.conflate_above_bytes.is_some_and(|bytes| bytes > on.room_bytes));
        assert!(on.conflate_above.is_some() && on.conflate_above < on.disconnect_after);
    }

    #[test]
    fn hot_services_need_a_cache_and_two_source_distributors() {
        for text in [
            "hot_services = [\"FX\"]\nservices_without_cache = [\"FX\"]",
            "hot_services = [\"FX\"]\nservices_without_cache = [\"*\"]",
            "hot_services = [\"*\"]\nservices_without_cache = [\"FX\"]",
        ] {
            let refused = load(text).expect_err(text);
            assert!(refused.contains("cannot be hot without a cache"), "{refused}");
        }
        let upstream = "hot_services = [\"FX\"]\n[[upstream]]\nname = \"u\"\nhosts = [\"a:1\"]";
        let refused = load(upstream).expect_err(upstream);
        assert!(refused.contains("hot_services needs two"), "{refused}");
        assert!(load("hot_services = [\"FX\"]\nservices_without_cache = [\"LSE\"]").is_ok());
    }

    #[test]
    fn composed_services_have_members_of_their_own() {
        let head = "[[composed_service]]\nname = \"ALL\"\n";
        let member = |service: &str| format!("[[composed_service.member]]\nservice = \"{service}\"\n");
        let alias = |alias: &str, service: &str| {
            format!("[[composed_service.alias]]\nalias = \"{alias}\"\nname = \"X\"\n{service}")
        };
        let good = [head, &member("A"), "items = [\"*.N\"]\n", &member("B"), &alias("Y", "service = \"B\"")]
            .concat();
        let config =
            config::Loader::new::<P2psConfig>().file("p2ps.toml", &*good).load().expect("legal").value;
        let [all] = &config.core().composed[..] else { panic!("there is one") };
        assert_eq!((&*all.name, all.fail_back), ("ALL", Some(Duration::from_secs(10))));
        assert_eq!(all.members.iter().map(|member| &*member.service).collect::<Vec<_>>(), ["A", "B"]);
        assert_eq!((all.members[0].items.len(), all.members[1].items.len()), (1, 0));
        let target = AliasTarget { name: b"X".to_vec(), member: Some(1) };
        assert_eq!(all.aliases.get(&b"Y"[..]), Some(&target));
        let never = good.replace("name = \"ALL\"", "name = \"ALL\"\nfail_back = false");
        let never =
            config::Loader::new::<P2psConfig>().file("p2ps.toml", &*never).load().expect("legal").value;
        assert_eq!(never.core().composed[0].fail_back, None);
        let many = |count: usize| -> String { (0..count).map(|n| member(&format!("S{n}"))).collect() };
        for (text, words) in [
            (head.to_owned(), &["`ALL` has no member"][..]),
            ([head, &member("ALL")].concat(), &["`ALL` is composed itself"]),
            ([head, &member("A"), &member("A")].concat(), &["`A` is a member of `ALL` already"]),
            ([head, &member("A"), head, &member("A")].concat(), &["another composed"]),
            ([head, &member("A"), "items = [\"\"]\n"].concat(), &["1 to 255 bytes, not 0"]),
            (
                [head, &member("A"), &alias("Y", ""), &alias("Y", "")].concat(),
                &["`Y` stands for an item already"],
            ),
            ([head, &member("A"), &alias("Y", "service = \"B\"\n")].concat(), &["`B` is no member of `ALL`"]),
            ([head, &many(17)].concat(), &["17 members, at most 16"]),
            ([head, &member("A"), "itms = []\n"].concat(), &["itms", "items"]),
            ([head, "fail_back_delay_ms = 3_600_001\n"].concat(), &["fail_back_delay_ms", "3600000"]),
        ] {
            let error = load(&text).expect_err(&text);
            assert!(words.iter().all(|word| error.contains(word)), "{text}: {error}");
        }
    }

    #[test]
    fn rounds_come_between_the_newest_values_and_the_end_or_not_at_all() {
        let off = load("conflate_above_ms = 5_000").expect("legal");
        assert_eq!((off.interval_above, off.interval_max), (None, Duration::from_secs(30)));
        let on = load("conflate_above_ms = 500\ninterval_above_ms = 2_000\ninterval_max_ms = 8_000")
            .expect("legal");
        assert_eq!(
            (on.interval_above, on.interval_max),
            (Some(Duration::from_secs(2)), Duration::from_secs(8))
        );
        load("conflate_above_bytes = 100_000\ninterval_above_ms = 1").expect("by bytes, then by age");
        load("interval_above_ms = 1\n[[class]]\nname = \"a\"\nusers = [\"*\"]\nbytes_per_second = 5_000")
            .expect("those of the class are sent the newest values");
        for (text, keys) in [
            ("interval_above_ms = 2_000", ["interval_above_ms", "conflate_above_ms", "2000 ms"]),
            (
                "interval_above_ms = 2_000\nconflate_above_ms = 2_000",
                ["interval_above_ms", "conflate_above_ms", "2000 ms"],
            ),
            (
                "interval_above_ms = 3_000\nconflate_above_ms = 2_000\ndisconnect_after_ms = 2_500",
                ["interval_above_ms", "disconnect_after_ms", "2500 ms"],
            ),
            ("interval_max_ms = 249", ["interval_max_ms", "250", "3600000"]),
        ] {
            let error = load(text).expect_err("out of order");
            assert!(keys.iter().all(|key| error.contains(key)), "{text}: {error}");
        }
    }

    #[test]
    fn a_user_is_of_the_first_class_that_names_it() {
        let text = "conflated_intervals_ms = [100, 1_000]\n\
                    [[class]]\nname = \"desk\"\nusers = [\"desk-*\", \"ann\"]\nupdate_interval_ms = 250\n\
                    [[class]]\nname = \"others\"\nusers = [\"*\"]\nstreams_max = 10\nconnections_max = 3\n\
                    bytes_per_second = 20_000\npriority = 2";
        let load = |text: &str| config::Loader::new::<P2psConfig>().file("p2ps.toml", text).load();
        let core = load(text).expect("legal").value.core();
        assert_eq!(core.conflated_intervals_ms, [100, 1_000]);
        let class = |user: &str| core.classes.of(user).and_then(|at| Some(&*core.classes.get(at)?.name));
        assert_eq!(
            ["desk-1", "ann", "anna", ""].map(class),
            [Some("desk"), Some("desk"), Some("others"), Some("others")]
        );
        let others = core.classes.get(1).expect("there are two");
        assert_eq!((others.interval_ms, others.streams_max, others.connections_max), (0, 10, 3));
        assert_eq!(others.bytes_per_second, 20_000);
        assert_eq!(
            (others.priority, core.classes.get(0).map(|desk| desk.priority)),
            (2, Some(PRIORITY_DEFAULT))
        );
        for priority in ["priority = 0", "priority = 10"] {
            let error = load(&text.replace("priority = 2", priority)).expect_err("out of range").to_string();
            assert!(error.contains("priority") && error.contains("1 to 9"), "{error}");
        }
        assert_eq!(PRIORITY_MAX, 9);
        let slow = load(&text.replace("20_000", "4_095")).expect_err("too slow").to_string();
        assert!(slow.contains("4095 bytes a second") && slow.contains("4096 to 1000000000"), "{slow}");
        let twins = load(&text.replace("others", "desk")).expect_err("twice").to_string();
        assert!(twins.contains("each class has a name of its own"), "{twins}");
        let star = load(&text.replace("desk-*", "d*sk")).expect_err("a star within").to_string();
        assert!(star.contains("not as in `d*sk`"), "{star}");
    }

    #[test]
    fn a_service_has_one_rate_at_most() {
        let load = |text: &str| config::Loader::new::<P2psConfig>().file("p2ps.toml", text).load();
        let text = "[[service_rate]]\nservice = \"A\"\nupdate_interval_ms = 500\n\
                    [[service_rate]]\nservice = \"B\"\nupdate_interval_ms = 1\n";
        let core = load(text).expect("legal").value.core();
        let rates = core.service_intervals_ms.iter().map(|(service, ms)| (service.as_str(), *ms));
        assert_eq!(rates.collect::<Vec<_>>(), [("A", 500), ("B", 1)]);
        let twice = load(&text.replace('B', "A")).expect_err("two rates").to_string();
        assert!(twice.contains("p2ps.toml:5:11") && twice.contains("`A` has a rate already"), "{twice}");
        for (wrong, expected) in [
            (text.replace("500", "0"), "1 to 65535"),
            (text.replace("500", "65536"), "1 to 65535"),
            (text.replace("service = \"A\"\n", ""), "service"),
            (text.replace("update_interval_ms = 1\n", ""), "update_interval_ms"),
            (text.replace("\"A\"", "\"\""), "service"),
        ] {
            let error = load(&wrong).expect_err("wrong").to_string();
            assert!(error.contains(expected), "{wrong}: {error}");
        }
    }

    #[test]
    fn there_are_as_many_shards_as_cpus_but_one_unless_somebody_says_how_many() {
        let count = |text: &str, cpus: usize| {
            let loaded = config::Loader::new::<P2psConfig>().file("p2ps.toml", text).load();
            loaded.expect("legal").value.shard_count_on(|| cpus)
        };
        assert_eq!([1, 2, 3, 4, 16, 65, 200].map(|cpus| count("", cpus)), [1, 1, 2, 3, 15, 64, 64]);
        assert_eq!([1, 16].map(|cpus| count("shards = 3", cpus)), [3, 3]);
        assert_eq!((count("shard_cpus = [4, 5]", 16), count("shard_cpus = [4]\nshards = 2", 16)), (2, 2));
        let error = load("shards = 1\nshard_cpus = [1, 2]").expect_err("too many");
        assert!(error.contains("2 CPUs for 1 threads"), "{error}");
        let error = load("shard_cpus = [1]").expect_err("there are no shards");
        assert!(error.contains("p2ps.thread.cpu"), "{error}");
    }

    #[test]
    fn upstream_servers_have_names_and_a_thread_of_their_own() {
        let one = "[[upstream]]\nname = \"a\"\nhosts = [\"h:1\"]\n";
        let loaded = config::Loader::new::<P2psConfig>().file("p2ps.toml", one).load();
        let config = loaded.expect("legal").value;
        assert_eq!([2, 3, 4].map(|cpus| config.shard_count_on(|| cpus)), [1, 1, 2]);
        let error = load(&format!("{one}{one}")).expect_err("twins");
        assert!(error.contains("p2ps.toml:5:8: each provider has a name of its own"), "{error}");
    }

    #[test]
    fn steps_have_to_be_in_order() {
        let error = load("conflate_above_bytes = 8_388_608\nconflated_room_bytes = 8_388_608")
            .expect_err("no hysteresis");
        assert!(error.contains("conflated_room_bytes"), "{error}");
        for text in [
            "conflate_above_bytes = 67_108_864",
            "conflate_above_bytes = 70_000\n[rssl]\nbacklog_max_bytes = 65_536",
            "conflate_above_bytes = 70_000\n[websocket]\nbacklog_max_bytes = 65_536",
            "conflate_above_ms = 5_000\nconflated_room_bytes = 17_179_869_184",
        ] {
            let error = load(text).expect_err("disconnected first");
            assert!(error.contains("backlog_max_bytes"), "{error}");
        }
        load("conflate_above_bytes = 70_000\nwebsocket_port = 0\n[websocket]\nbacklog_max_bytes = 65_536")
            .expect("there is no such port");
        let error =
            load("conflate_above_ms = 5_000\ndisconnect_after_ms = 5_000").expect_err("no time to conflate");
        assert!(error.contains("disconnect_after_ms"), "{error}");
    }
}
