//! All sections of the configuration, and the layers they are loaded from.

use std::fs::File;
use std::io::{self, Read as _};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::time::Duration;

use backbone::BackboneConfig;
use config::{Loaded, Loader};
use feed::FeedConfig;
use messaging::MessagingConfig;
use net::small_file;
use p2ps::P2psConfig;
use resolver_daemon::ResolverDaemonConfig;
use source_distributor::SourceDistributorConfig;

use crate::failure::Failure;
use crate::log::{LOG_VARIABLE, LogConfig};

config::section! {
    /// Tickcast. Each daemon reads the sections that concern it; one file may serve several.
    pub struct RootConfig {
        /// The feed.
        feed: FeedConfig;
        /// The source distributor.
        source_distributor: SourceDistributorConfig;
        /// The point-to-point server.
        p2ps: P2psConfig;
        /// Keys and certificates of the backbone between them.
        backbone: BackboneConfig;
        /// The backbone between them.
        messaging: MessagingConfig;
        /// The unicast resolver.
        resolver: ResolverDaemonConfig;
        /// The data dictionary.
        dictionary: DictionaryConfig;
        /// What operators see.
        admin: AdminConfig;
        /// The log.
        log: LogConfig;
    }
    check = RootConfig::check;
}

/// The kernel notices a peer that has vanished after two seconds at the earliest.
const VANISHED_MIN_US: u64 = 2_000_000;

impl RootConfig {
    /// Keys and certificates of the backbone are said in one place.
    fn check(&self) -> Result<(), Vec<config::Complaint>> {
        let mut complaints = self.check_admin_port();
        let rivals = self.backbone.rivals(&self.messaging);
        let complain = |key: &str| {
            let text = format!("[backbone] sets {key} for the daemons: leave one of them out");
            config::Complaint::new([format!("messaging.{key}"), "backbone.certificate_file".to_owned()], text)
        };
        complaints.extend(rivals.into_iter().map(complain));
        if complaints.is_empty() { Ok(()) } else { Err(complaints) }
    }

    /// One port cannot be that of operators and another one too, at the same address.
    fn check_admin_port(&self) -> Vec<config::Complaint> {
        let Some(port) = self.admin.port else { return Vec::new() };
        let admin = SocketAddrV4::new(self.admin.interface, port);
        let (p2ps, distributor) = (&self.p2ps, &self.source_distributor);
        let ports = [
            ("p2ps.rssl_port", p2ps.rssl_port, p2ps.rssl.interface),
            ("p2ps.websocket_port", p2ps.websocket_port, p2ps.websocket.interface),
            ("source_distributor.provider_port", distributor.provider_port, distributor.provider.interface),
        ];
        let taken = ports
            .into_iter()
            .filter(|(_, port, interface)| net::tcp::collide(admin, SocketAddrV4::new(*interface, *port)));
        let complain = |(key, ..): (&str, u16, Ipv4Addr)| {
            let text = format!("port {port} is that of {key} as well");
            config::Complaint::new(["admin.port", key], text)
        };
        taken.map(complain).collect()
    }

    /// Longest time that a daemon gives its clients at its end. `section` is what it is configured by.
    pub(crate) fn longest_end(&self, section: &str) -> Duration {
        let own = |ms: u32| Duration::from_millis(ms.into());
        let distributor = own(self.source_distributor.shutdown_timeout_ms);
        if section != "p2ps" {
            return distributor;
        }
        // What feeds its clients ends behind them.
        let feeds = if self.p2ps.upstream.is_empty() { Duration::ZERO } else { distributor };
        self.p2ps.longest_drain() + own(self.p2ps.shutdown_timeout_ms) + feeds
    }

    /// The options of a daemon's context on the backbone.
    pub(crate) fn backbone_context(&self) -> MessagingConfig {
        self.backbone.applied_to(&self.messaging)
    }

