use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use client::{DialledConfig, HostPort, Identity};
use config::Complaint;
use daemon::ThreadConfig;
use market::backbone::HopPart;
use market::distributor::{Balance, DialSpec, DistributorConfig, FlowConfig, PostRoute};
use server::rssl::RsslConfig;

config::choice! {
    /// What becomes of posts of clients.
    pub enum PostsConfig {
        /// They go to the interactive provider; where there is none that takes posts they are refused.
        Provider = "provider",
        /// They change the cached item, and go out as updates of it.
        Cache = "cache",
        /// They are refused.
        Refuse = "refuse",
    }
}

config::section! {
    /// A service and its id in the whole system.
    pub struct ServiceConfig {
        /// Name, as providers and consumers have it. No longer, because the name of its topic on the backbone,
        /// `tickcast.service.NAME`, has 255 bytes at most.
        name: String, required, length 1..=238;
        /// Number by which message keys name it.
        id: u16, required;
        /// What becomes of posts to it.
        posts: PostsConfig = PostsConfig::Provider;
        /// Whether an update moves a field's old value to the field that it ripples to by the dictionary, if
        /// the image has that. P2PSs have to be told the same: `p2ps.services_without_ripples`.
        ripples: bool = true;
    }
}

config::choice! {
    /// Which of several interactive providers of a service is asked for an item.
    pub enum BalanceConfig {
        /// The one that says it is least busy; among equals the one with the fewest items.
        Load = "load",
        /// Each in its turn.
        RoundRobin = "round-robin",
    }
}

config::section! {
    /// A service that has another name here than where it comes from.
    pub struct RenamedServiceConfig {
        /// Its name there.
        theirs: String, required, length 1..=255;
        /// Its name here.
        ours: String, required, length 1..=238;
    }
}

config::section! {
    /// An interactive provider: it is dialled, and asked for items one by one.
    pub struct InteractiveConfig {
        /// What logs and status pages call it.
        name: String, required, length 1..=255;
        /// Where it listens: hosts of one provider, tried in turn.
        hosts: Vec<HostPort>, required, length 1..=64;
        /// The services that are taken from it, by their names there; all that it has if there are none.
        services: Vec<String> = [], length 0..=1_000;
        /// Services that have another name here.
        renamed: Vec<RenamedServiceConfig>;
        /// It is connected to, and asked for items only while no other that has their service can be. What it has by then
        /// it keeps when another is back.
        standby: bool = false;
        /// Name of the user that logs in; the name of the user that runs the process if it is empty.
        user: String = "", length 0..=255;
        /// File whose first line is the password to log in with; none is sent if it is not set.
        password_file: Option<String> = None;
        /// Id of the application in the permission system.
        application_id: String = "256", length 1..=255;
        /// Name of the application.
        application_name: String = "tickcast", length 0..=255;
        /// Where the user sits, as address/host or address/net; address and name of this host if it is empty.
        position: String = "", length 0..=255;
        /// The connection.
        connection: DialledConfig;
    }
}

impl PostsConfig {
    fn route(self) -> PostRoute {
        match self {
            PostsConfig::Provider => PostRoute::Provider,
            PostsConfig::Cache => PostRoute::Cache,
            PostsConfig::Refuse => PostRoute::Refuse,
        }
    }
}

impl InteractiveConfig {
    /// What is wrong with a list of them, `key` by name.
    ///
    /// # Errors
    /// Each complaint names the key.
    pub fn check_all(key: &str, list: &[InteractiveConfig]) -> Result<(), Vec<Complaint>> {
        let mut complaints = Vec::new();
        let mut names = HashSet::new();
        for (at, one) in list.iter().enumerate() {
            if !names.insert(&one.name) {
                let text = "each provider has a name of its own";
                complaints.push(Complaint::new([format!("{key}.{at}.name")], text));
            }
            let (mut theirs, mut ours) = (HashSet::new(), HashSet::new());
            for (place, renamed) in one.renamed.iter().enumerate() {
                let key = |name: &str| format!("{key}.{at}.renamed.{place}.{name}");
                if !theirs.insert(&renamed.theirs) {
                    let text = format!("`{}` has another name already", renamed.theirs);
                    complaints.push(Complaint::new([key("theirs")], text));
                }
                if !ours.insert(&renamed.ours) {
                    let text = format!("another service of this provider is `{}` already", renamed.ours);
                    complaints.push(Complaint::new([key("ours")], text));
                }
                if !one.services.is_empty() && !one.services.contains(&renamed.theirs) {
                    let text = format!("`{}` is not among the services that are taken", renamed.theirs);
                    complaints.push(Complaint::new([key("theirs")], text));
                }
            }
        }
        if complaints.is_empty() { Ok(()) } else { Err(complaints) }
    }

