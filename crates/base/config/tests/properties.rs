//! What holds for every text and every configuration.

mod sample;

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use config::{Ipv4Cidr, KeyType as _, Loader, Origin};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use sample::{
    AdminConfig, CacheConfig, MessagingConfig, P2psConfig, ProviderConfig, Role, RootConfig, ServiceConfig,
    WaitStrategy,
};
use tickcast_config as config;

/// A file with every sort of table, value and comment.
const VALID: &str = r#"# The whole house.
instance = "house é"

[p2ps]
port = 14_010 # RSSL
item_linger_ms = 0x10
wait = 'busy-spin'
interfaces = [
  "eth0", """eth1""",
]
conflate = false
recovery_share = 2.5e-1
allowed = ["10.0.0.0/8"]
messaging = { nak_initial_ms = 20, nak_retry_ms = 100 }

[admin]
listen = "[::1]:8080"

[[service]]
name = "A"
id = 1
cache.items_max = 5

[[service.provider]]
address = "10.0.0.1:14003"
role = "standby"

[[service]]
"name" = "B"
id = 2
provider = [{ address = "10.0.0.2:14003" }]
"#;

/// Pieces of TOML that are likely to hit something when they are put anywhere.
const PIECES: &[&str] = &[
    "[",
    "]",
    "[[",
    "]]",
    "{",
    "}",
    "=",
    ".",
    ",",
    "\"",
    "'",
    "\"\"\"",
    "'''",
    "#",
    "\n",
    "\r",
    "\r\n",
    "\t",
    "\\",
    "\\u",
    "\\UFFFFFFFF",
    "0x",
    "0b",
    "-",
    "+",
    "_",
    "1e999",
    "nan",
    "-inf",
    "true",
    "99999999999999999999999",
    "1979-05-27T07:32:00Z",
    "\u{feff}",
    "\u{0}",
    "\u{7f}",
    "é",
    "\u{2028}",
    "[p2ps]\n",
    "[[service]]\n",
    "[service]\n",
    "p2ps.port = 1\n",
    "a.b.c = {}\n",
];

/// One change of a text: at a place, some bytes become a piece.
#[derive(Clone, Debug)]
struct Mutation {
    at: Index,
    cut: usize,
    piece: &'static str,
}

fn mutations() -> impl Strategy<Value = Vec<Mutation>> {
    let one = (any::<Index>(), 0..12_usize, select(PIECES)).prop_map(|(at, cut, piece)| Mutation {
        at,
        cut,
        piece,
    });
    prop::collection::vec(one, 1..6)
}

fn mutated(mutations: &[Mutation]) -> Vec<u8> {
    let mut bytes = VALID.as_bytes().to_vec();
    for mutation in mutations {
        let at = mutation.at.index(bytes.len() + 1);
        let end = (at + mutation.cut).min(bytes.len());
        bytes.splice(at..end, mutation.piece.bytes());
    }
    bytes
}

/// Loads, and reads all that can be printed of the outcome.
fn exercise(loader: Loader<RootConfig>) -> Result<(), TestCaseError> {
    match loader.load() {
        Ok(loaded) => {
            let again = Loader::new::<RootConfig>().file("shown.toml", loaded.show()).load();
            prop_assert_eq!(again.map(|again| again.value), Ok(loaded.value.clone()));
            prop_assert!(serde_json::from_str::<serde_json::Value>(&loaded.json()).is_ok());
        }
        Err(faults) => {
            prop_assert!(!faults.as_slice().is_empty());
            for fault in faults.as_slice() {
                let text = fault.to_string();
                prop_assert!(text.len() < 2_000, "{}", text);
                if let Some(at) = fault.location() {
                    prop_assert!(at.line >= 1 && at.column >= 1 && at.caret_width >= 1);
                    prop_assert!(at.caret_offset <= at.excerpt.chars().count());
                    prop_assert!(at.excerpt.chars().count() <= 120);
                }
            }
        }
    }
    Ok(())
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z0-9 .,'\"\\\\#\\[\\]{}=]{1,30}",
        "\\PC{1,8}",
        Just("\t\n\r\u{0}\u{7f}\u{2028}".to_owned())
    ]
}

fn address() -> impl Strategy<Value = SocketAddrV4> {
    (any::<u32>(), any::<u16>()).prop_map(|(ip, port)| SocketAddrV4::new(Ipv4Addr::from_bits(ip), port))
}

fn network() -> impl Strategy<Value = Ipv4Cidr> {
    (any::<u32>(), 0..=32_u8).prop_map(|(bits, prefix)| {
        let mask = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
        Ipv4Cidr::new(Ipv4Addr::from_bits(bits & mask), prefix).expect("the later bits are clear")
    })
}

prop_compose! {
    fn messaging()(nak_initial_ms in 1..=1_000_u32, factor in 2..=60_u32, window_bytes in 65_536..=1_073_741_824_usize) -> MessagingConfig {
        MessagingConfig { nak_initial_ms, nak_retry_ms: nak_initial_ms * factor, window_bytes }
    }
}