    /// The same for a P2PS: a source distributor that is heard, but hears nothing, does not acknowledge what comes over a
    /// link, and is as good as gone. The kernel counts from the first retransmission, half a second behind what was not
    /// acknowledged. So with a third of the time that the P2PS waits for a directory, one is noticed about as soon as the
    /// other.
    pub(crate) fn p2ps_context(&self) -> MessagingConfig {
        let mut config = self.backbone_context();
        if config.request_tcp_unacknowledged_timeout_us == 0 {
            config.request_tcp_unacknowledged_timeout_us = self.p2ps.silence_timeout_ms * 1_000 / 3;
        }
        // A session over TCP whose peer answers nothing is of no use beyond that time either: what it sends is lost to
        // this server already, and its kernel waits longer and longer before it sends again. A new connection does not.
        let gone_us = (3_000 * self.p2ps.silence_timeout_ms).max(VANISHED_MIN_US);
        config.tcp.activity_timeout_us = config.tcp.activity_timeout_us.min(gone_us);
        config.tcp.connect_timeout_us = config.tcp.connect_timeout_us.min(gone_us);
        config
    }

    /// What a unicast resolver is told.
    pub(crate) fn resolver(&self) -> ResolverDaemonConfig {
        let of_backbone = || self.backbone.authentication_key_file.clone();
        let authentication_key_file = self.resolver.authentication_key_file.clone().or_else(of_backbone);
        ResolverDaemonConfig { authentication_key_file, ..self.resolver.clone() }
    }
}

config::section! {
    /// The data dictionary: Tickcast's own small one, or the files of a vendor.
    pub struct DictionaryConfig {
        /// Field definitions, in the form of RDMFieldDictionary.
        fields_file: Option<String> = None;
        /// Enumerations, in the form of enumtype.def.
        enums_file: Option<String> = None;
    }
    check = DictionaryConfig::check;
}

impl DictionaryConfig {
    fn check(&self) -> Result<(), Vec<config::Complaint>> {
        if self.fields_file.is_some() == self.enums_file.is_some() {
            return Ok(());
        }
        let keys = ["fields_file", "enums_file"];
        Err(vec![config::Complaint::new(keys, "give both files or neither")])
    }
}

config::section! {
    /// What operators see: health, metrics and status over HTTP, and counters in a file for `tickcast counters`.
    pub struct AdminConfig {
        /// Address to listen on.
        interface: Ipv4Addr = Ipv4Addr::LOCALHOST;
        /// Port to listen on; none if it is not given.
        port: Option<u16> = None;
        /// Whether who reaches the port may disconnect clients, with `tickcast top` or POST /disconnect, and drain a P2PS,
        /// with `tickcast admin` or POST /drain; if it is not given, only where the port listens on a loopback address.
        disconnects: Option<bool> = None;
        /// Whether /status?item=NAME shows the image of an item, that is market data to everybody who reaches the port; if
        /// it is not given, only where the port listens on a loopback address.
        images: Option<bool> = None;
        /// A thread that has not turned for so long is taken for stuck: /health says so, and systemd's watchdog is not
        /// fed.
        turn_limit_ms: u32 = 1_000, range 500..=3_600_000;
        /// Directory of the file of counters, in memory; none is written if it is empty.
        counters_directory: String = "/dev/shm";
        /// How often counters are copied into that file.
        counters_interval_ms: u32 = 1_000, range 10..=3_600_000;
    }
}

impl AdminConfig {
    /// Whether images of items are shown through the port.
    pub(crate) fn shows_images(&self) -> bool {
        self.images.unwrap_or(self.interface.is_loopback())
    }

    /// Whether clients may be disconnected through the port.
    pub(crate) fn allows_disconnects(&self) -> bool {
        self.disconnects.unwrap_or(self.interface.is_loopback())
    }
}

/// Loads the configuration from a file, the environment and `--set` flags.
pub(crate) fn load(file: Option<&Path>, sets: &[String]) -> Result<Loaded<RootConfig>, Failure> {
    load_by(read_any, file, sets)
}