    /// What the core is told about it.
    pub(crate) fn spec(&self, identity: &Identity) -> DialSpec {
        DialSpec {
            name: self.name.clone(),
            user: identity.user_or(&self.user),
            password: identity.password.clone(),
            application_id: self.application_id.clone(),
            application_name: self.application_name.clone(),
            position: identity.position_or(&self.position),
            services: self.services.clone(),
            is_standby: self.standby,
            renamed: self.renamed.iter().map(|r| (r.theirs.clone(), r.ours.clone())).collect(),
        }
    }
}

config::section! {
    /// Items of interactive providers: how they are asked for, and shared among several of one service.
    pub struct RequestsConfig {
        /// Which of several providers of a service is asked for an item.
        balance: BalanceConfig = BalanceConfig::Load;
        /// An item that nobody wants any more is closed after this time.
        linger_ms: u64 = 5_000, range 0..=3_600_000;
        /// Longest wait for an image, and for each further part of it; then it is asked for again.
        timeout_ms: u64 = 15_000, range 100..=3_600_000;
        /// Most requests that wait for an answer, for each service of each provider.
        outstanding_max: u32 = 1_000, range 1..=1_000_000;
        /// An item that its provider has closed for now is asked for again after this time.
        retry_ms: u64 = 5_000, range 1..=3_600_000;
        /// Longest wait until a provider has answered login and directory request; then it is dialled again.
        login_timeout_ms: u64 = 15_000, range 100..=3_600_000;
        /// Longest wait for the acknowledgement of a post; then it is refused.
        post_timeout_ms: u64 = 15_000, range 100..=3_600_000;
        /// Most posts that wait for the acknowledgement of a provider; more are refused.
        posts_outstanding_max: u32 = 100_000, range 1..=16_777_216;
        /// Most private streams; more are refused.
        private_streams_max: u32 = 100_000, range 0..=16_777_216;
    }
}

config::section! {
    /// How providers are held back when P2PSs do not take what is published as fast as it comes
    /// (docs/operating.md, Overload).
    pub struct FlowControlConfig {
        /// Providers are held back when a P2PS lacks more than so many bytes of what was published; 0 for never.
        /// At most a quarter of `messaging.lbtrm.transmission_window_size_bytes`, so that what the P2PS
        /// lacks can still be repaired.
        window_bytes: u64 = 8_388_608, range 0..=1_073_741_824;
        /// A P2PS that takes less than so much, in bytes a second, while providers are held back for it is left
        /// behind: it loses messages, and the others go on.
        rate_floor_bytes_per_second: u64 = 1_000_000, range 0..=1_000_000_000_000;
        /// A P2PS's rate is measured over so long a time; for as long it can hold up the others at most before
        /// it is left behind.
        patience_ms: u64 = 1_000, range 10..=600_000;
    }
}

config::section! {
    /// Images on disk, from which a source distributor that is started again has its items until providers publish them
    /// (docs/guides/saved-images.md).
    pub struct SavedImagesConfig {
        /// Where they are kept; nothing is if it is not set. Beside it there are FILE.new and FILE.lock. Each source
        /// distributor has a file of its own.
        file: Option<String> = None, length 1..=4096;
        /// The file is written anew after this time.
        interval_ms: u64 = 10_000, range 100..=86_400_000;
        /// One that is older is not used at the start, in seconds.
        age_max_s: u64 = 86_400, range 1..=31_536_000;
        /// A longer file is neither written nor read.
        bytes_max: u64 = 4_294_967_296, range 1_048_576..=1_099_511_627_776;
    }
}