prop_compose! {
    fn p2ps()(
        (port, item_linger_ms, rate_bits_per_second) in (1..=32_767_u16, 0..=3_600_000_u64, 1_000..=i64::MAX as u64),
        (wait, conflate) in (select(WaitStrategy::ALL), any::<bool>()),
        interfaces in prop::collection::vec(text(), 0..4),
        tls_port in prop::option::of(32_768..=65_535_u16),
        recovery_share in 0.0..=1.0_f64,
        cpus in prop::collection::vec(0..=1023_u16, 1..=8),
        clock_offset_ns in -1000..=1000_i32,
        group in any::<u32>().prop_map(Ipv4Addr::from_bits),
        resolver in prop::option::of(address()),
        allowed in prop::collection::vec(network(), 0..4),
        r#type in text(),
        messaging in messaging(),
    ) -> P2psConfig {
        P2psConfig {
            port, item_linger_ms, wait, interfaces, tls_port, conflate, recovery_share, cpus, clock_offset_ns,
            rate_bits_per_second, group, resolver, allowed, r#type, messaging,
        }
    }
}

prop_compose! {
    fn service()(
        name in "[ -~]{1,32}",
        weights in prop::collection::vec(0.0..=1e6_f64, 0..4),
        items_max in any::<u32>(),
        providers in prop::collection::vec((address(), select(Role::ALL)), 0..3),
    ) -> ServiceConfig {
        let providers = providers.into_iter().map(|(address, role)| ProviderConfig { address, role }).collect();
        ServiceConfig { name, id: 0, weights, cache: CacheConfig { items_max }, providers }
    }
}

prop_compose! {
    fn root()(
        instance in "[ -~]{1,32}",
        p2ps in p2ps(),
        admin in prop::option::of((address(), prop::option::of(any::<u128>()))),
        mut services in prop::collection::vec(service(), 0..4),
    ) -> RootConfig {
        let admin = admin.map(|(listen, client)| AdminConfig {
            listen: SocketAddr::V4(listen),
            client: client.map(|bits| std::net::Ipv6Addr::from_bits(bits).into()),
        });
        for (service, id) in services.iter_mut().zip(1..) {
            service.id = id;
        }
        RootConfig { instance, p2ps, admin, services }
    }
}

#[test]
fn the_valid_file_is_valid() {
    let value = Loader::new::<RootConfig>()
        .file("valid.toml", VALID)
        .load()
        .expect("it is the base of the mutations")
        .value;
    assert_eq!((value.p2ps.port, value.p2ps.item_linger_ms, value.services.len()), (14010, 16, 2));
}

testkit::properties! {
    cases: 2_000;

    #[test]
    fn no_mutation_of_a_valid_file_makes_the_loader_panic(mutations in mutations()) {
        exercise(Loader::new::<RootConfig>().file("t.toml", mutated(&mutations)))?;
    }

    #[test]
    fn no_text_at_all_makes_the_loader_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), text in "\\PC{0,80}") {
        exercise(Loader::new::<RootConfig>().file("bytes", bytes).file("text", text))?;
    }

    #[test]
    fn no_variable_or_flag_makes_the_loader_panic(
        key in select(&["p2ps.port", "p2ps.cpus", "p2ps.wait", "p2ps.tls_port", "service", "service.0.id", "service.1.provider.0.role", "admin", "x", ""][..]),
        value in prop_oneof![text(), Just(String::new()), select(PIECES).prop_map(str::to_owned)],
        junk in "\\PC{0,20}",
    ) {
        let name = format!("TICKCAST_{}", key.to_uppercase().replace('.', "_"));
        let file = || Loader::new::<RootConfig>().file("valid.toml", VALID);
        exercise(file().environment([(name.as_str(), value.as_str())]))?;
        exercise(file().set(format!("{key}={value}")))?;
        exercise(file().environment([(format!("TICKCAST_{junk}"), value)]).set(junk))?;
    }
}

testkit::properties! {
    cases: 500;

    #[test]
    fn what_is_shown_loads_to_the_same_configuration(root in root()) {
        let loaded = config::Loaded { value: root.clone(), origins: config::Origins::default() };
        let shown = loaded.show();
        let again = Loader::new::<RootConfig>().file("shown.toml", shown.as_str()).load();
        let again = again.unwrap_or_else(|faults| panic!("{shown}\n{faults}"));
        prop_assert_eq!(&again.value, &root);
        prop_assert_eq!(RootConfig::from_value(&root.to_value()), Some(root));
        // Every value that stands in the file is known to come from it.
        let from_file = |origin: &Origin| matches!(origin, Origin::File { .. });
        prop_assert!(again.origins.iter().all(|(_, origin)| from_file(origin)), "{:?}", again.origins);
        prop_assert!(shown.lines().all(|line| line.starts_with('#') || line.chars().all(|c| !c.is_control())));
    }
}
