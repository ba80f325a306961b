//! What overrides what, how variables and flags are written, and that every value knows its origin.

mod sample;

use std::net::{Ipv4Addr, SocketAddrV4};

use config::{FaultKind, Loaded, Loader, Origin};
use sample::{Role, RootConfig, WaitStrategy};
use tickcast_config as config;

const FILE: &str = "\
[p2ps]
port = 14010
item_linger_ms = 100
wait = \"yield\"
interfaces = [\"eth0\"]

[p2ps.messaging]
nak_retry_ms = 900

[[service]]
name = \"A\"
id = 1

[[service.provider]]
address = \"10.0.0.1:14003\"

[[service]]
name = \"B\"
id = 2
";

fn loader() -> Loader<RootConfig> {
    Loader::new::<RootConfig>().file("tickcast.toml", FILE)
}

fn loaded(loader: Loader<RootConfig>) -> Loaded<RootConfig> {
    loader.load().unwrap_or_else(|faults| panic!("{faults}"))
}

fn file(line: usize) -> Origin {
    Origin::File { name: "tickcast.toml".to_owned(), line }
}

#[test]
fn without_layers_every_value_is_its_default() {
    let loaded = loaded(Loader::new::<RootConfig>());
    assert_eq!(loaded.value, RootConfig::default());
    assert_eq!(loaded.origins.iter().count(), 0);
    assert_eq!(*loaded.origins.of("p2ps.port"), Origin::Default);
    assert_eq!((loaded.value.p2ps.port, loaded.value.p2ps.messaging.nak_retry_ms), (14002, 500));
    assert_eq!((loaded.value.admin, loaded.value.services.len()), (None, 0));
}

#[test]
fn each_layer_overrides_the_one_below_and_every_value_knows_its_origin() {
    let all = loader()
        .environment([
            ("TICKCAST_P2PS_ITEM_LINGER_MS", "200"),
            ("TICKCAST_P2PS_WAIT", "block"),
            ("PATH", "/bin"),
        ])
        .set("p2ps.wait=busy-spin");
    let Loaded { value, origins } = loaded(all);

    assert_eq!((value.p2ps.port, origins.of("p2ps.port")), (14010, &file(2)));
    assert_eq!(origins.of("p2ps.port").to_string(), "tickcast.toml:2");
    let variable = Origin::Environment("TICKCAST_P2PS_ITEM_LINGER_MS".to_owned());
    assert_eq!((value.p2ps.item_linger_ms, origins.of("p2ps.item_linger_ms")), (200, &variable));
    assert_eq!((value.p2ps.wait, origins.of("p2ps.wait")), (WaitStrategy::BusySpin, &Origin::Flag));
    assert_eq!((value.p2ps.conflate, origins.of("p2ps.conflate")), (true, &Origin::Default));
    // A section is merged key by key: what the file does not name keeps its default.
    assert_eq!((value.p2ps.messaging.nak_retry_ms, value.p2ps.messaging.nak_initial_ms), (900, 50));
    assert_eq!(origins.of("p2ps.messaging.nak_retry_ms").to_string(), "tickcast.toml:8");
    assert_eq!(origins.of("service.0.provider.0.address").to_string(), "tickcast.toml:15");
    assert_eq!(origins.of("service.1.id").to_string(), "tickcast.toml:19");
}

#[test]
fn a_later_file_overrides_an_earlier_one_and_replaces_lists_whole() {
    let both = loader().file("site.toml", "p2ps.port = 14020\n[[service]]\nname = \"C\"\nid = 3\n");
    let Loaded { value, origins } = loaded(both);
    assert_eq!((value.p2ps.port, origins.of("p2ps.port").to_string().as_str()), (14020, "site.toml:1"));
    assert_eq!((value.p2ps.item_linger_ms, origins.of("p2ps.item_linger_ms")), (100, &file(3)));
    let names: Vec<&str> = value.services.iter().map(|service| service.name.as_str()).collect();
    assert_eq!(names, ["C"]);
    assert_eq!(origins.of("service.0.name").to_string(), "site.toml:3");
    assert_eq!(origins.of("service.1.name"), &Origin::Default);
}

#[test]
fn of_two_flags_for_one_key_the_later_counts() {
    assert_eq!(loaded(loader().set("p2ps.port=1").set("p2ps.port=2")).value.p2ps.port, 2);
}

#[test]
fn variables_and_flags_take_plain_text_for_every_type() {
    let value = loaded(
        Loader::new::<RootConfig>()
            .environment([
                ("TICKCAST_INSTANCE", "a b, \"c\""),
                ("TICKCAST_P2PS_INTERFACES", "eth0, eth1"),
                ("TICKCAST_P2PS_CPUS", "[4, 0x5]"),
                ("TICKCAST_P2PS_CONFLATE", " false "),
                ("TICKCAST_P2PS_GROUP", "239.1.2.3"),
                ("TICKCAST_P2PS_ALLOWED", "10.0.0.0/8,192.168.1.1"),
                ("TICKCAST_P2PS_TLS_PORT", "1_443"),
                ("TICKCAST_P2PS_RECOVERY_SHARE", "1"),
                ("TICKCAST_P2PS_CLOCK_OFFSET_NS", "-7"),
            ])
            .set(" p2ps . wait = yield")
            .set("p2ps.resolver=10.0.0.9:15380")
            .set("p2ps.type=\"quoted\\tTOML\"")
            .set("service=[{ name = \"X\", id = 9, provider = [{ address = \"10.0.0.1:1\", role = \"standby\" }] }]"),
    )
    .value;
    assert_eq!(value.instance, "a b, \"c\"");
    assert_eq!(value.p2ps.interfaces, ["eth0", "eth1"]);
    assert_eq!(value.p2ps.cpus, [4, 5]);
    assert!(!value.p2ps.conflate);
    assert_eq!(value.p2ps.group, Ipv4Addr::new(239, 1, 2, 3));
    assert_eq!(
        value.p2ps.allowed.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["10.0.0.0/8", "192.168.1.1/32"]
    );
    assert_eq!(
        (value.p2ps.tls_port, value.p2ps.recovery_share, value.p2ps.clock_offset_ns),
        (Some(1443), 1.0, -7)
    );
    assert_eq!(value.p2ps.wait, WaitStrategy::Yield);
    assert_eq!(value.p2ps.resolver, Some(SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 9), 15380)));
    assert_eq!(value.p2ps.r#type, "quoted\tTOML");
    assert_eq!(value.services[0].providers[0].role, Role::Standby);
}