config::section! {
    /// The source distributor: providers connect here, the backbone starts here.
    pub struct SourceDistributorConfig {
        /// Port on which non-interactive providers connect.
        provider_port: u16 = 14003;
        /// How provider connections are treated.
        provider: RsslConfig;
        /// File with the users that providers which connect may log in as (docs/users.md), read again when it
        /// changes; everybody may if it is not set.
        users_file: Option<String> = None, length 1..=4096;
        /// Interactive providers, which are dialled.
        interactive: Vec<InteractiveConfig>;
        /// Items of interactive providers.
        requests: RequestsConfig;
        /// Ids of services. A service that is not listed keeps the id its provider gives it, if that is free.
        services: Vec<ServiceConfig>;
        /// Services of whose items no images are kept here, `*` for all (docs/guides/caches.md): interactive providers
        /// are asked for an image each time that a P2PS wants one. Services of providers that connect keep theirs, since
        /// these cannot be asked, and so do those with `posts = "cache"`.
        services_without_cache: Vec<String> = [], length 0..=1_000;
        /// The directory, and the end of each silent stream, are said again after this time.
        heartbeat_interval_ms: u64 = 250, range 10..=10_000;
        /// For so long after a service came up, requests for items that are not published yet wait; later
        /// they are refused at once.
        settle_time_ms: u64 = 5_000, range 0..=600_000;
        /// Of several non-interactive providers that publish an item, the one that it comes from gives way to another when
        /// nothing at all came of it while others have published something for so long.
        provider_silence_ms: u64 = 800, range 100..=600_000;
        /// How many messages of a stream are remembered, to tell which items a lost range concerned; 4 bytes
        /// each.
        gap_memory_count: u32 = 1_048_576, range 16..=268_435_456;
        /// Most services, those whose provider is gone included. A directory, of a provider or of this source
        /// distributor for P2PSs, lists at most 4,096; one that lists more is refused.
        services_max: u32 = 1_000, range 1..=4_096;
        /// Most items in the cache.
        items_max: u64 = 5_000_000, range 1..=60_000_000;
        /// Where many items are concerned at once, because a provider or a P2PS has gone, so many of them are dealt
        /// with before others are served again.
        cleanups_per_turn: u32 = 2_000, range 1..=1_000_000;
        /// Whether each update carries hop stamps: when this process has read and published it. P2PSs then measure
        /// how long updates take from hop to hop (docs/guides/trace.md). The clocks of all hosts have to be
        /// synchronised, by PTP or NTP.
        hop_stamps: bool = false;
        /// How providers are held back for P2PSs that are behind.
        flow: FlowControlConfig;
        /// Images on disk for the next run.
        saved_images: SavedImagesConfig;
        /// Longest time from SIGTERM to the end, for providers to take what waits for them.
        shutdown_timeout_ms: u32 = 3_000, range 0..=600_000;
        /// The thread.
        thread: ThreadConfig;
    }
    check = SourceDistributorConfig::check;
}

/// What the names end in of files beside one of saved images.
const BESIDE: [&str; 2] = [".new", ".lock"];

impl SourceDistributorConfig {
    fn check(&self) -> Result<(), Vec<Complaint>> {
        let mut complaints =
            InteractiveConfig::check_all("interactive", &self.interactive).err().unwrap_or_default();
        let (mut names, mut ids) = (HashSet::new(), HashSet::new());
        for (at, service) in self.services.iter().enumerate() {
            if !names.insert(&service.name) {
                let text = format!("`{}` is listed already", service.name);
                complaints.push(Complaint::new([format!("services.{at}.name")], text));
            }
            if !ids.insert(service.id) {
                let text = format!("{} is the id of another service", service.id);
                complaints.push(Complaint::new([format!("services.{at}.id")], text));
            }
        }
        if let Some(file) = &self.saved_images.file
            && BESIDE.iter().any(|beside| file.ends_with(beside))
        {
            let text = format!(
                "`{file}`: a name that ends in {} is that of what stands beside another file, choose another one",
                BESIDE.join(" or ")
            );
            complaints.push(Complaint::new(["saved_images.file"], text));
        }
        if complaints.is_empty() { Ok(()) } else { Err(complaints) }
    }