/// Reads at most so many bytes of a file.
type Read = fn(&Path, u64) -> io::Result<Vec<u8>>;

/// Reads a file or a pipe, such as a shell makes of `<(...)`, for who waits for it.
fn read_any(path: &Path, max: u64) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    File::open(path)?.take(max + 1).read_to_end(&mut text)?;
    // The loader refuses one that is longer.
    Ok(text)
}

fn load_by(read: Read, file: Option<&Path>, sets: &[String]) -> Result<Loaded<RootConfig>, Failure> {
    let mut loader = Loader::new::<RootConfig>();
    if let Some(path) = file {
        let text = read(path, config::TEXT_BYTES_MAX as u64)
            .map_err(|e| Failure::Config(format!("cannot read the configuration {}: {e}", path.display())))?;
        loader = loader.file(path.display().to_string(), text);
    }
    loader = loader.environment(std::env::vars_os()).reserve_variables([LOG_VARIABLE]);
    for set in sets {
        loader = loader.set(set);
    }
    loader.load().map_err(|faults| Failure::Config(faults.to_string()))
}

/// Where a daemon's configuration comes from.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ConfigArgs {
    /// Configuration file (TOML). Without one the defaults count; `tickcast config reference` explains every
    /// key.
    #[arg(long, short, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Sets one key, over file and environment: --set p2ps.rssl_port=14012. Repeatable.
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
}

impl ConfigArgs {
    pub(crate) fn load(&self) -> Result<Loaded<RootConfig>, Failure> {
        load(self.config.as_deref(), &self.set)
    }

    /// The same while a daemon runs: from a regular file only. Another one could have no end, or nobody who writes it.
    pub(crate) fn load_again(&self) -> Result<Loaded<RootConfig>, Failure> {
        load_by(small_file::read, self.config.as_deref(), &self.set)
    }
}

/// The same for commands about a configuration, which take its file as their argument too.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct FileArgs {
    /// The configuration file, as with --config.
    #[arg(value_name = "FILE", conflicts_with = "config")]
    file: Option<PathBuf>,
    #[command(flatten)]
    args: ConfigArgs,
}

impl FileArgs {
    pub(crate) fn path(&self) -> Option<&Path> {
        self.file.as_deref().or(self.args.config.as_deref())
    }