#[test]
fn an_empty_text_takes_an_option_back_and_empties_a_list() {
    let with_port = Loader::new::<RootConfig>()
        .file("f", "p2ps.tls_port = 443\np2ps.interfaces = [\"eth0\"]\n[[service]]\nname = \"A\"\nid = 1\n");
    let Loaded { value, origins } =
        loaded(with_port.set("p2ps.tls_port=").set("p2ps.interfaces=").set("service=").set("instance=x"));
    assert_eq!((value.p2ps.tls_port, origins.of("p2ps.tls_port")), (None, &Origin::Flag));
    assert_eq!((value.p2ps.interfaces.len(), value.services.len()), (0, 0));
}

#[test]
fn a_key_of_one_of_several_tables_is_reached_by_its_number() {
    let all = loader()
        .environment([
            ("TICKCAST_SERVICE_1_CACHE_ITEMS_MAX", "7"),
            ("TICKCAST_SERVICE_0_PROVIDER_0_ROLE", "standby"),
        ])
        .set("service.0.name=Z");
    let Loaded { value, origins } = loaded(all);
    assert_eq!((value.services[0].name.as_str(), value.services[0].id), ("Z", 1));
    assert_eq!(value.services[0].providers[0].role, Role::Standby);
    assert_eq!((value.services[0].cache.items_max, value.services[1].cache.items_max), (100_000, 7));
    assert_eq!(origins.of("service.0.name"), &Origin::Flag);
    assert_eq!(origins.of("service.1.cache.items_max").to_string(), "TICKCAST_SERVICE_1_CACHE_ITEMS_MAX");
}

#[test]
fn an_optional_section_is_there_once_anything_in_it_is_set() {
    let by_file =
        loaded(Loader::new::<RootConfig>().file("f", "[admin]\n")).value.admin.expect("the table is there");
    assert_eq!((by_file.listen.port(), by_file.client), (8080, None));
    let by_flag =
        loaded(Loader::new::<RootConfig>().set("admin.client=::1")).value.admin.expect("a key is set");
    assert_eq!(by_flag.client.map(|client| client.to_string()).as_deref(), Some("::1"));
}

#[test]
fn reserved_variables_and_those_of_others_are_left_alone() {
    let variables = [("TICKCAST_CONFIG", "/etc/tickcast.toml"), ("TICKCASTER", "x"), ("LANG", "C")];
    let loader = Loader::new::<RootConfig>().environment(variables).reserve_variables(["TICKCAST_CONFIG"]);
    assert_eq!(loaded(loader).value, RootConfig::default());
    let faults = Loader::new::<RootConfig>().environment(variables).load().expect_err("one is not reserved");
    assert_eq!(
        faults.as_slice().iter().map(config::Fault::kind).collect::<Vec<_>>(),
        [FaultKind::UnknownVariable]
    );
}

#[test]
fn tables_may_be_written_in_every_way_that_toml_has() {
    let expected = loaded(loader()).value;
    let dotted = "p2ps.port = 14010\np2ps.item_linger_ms = 100\np2ps.wait = 'yield'\np2ps.interfaces = ['eth0',]\n\
                  p2ps.messaging.nak_retry_ms = 900\n\
                  service = [{ name = 'A', id = 1, provider = [{ address = '10.0.0.1:14003' }] }, { name = 'B', id = 2 }]\n";
    assert_eq!(loaded(Loader::new::<RootConfig>().file("f", dotted)).value, expected);
    let inline = "p2ps = { port = 0x36ba, item_linger_ms = 1_00, wait = \"\"\"yield\"\"\", interfaces = [\n'eth0' # first\n],\
                  messaging.nak_retry_ms = +900 }\r\n\
                  [[service]]\r\nname = 'A'\r\n\"id\" = 0b1\r\n[[service.provider]]\r\n'address' = '10.0.0.1:14003'\r\n\
                  [[service]]\r\nname = 'B'\r\nid = 0o2\r\n";
    assert_eq!(loaded(Loader::new::<RootConfig>().file("f", inline)).value, expected);
    let child_first = format!(
        "\u{feff}[p2ps.messaging]\nnak_retry_ms = 900\n{}",
        FILE.replace("[p2ps.messaging]\nnak_retry_ms = 900\n", "")
    );
    assert_eq!(loaded(Loader::new::<RootConfig>().file("f", child_first)).value, expected);
}