    /// What the core goes by.
    #[must_use]
    pub fn core(&self) -> DistributorConfig {
        let service_ids: BTreeMap<String, u16> =
            self.services.iter().map(|s| (s.name.clone(), s.id)).collect();
        let requests = &self.requests;
        DistributorConfig {
            service_ids,
            heartbeat_interval: Duration::from_millis(self.heartbeat_interval_ms),
            settle_time: Duration::from_millis(self.settle_time_ms),
            provider_silence: Duration::from_millis(self.provider_silence_ms),
            gap_memory: self.gap_memory_count as usize,
            services_max: self.services_max as usize,
            items_max: self.items_max as usize,
            cleanups_per_turn: self.cleanups_per_turn as usize,
            balance: match requests.balance {
                BalanceConfig::Load => Balance::Load,
                BalanceConfig::RoundRobin => Balance::RoundRobin,
            },
            item_linger: Duration::from_millis(requests.linger_ms),
            request_timeout: Duration::from_millis(requests.timeout_ms),
            requests_outstanding_max: requests.outstanding_max as usize,
            item_retry: Duration::from_millis(requests.retry_ms),
            login_timeout: Duration::from_millis(requests.login_timeout_ms),
            posts: self.services.iter().map(|s| (s.name.clone(), s.posts.route())).collect(),
            unrippled: self.services.iter().filter(|s| !s.ripples).map(|s| s.name.clone()).collect(),
            uncached: self.services_without_cache.iter().cloned().collect(),
            posts_outstanding_max: requests.posts_outstanding_max as usize,
            post_timeout: Duration::from_millis(requests.post_timeout_ms),
            private_streams_max: requests.private_streams_max as usize,
            flow: FlowConfig {
                window_bytes: self.flow.window_bytes,
                floor: self.flow.rate_floor_bytes_per_second,
                patience: Duration::from_millis(self.flow.patience_ms),
            },
            stamp_bytes: if self.hop_stamps { HopPart::DISTRIBUTOR_BYTES } else { 0 },
            ..DistributorConfig::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(file: &str) -> Result<SourceDistributorConfig, config::Faults> {
        config::Loader::new::<SourceDistributorConfig>().file("d.toml", file).load().map(|l| l.value)
    }

    #[test]
    fn saved_images_stand_beside_nobody_s() {
        for name in ["images.new", "images.lock"] {
            let refused =
                load(&format!("[saved_images]\nfile = \"/var/lib/{name}\"")).expect_err(name).to_string();
            assert!(refused.contains(name) && refused.contains("choose another one"), "{refused}");
        }
        assert!(load("[saved_images]\nfile = \"/var/lib/images.new.1\"").is_ok());
    }

    #[test]
    fn the_declaration_is_sound_and_its_defaults_are_the_core_s() {
        assert_eq!(config::audit::<SourceDistributorConfig>(), Vec::<String>::new());
        let ours = load("").expect("legal").core();
        assert_eq!(format!("{ours:?}"), format!("{:?}", DistributorConfig::default()));
    }

    #[test]
    fn each_service_says_what_becomes_of_its_posts() {
        let file =
            "[[services]]\nname = \"A\"\nid = 1\nposts = \"cache\"\n[[services]]\nname = \"B\"\nid = 2\n";
        let posts = load(file).expect("legal").core().posts;
        assert_eq!((posts["A"], posts["B"]), (PostRoute::Cache, PostRoute::Provider));
    }

    #[test]
    fn updates_are_stamped_only_if_that_is_wanted() {
        let stamp_bytes = |file| load(file).expect("legal").core().stamp_bytes;
        assert_eq!((stamp_bytes(""), stamp_bytes("hop_stamps = true")), (0, 20));
    }

    #[test]
    fn a_service_has_a_name_that_can_be_that_of_a_topic() {
        let named = |bytes: usize| format!("[[services]]\nname = \"{}\"\nid = 1\n", "S".repeat(bytes));
        assert!(load(&named(238)).is_ok());
        let said = load(&named(239)).expect_err("no topic").to_string();
        assert!(said.contains("services.0.name") && said.contains("238"), "{said}");
    }

    #[test]
    fn a_service_of_a_provider_has_one_other_name_that_no_other_has() {
        let provider = "[[interactive]]\nname = \"a\"\nhosts = [\"h:1\"]\n";
        let renamed = |theirs: &str, ours: &str| {
            format!("[[interactive.renamed]]\ntheirs = \"{theirs}\"\nours = \"{ours}\"\n")
        };
        let config = load(&format!("{provider}{}{}", renamed("A", "B"), renamed("B", "A"))).expect("legal");
        let names = config.interactive[0].spec(&Identity::default()).renamed;
        assert_eq!((names["A"].as_str(), names["B"].as_str()), ("B", "A"));
        for (more, said) in [
            (renamed("A", "B") + &renamed("A", "C"), "`A` has another name already"),
            (renamed("A", "B") + &renamed("C", "B"), "is `B` already"),
            ("services = [\"C\"]\n".to_owned() + &renamed("A", "B"), "`A` is not among the services"),
        ] {
            let error = load(&format!("{provider}{more}")).expect_err("refused").to_string();
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn services_have_names_and_ids_of_their_own() {
        let service = |name: &str, id: u16| format!("[[services]]\nname = \"{name}\"\nid = {id}\n");
        assert!(load(&(service("A", 1) + &service("B", 2))).is_ok());
        for (second, said) in
            [(service("A", 2), "`A` is listed already"), (service("B", 1), "1 is the id of another service")]
        {
            let error = load(&(service("A", 1) + &second)).expect_err("twins").to_string();
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn interactive_providers_have_hosts_and_names_of_their_own() {
        let two = "[[interactive]]\nname = \"a\"\nhosts = [\"h:1\", \"i:2\"]\nservices = [\"S\"]\n\
                   [[interactive]]\nname = \"b\"\nhosts = [\"h:1\"]\nconnection.ping_timeout_s = 9\n";
        let config = load(two).expect("legal");
        let spec = config.interactive[0].spec(&Identity::default());
        assert_eq!((spec.name.as_str(), spec.services.as_slice()), ("a", &["S".to_owned()][..]));
        assert_eq!(config.interactive[1].connection.ping_timeout_s, 9);
        assert_eq!(load(&two.replace("\"b\"", "\"a\"")).expect_err("twins").as_slice().len(), 1);
        assert!(load("[[interactive]]\nname = \"a\"\n").is_err());
    }
}