    pub(crate) fn load(&self) -> Result<Loaded<RootConfig>, Failure> {
        load(self.path(), &self.args.set)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_declarations_of_all_sections_are_sound() {
        assert_eq!(config::audit::<RootConfig>(), [""; 0]);
    }

    #[test]
    fn a_file_without_an_end_is_refused_at_the_start_and_one_that_is_none_while_a_daemon_runs() {
        let args = |file: &str| ConfigArgs { config: Some(file.into()), set: Vec::new() };
        let error = args("/dev/zero").load().expect_err("too long").to_string();
        assert!(error.contains("the limit is 1048576"), "{error}");
        assert!(args("/dev/null").load().is_ok(), "it is empty");
        let error = args("/dev/null").load_again().expect_err("no file").to_string();
        assert!(error.contains("/dev/null: it is no regular file"), "{error}");
    }

    #[test]
    fn the_defaults_load() {
        load(None, &[]).expect("the defaults go together");
    }

    fn load_with(sets: &[&str]) -> Result<RootConfig, String> {
        let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
        load(None, &sets).map(|loaded| loaded.value).map_err(|failure| failure.to_string())
    }

    #[test]
    fn the_end_of_a_daemon_takes_as_long_as_its_clients_are_given_one_after_the_other() {
        let ends =
            |sets: &[&str], section: &str| load_with(sets).expect("whole").longest_end(section).as_millis();
        let timeouts = ["p2ps.shutdown_timeout_ms=5000", "source_distributor.shutdown_timeout_ms=700"];
        assert_eq!(
            (ends(&timeouts, "p2ps"), ends(&timeouts, "source_distributor"), ends(&timeouts, "resolver")),
            (5_000, 700, 700)
        );
        let drains = [&timeouts[..], &["p2ps.drain_ms=60000"]].concat();
        assert_eq!(
            (ends(&drains, "p2ps"), ends(&drains, "source_distributor")),
            (60_000 + 7_000 + 5_000, 700)
        );
        let upstream = "p2ps.upstream=[{ name = \"a\", hosts = [\"h:1\"] }]";
        assert_eq!(ends(&[&timeouts[..], &[upstream]].concat(), "p2ps"), 5_700);
    }

    #[test]
    fn a_p2ps_gives_a_link_up_on_which_nothing_is_acknowledged() {
        let key = "messaging.request_tcp_unacknowledged_timeout_us";
        let timeout = |sets: &[&str]| {
            let config = load_with(sets).expect("whole");
            let of = |context: MessagingConfig| context.request_tcp_unacknowledged_timeout_us;
            (of(config.p2ps_context()), of(config.backbone_context()))
        };
        assert_eq!(timeout(&["p2ps.silence_timeout_ms=900"]), (300_000, 0));
        assert_eq!(timeout(&[&format!("{key}=5000000")]), (5_000_000, 5_000_000));
        let of_sessions = |sets: &[&str]| {
            let tcp = load_with(sets).expect("whole").p2ps_context().tcp;
            (tcp.activity_timeout_us, tcp.connect_timeout_us)
        };
        assert_eq!(of_sessions(&["p2ps.silence_timeout_ms=900"]), (2_700_000, 2_700_000));
        let own = ["messaging.tcp.activity_timeout_us=0", "messaging.tcp.connect_timeout_us=500000"];
        assert_eq!(of_sessions(&own), (0, 500_000));
        assert!(load_with(&[&format!("{key}=600000001")]).is_err_and(|error| error.contains(key)));
    }

    #[test]
    fn a_port_is_that_of_one_thing() {
        for (sets, said) in [
            (["p2ps.rssl_port=7000", "p2ps.websocket_port=7000"], "port 7000 cannot be both"),
            (["p2ps.rssl_port=7000", "admin.port=7000"], "port 7000 is that of p2ps.rssl_port"),
            (["p2ps.websocket_port=7000", "admin.port=7000"], "port 7000 is that of p2ps.websocket_port"),
            (
                ["source_distributor.provider_port=7000", "admin.port=7000"],
                "source_distributor.provider_port",
            ),
        ] {
            assert!(load_with(&sets).is_err_and(|error| error.contains(said)), "{sets:?}");
        }
        for good in [["p2ps.rssl_port=0", "p2ps.websocket_port=0"], ["p2ps.rssl_port=0", "admin.port=0"]] {
            assert!(load_with(&good).is_ok(), "{good:?}");
        }
        let apart = ["p2ps.rssl_port=7000", "admin.port=7000", "p2ps.rssl.interface=127.0.0.2"];
        assert!(load_with(&apart).is_ok());
    }

    #[test]
    fn keys_of_the_backbone_are_said_in_one_place() {
        let own = [
            "backbone.certificate_file=c",
            "backbone.key_file=k",
            "backbone.ca_file=a",
            "backbone.encryption_key_file=e",
            "backbone.authentication_key_file=s",
        ];
        let config = load_with(&own).expect("whole");
        assert!(backbone::exposure(&config.backbone_context()).is_none());
        assert_eq!(config.resolver().authentication_key_file.as_deref(), Some("s"));
        let both = [&own[..], &["messaging.lbtrm.encryption_key_file=e"]].concat();
        let said = load_with(&both).expect_err("said twice");
        assert!(said.contains("[backbone] sets lbtrm.encryption_key_file"), "{said}");
        assert!(load_with(&own[3..]).is_err_and(|said| said.contains("links are open")));
    }
}
