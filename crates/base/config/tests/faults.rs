//! Each fault with the full text in which it is reported.

mod sample;

use config::{FaultKind, Faults, Layer, Loader};
use sample::RootConfig;
use tickcast_config as config;

fn faults(loader: Loader<RootConfig>) -> Faults {
    loader.load().expect_err("something is wrong with it")
}

/// The report on a file, without the line that counts the faults.
fn report(text: &str) -> String {
    report_of(Loader::new::<RootConfig>().file("t.toml", text))
}

fn report_of(loader: Loader<RootConfig>) -> String {
    let text = faults(loader).to_string();
    let (report, _) = text.rsplit_once("\n\n").expect("the count stands apart");
    report.to_owned()
}

fn kinds(loader: Loader<RootConfig>) -> Vec<FaultKind> {
    faults(loader).as_slice().iter().map(config::Fault::kind).collect()
}

#[test]
fn an_unknown_key_is_refused_with_the_nearest_name() {
    assert_eq!(
        report("[p2ps]\nprot = 14010\n"),
        "\
t.toml:2:1: unknown key `prot` in [p2ps]; did you mean `port`?
  2 | prot = 14010
    | ^^^^"
    );
    assert_eq!(
        report("[p2ps.mesaging]\nnak_retry_ms = 900\n"),
        "\
t.toml:1:7: unknown table `mesaging` in [p2ps]; did you mean `messaging`?
  1 | [p2ps.mesaging]
    |       ^^^^^^^^"
    );
    assert_eq!(
        report(
            "[[service]]\nname = 'A'\nid = 1\n[[service.provider]]\naddress = '1.1.1.1:1'\n\"Röle\" = 1\n"
        ),
        "\
t.toml:6:1: unknown key `\"Röle\"` in [[service.provider]]; did you mean `role`?
  6 | \"Röle\" = 1
    | ^^^^^^"
    );
}

#[test]
fn an_unknown_key_without_a_near_name_is_refused_with_its_section_or_the_known_names() {
    assert_eq!(
        report("[p2ps.messaging]\nrecovery_share = 0.5\n"),
        "\
t.toml:2:1: unknown key `recovery_share` in [p2ps.messaging]; a key of this name belongs in [p2ps]
  2 | recovery_share = 0.5
    | ^^^^^^^^^^^^^^"
    );
    assert_eq!(
        report("colour = 'blue'\n"),
        "\
t.toml:1:1: unknown key `colour` at the top level; known at the top level: `instance`, `p2ps`, `admin`, `service`
  1 | colour = 'blue'
    | ^^^^^^"
    );
    assert_eq!(
        report("[admin]\nbandwidth = 3\n"),
        "\
t.toml:2:1: unknown key `bandwidth` in [admin]; known here: `listen`, `client`
  2 | bandwidth = 3
    | ^^^^^^^^^"
    );
}

#[test]
fn a_value_of_the_wrong_type_is_refused_with_the_right_one() {
    assert_eq!(
        report("[p2ps]\n\titem_linger_ms =\t\"5s\" # too long?\n"),
        "\
t.toml:2:19: `p2ps.item_linger_ms` must be an integer from 0 to 3600000 milliseconds, is the string \"5s\"
  2 | \titem_linger_ms =\t\"5s\" # too long?
    | \t                \t^^^^"
    );
    let message = |line: &str| {
        let faults = faults(Loader::new::<RootConfig>().file("t.toml", line));
        assert_eq!(faults.as_slice().len(), 1, "{faults}");
        let fault = &faults.as_slice()[0];
        assert_eq!(fault.kind(), FaultKind::WrongType);
        fault.message().to_owned()
    };
    assert_eq!(message("p2ps.conflate = 1"), "`p2ps.conflate` must be true or false, is the integer 1");
    assert_eq!(
        message("p2ps.port = 1.5"),
        "`p2ps.port` must be an integer from 1 to 65535, is the number 1.5"
    );
    assert_eq!(
        message("p2ps.port = 2026-01-01"),
        "`p2ps.port` must be an integer from 1 to 65535, is a date or time"
    );
    assert_eq!(
        message("p2ps.recovery_share = true"),
        "`p2ps.recovery_share` must be a number from 0.0 to 1.0, is true"
    );
    assert_eq!(
        message("p2ps.interfaces = 'eth0'"),
        "`p2ps.interfaces` must be a list, each item a string, is the string \"eth0\""
    );
    assert_eq!(message("p2ps.interfaces = ['a', []]"), "`p2ps.interfaces.1` must be a string, is a list");
    assert_eq!(
        message("p2ps.group = {}"),
        "`p2ps.group` must be an IPv4 address such as 239.192.0.1, is a table"
    );
    assert_eq!(
        message("p2ps.wait = 1"),
        "`p2ps.wait` must be one of \"busy-spin\", \"yield\", \"block\", is the integer 1"
    );
    assert_eq!(message("p2ps = 1"), "`p2ps` must be a table [p2ps], is the integer 1");
    assert_eq!(message("[[p2ps]]"), "`p2ps` must be a table [p2ps], is a list of tables");
    assert_eq!(message("[service]"), "`service` must be a list of tables [[service]], is a table");
    assert_eq!(message("service = [1]"), "`service.0` must be a table, is the integer 1");
}

#[test]
fn a_value_out_of_range_is_refused_with_the_range_and_the_unit() {
    assert_eq!(
        report("[p2ps]\nport = 70_000\n"),
        "\
t.toml:2:8: `p2ps.port` must be an integer from 1 to 65535, is 70_000
  2 | port = 70_000
    |        ^^^^^^"
    );
    let message = |line: &str| {
        let faults = faults(Loader::new::<RootConfig>().file("t.toml", line));
        assert_eq!(faults.as_slice().len(), 1, "{faults}");
        let fault = &faults.as_slice()[0];
        assert_eq!(fault.kind(), FaultKind::OutOfRange);
        fault.message().to_owned()
    };
    assert_eq!(
        message("p2ps.rate_bits_per_second = 999"),
        "`p2ps.rate_bits_per_second` must be an integer of at least 1000 bits per second, is 999"
    );
    assert_eq!(
        message("p2ps.rate_bits_per_second = 9223372036854775808"),
        "`p2ps.rate_bits_per_second` must be an integer of at least 1000 bits per second, is 9223372036854775808"
    );
    assert_eq!(
        message("p2ps.rate_bits_per_second = -9223372036854775809"),
        "`p2ps.rate_bits_per_second` must be an integer of at least 1000 bits per second, is -9223372036854775809"
    );
    assert_eq!(
        message("p2ps.clock_offset_ns = 1_001"),
        "`p2ps.clock_offset_ns` must be an integer from -1000 to 1000 nanoseconds, is 1_001"
    );
    assert_eq!(
        message("p2ps.recovery_share = nan"),
        "`p2ps.recovery_share` must be a number from 0.0 to 1.0, is nan"
    );
    assert_eq!(
        message("p2ps.recovery_share = 1e999"),
        "`p2ps.recovery_share` must be a number from 0.0 to 1.0, is 1e999"
    );
    assert_eq!(
        message("p2ps.recovery_share = 2"),
        "`p2ps.recovery_share` must be a number from 0.0 to 1.0, is 2"
    );
    assert_eq!(message("p2ps.cpus = [1, 1024]"), "`p2ps.cpus.1` must be an integer from 0 to 1023, is 1024");
    assert_eq!(
        message("p2ps.cpus = []"),
        "`p2ps.cpus` must be a list of 1 to 8 items, each an integer from 0 to 1023, has 0 items"
    );
    assert_eq!(message("instance = ''"), "`instance` must be a string of 1 to 32 bytes, has 0 bytes");
}

#[test]
fn an_unknown_choice_is_refused_with_the_names_and_the_nearest() {
    assert_eq!(
        report("[p2ps]\nwait = \"bussy-spin\"\n"),
        "\
t.toml:2:8: `p2ps.wait` must be one of \"busy-spin\", \"yield\", \"block\", is the string \"bussy-spin\"; did you mean \"busy-spin\"?
  2 | wait = \"bussy-spin\"
    |        ^^^^^^^^^^^^"
    );
    assert!(report("p2ps.wait = 'never'").ends_with(
        "\"yield\", \"block\", is the string \"never\"\n  1 | p2ps.wait = 'never'\n    |             ^^^^^^^"
    ));
}

#[test]
fn a_malformed_address_is_refused_with_an_example_and_the_reason() {
    assert_eq!(
        report("[p2ps]\nallowed = [\"10.0.0.0/8\", \"10.29.3.7/16\"]\n"),
        "\
t.toml:2:26: `p2ps.allowed.1` must be an IPv4 network such as 10.29.0.0/16, is the string \"10.29.3.7/16\"; the network of that address is 10.29.0.0/16
  2 | allowed = [\"10.0.0.0/8\", \"10.29.3.7/16\"]
    |                          ^^^^^^^^^^^^^^"
    );
    assert_eq!(
        report("p2ps.group = '239.1'"),
        "\
t.toml:1:14: `p2ps.group` must be an IPv4 address such as 239.192.0.1, is the string \"239.1\"
  1 | p2ps.group = '239.1'
    |              ^^^^^^^"
    );
}

#[test]
fn a_key_or_table_given_twice_is_refused_with_both_places() {
    assert_eq!(
        report("[p2ps]\nport = 1\n# again\nport = 2\n"),
        "\
t.toml:4:1: duplicate key `port`; it is first set in line 2
  4 | port = 2
    | ^^^^"
    );
    assert_eq!(
        report("[p2ps]\nport = 1\n[admin]\n[p2ps]\nwait = 'block'\n"),
        "\
t.toml:4:2: duplicate table `p2ps`; it is first opened in line 1
  4 | [p2ps]
    |  ^^^^"
    );
    assert_eq!(
        report("p2ps = { port = 1 }\np2ps.wait = 'block'\n"),
        "\
t.toml:2:1: nothing can be added to `p2ps`, which is set in line 1
  2 | p2ps.wait = 'block'
    | ^^^^"
    );
}

#[test]
fn below_a_table_given_twice_the_keys_are_judged_all_the_same() {
    let text = "[p2ps]\nport = 1\n[p2ps]\nport = 2\nprot = 3\n";
    let all = kinds(Loader::new::<RootConfig>().file("t.toml", text));
    assert_eq!(all, [FaultKind::Duplicate, FaultKind::Duplicate, FaultKind::UnknownKey]);
}

#[test]
fn what_toml_forbids_to_say_twice_is_refused_in_every_form() {
    for text in [
        "p2ps = {}\n[p2ps]\n",
        "p2ps = {}\n[p2ps.messaging]\n",
        "p2ps.port = 1\n[p2ps]\n",
        "[p2ps]\nmessaging.nak_retry_ms = 900\n[p2ps.messaging]\n",
        "[p2ps.messaging]\nnak_retry_ms = 900\n[p2ps]\nmessaging.nak_initial_ms = 9\n",
        "p2ps = { port = 1, port = 2 }\n",
        "p2ps = { messaging = { nak_retry_ms = 900 }, messaging.nak_initial_ms = 9 }\n",
        "service = []\n[[service]]\nname = 'A'\nid = 1\n",
        "[[service]]\nname = 'A'\nid = 1\n[service]\n",
        "[p2ps]\n[[p2ps]]\n",
        "instance = 'x'\n[instance]\n",
        "instance = 'x'\n[instance.deep]\n",
        "instance = 'x'\ninstance.deep = 1\n",
    ] {
        let all = kinds(Loader::new::<RootConfig>().file("t.toml", text));
        assert!(all.contains(&FaultKind::Duplicate), "{text}: {all:?}");
    }
}

#[test]
fn a_missing_required_key_is_reported_at_its_table() {
    assert_eq!(
        report("[[service]]\nname = \"A\"\nid = 1\n\n[[service]]\nname = \"B\"\n"),
        "\
t.toml:5:1: missing key `id` in [[service]]; it must be an integer from 1 to 65535
  5 | [[service]]
    | ^^^^^^^^^^^"
    );
    assert_eq!(
        report("service = [{ name = 'A', id = 1, provider = [{}] }]"),
        "\
t.toml:1:46: missing key `address` in [[service.provider]]; it must be an IPv4 address and port such as 192.168.1.10:14002
  1 | service = [{ name = 'A', id = 1, provider = [{}] }]
    |                                              ^^"
    );
}

#[test]
fn a_required_key_that_no_layer_sets_has_no_place() {
    config::section! {
        /// A root that needs a name.
        pub struct Named {
            /// Its name.
            name: String, required;
            /// A section that needs one too.
            inner: Inner;
        }
    }
    config::section! {
        /// A section.
        pub struct Inner {
            /// Its number.
            number: u8, required, range 1..;
        }
    }
    let faults = Loader::new::<Named>().load().expect_err("nothing is set");
    assert_eq!(
        faults.to_string(),
        "\
configuration: missing key `name` at the top level; it must be a string

configuration: missing key `number` in [inner]; it must be an integer from 1 to 255

2 errors in the configuration"
    );
    assert_eq!(faults.as_slice()[0].location(), None);
    let loaded = Loader::new::<Named>().set("name=x").set("inner.number=7").load().expect("both are set");
    assert_eq!((loaded.value.name.as_str(), loaded.value.inner.number), ("x", 7));
}

#[test]
fn a_required_key_of_an_optional_section_is_missed_only_if_the_section_is_there() {
    config::section! {
        /// A root with an optional section.
        pub struct Outer {
            /// The section.
            tls: Option<Tls> = None;
        }
    }
    config::section! {
        /// A section.
        pub struct Tls {
            /// Its key.
            key_file: String, required;
            /// Its certificate.
            cert_file: String, required;
        }
    }
    assert_eq!(Loader::new::<Outer>().load().expect("the section is not there").value.tls, None);
    let faults = Loader::new::<Outer>().file("t.toml", "[tls]\nkey_file = 'k'\n").load();
    assert_eq!(
        faults.expect_err("the certificate is missing").to_string(),
        "\
t.toml:1:1: missing key `cert_file` in [tls]; it must be a string
  1 | [tls]
    | ^^^^^

1 error in the configuration"
    );
}

#[test]
fn a_name_that_many_sections_have_is_not_attributed_to_one() {
    config::section! {
        /// A root with many sections.
        pub struct Many {
            /// One.
            a: One;
            /// Two.
            b: One;
            /// Three.
            c: One;
        }
    }
    config::section! {
        /// A section.
        pub struct One {
            /// A key.
            limit: u8 = 1;
        }
    }
    config::section! {
        /// A root with one more.
        pub struct More {
            /// Four.
            d: One;
            /// Many.
            many: Many;
        }
    }
    let message =
        |faults: Result<_, Faults>| faults.expect_err("it stands nowhere").as_slice()[0].message().to_owned();
    assert_eq!(
        message(Loader::new::<Many>().set("limit=1").load().map(drop)),
        "unknown key `limit` at the top level; a key of this name belongs in [a] or in [b] or in [c]"
    );
    assert_eq!(
        message(Loader::new::<More>().set("limit=1").load().map(drop)),
        "unknown key `limit` at the top level; known at the top level: `d`, `many`"
    );
}

#[test]
fn text_that_is_not_toml_is_refused_where_it_stops_being_so() {
    assert_eq!(
        report("[p2ps]\nport = \nitem_linger_ms 5\nwait = block\n"),
        "\
t.toml:2:8: missing value
  2 | port = 
    |        ^

t.toml:3:16: key with no value; expected `=`
  3 | item_linger_ms 5
    |                ^

t.toml:4:8: string values must be quoted; expected literal string
  4 | wait = block
    |        ^^^^^"
    );
    assert_eq!(
        report("[p2ps\nport = 1\n"),
        "\
t.toml:1:6: unclosed table; expected `]`
  1 | [p2ps
    |      ^"
    );
    assert_eq!(
        report("instance = \"x\n"),
        "\
t.toml:1:14: invalid basic string; expected `\"`
  1 | instance = \"x
    |              ^"
    );
    assert_eq!(
        report("p2ps.port = 0x\n"),
        "\
t.toml:1:13: invalid number
  1 | p2ps.port = 0x
    |             ^^"
    );
}

#[test]
fn bytes_that_are_not_utf8_are_refused_with_their_place() {
    let text = report_of(
        Loader::new::<RootConfig>().file("t.toml", &b"# caf\xc3\xa9\ninstance = \"caf\xe9\"\n"[..]),
    );
    assert_eq!(
        text,
        "\
t.toml:2:16: the byte 0xe9 is not UTF-8
  2 | instance = \"caf\u{fffd}\"
    |                ^"
    );
}

#[test]
fn a_text_that_is_too_long_is_refused_unread() {
    let long = "#".repeat(config::TEXT_BYTES_MAX + 1);
    let faults =
        faults(Loader::new::<RootConfig>().file("t.toml", long.as_str()).set(format!("instance={long}")));
    let messages: Vec<&str> = faults.as_slice().iter().map(config::Fault::message).collect();
    assert_eq!(
        messages,
        [
            "the file has 1048577 bytes; the limit is 1048576",
            "the text has 1048586 bytes; the limit is 1048576"
        ]
    );
    assert!(faults.to_string().len() < 1000, "the text itself is not repeated");
}

#[test]
fn nesting_beyond_the_limit_is_refused() {
    let lists = report(&format!("instance = {}{}", "[".repeat(5000), "]".repeat(5000)));
    assert!(lists.contains("t.toml:1:28: lists and tables are nested more than 16 deep\n"), "{lists}");
    let dots = format!("{}a = 1", "a.".repeat(20_000));
    assert!(report(&dots).starts_with("t.toml:1:1: a key of too many parts\n"));
    assert!(
        report(&format!("[{}a]", "a.".repeat(20_000))).starts_with("t.toml:1:2: a key of too many parts\n")
    );
}

#[test]
fn nesting_beyond_the_limit_is_one_fault() {
    for depth in [17, 18, 32, 200, 5000] {
        let (lists, tables) = ("[".repeat(depth), "{a = ".repeat(depth));
        for text in [
            format!("instance = {lists}{}", "]".repeat(depth)),
            format!("instance = {lists}"),
            format!("instance = {lists}1, 2{}", ", 3]".repeat(depth)),
            format!("instance = {tables}1{}", "}".repeat(depth)),
            format!("instance = {tables}"),
            format!("instance = {}1{}", "[{a = ".repeat(depth), "}]".repeat(depth)),
            format!("instance = {}{}", lists.replace('[', "[\n"), "]\n".repeat(depth)),
        ] {
            let faults = faults(Loader::new::<RootConfig>().file("t.toml", text.as_str()));
            let messages: Vec<&str> = faults.as_slice().iter().map(config::Fault::message).collect();
            assert_eq!(
                messages,
                ["lists and tables are nested more than 16 deep"],
                "depth {depth}: {text:.60}"
            );
        }
    }
    // What is wrong before it is told as well.
    let text = format!("instance = 1\np2ps.port = {}", "[".repeat(40));
    assert_eq!(faults(Loader::new::<RootConfig>().file("t.toml", text.as_str())).as_slice().len(), 2);
}

#[test]
fn a_variable_is_quoted_as_it_was_set() {
    assert_eq!(
        report_of(Loader::new::<RootConfig>().environment([
            ("TICKCAST_P2PS_PORT", "70000"),
            ("TICKCAST_P2PS_CPUS", "1, 2, x"),
            ("TICKCAST_P2PS_INTERFACES", "['a', 2]"),
            ("TICKCAST_P2PS_PROT", "1"),
            ("TICKCAST_SERVICE_HOST", "10.0.0.1"),
            ("TICKCAST_SERVICE_3_ID", "7"),
        ])),
        "\
TICKCAST_P2PS_CPUS: `p2ps.cpus.2` must be an integer from 0 to 1023, is the string \"x\"
    | TICKCAST_P2PS_CPUS=1, 2, x
    |                          ^

TICKCAST_P2PS_INTERFACES: `p2ps.interfaces.1` must be a string, is the integer 2
    | TICKCAST_P2PS_INTERFACES=['a', 2]
    |                                ^

TICKCAST_P2PS_PORT: `p2ps.port` must be an integer from 1 to 65535, is 70000
    | TICKCAST_P2PS_PORT=70000
    |                    ^^^^^

TICKCAST_P2PS_PROT: unknown variable; did you mean TICKCAST_P2PS_PORT?
    | TICKCAST_P2PS_PROT=1
    | ^^^^^^^^^^^^^^^^^^

TICKCAST_SERVICE_3_ID: `service` has 0 tables; there is no `3`
    | TICKCAST_SERVICE_3_ID=7
    | ^^^^^^^^^^^^^^^^^^^^^

TICKCAST_SERVICE_HOST: unknown variable; did you mean TICKCAST_SERVICE_0_ID?
    | TICKCAST_SERVICE_HOST=10.0.0.1
    | ^^^^^^^^^^^^^^^^^^^^^"
    );
}

#[cfg(unix)]
#[test]
fn a_variable_that_is_not_utf8_is_refused_only_if_it_is_ours() {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt as _;
    let bad = || OsString::from_vec(vec![b'x', 0xff]);
    let variables =
        [(OsString::from("TICKCAST_INSTANCE"), bad()), (OsString::from("OTHER"), bad()), (bad(), bad())];
    assert_eq!(
        report_of(Loader::new::<RootConfig>().environment(variables)),
        "\
TICKCAST_INSTANCE: the value is not UTF-8
    | TICKCAST_INSTANCE=x\u{fffd}
    | ^^^^^^^^^^^^^^^^^"
    );
}

#[test]
fn a_flag_is_quoted_as_it_was_given() {
    let flags = [
        "p2ps.port=x",
        "p2ps.prot=1",
        "p2ps",
        "admin={}",
        "p2ps.port.x=1",
        "service.0.id=3",
        "service=[",
        "p2ps.port=",
    ];
    assert_eq!(
        report_of(flags.iter().fold(Loader::new::<RootConfig>(), |loader, flag| loader.set(*flag))),
        "\
--set: `p2ps.port` must be an integer from 1 to 65535, is the string \"x\"
    | --set p2ps.port=x
    |                 ^

--set: unknown key `prot` in [p2ps]; did you mean `port`?
    | --set p2ps.prot=1
    |       ^^^^^^^^^

--set: expected key=value, is `p2ps`
    | --set p2ps
    |       ^^^^

--set: `admin` is a table; set a key in it: `admin.listen`, `admin.client`
    | --set admin={}
    |       ^^^^^

--set: `p2ps.port` has no key `x`
    | --set p2ps.port.x=1
    |       ^^^^^^^^^^^

--set: `service` has 0 tables; there is no `0`
    | --set service.0.id=3
    |       ^^^^^^^^^^^^

--set: unclosed array; expected `]`
    | --set service=[
    |                ^

--set: `p2ps.port` must be an integer from 1 to 65535, is the string \"\"
    | --set p2ps.port=
    |                 ^"
    );
}

#[test]
fn a_flag_for_one_of_several_tables_must_name_one_and_a_key_in_it() {
    let file = "[[service]]\nname = 'A'\nid = 1\n[[service]]\nname = 'B'\nid = 2\n";
    let loader = Loader::new::<RootConfig>().file("t.toml", file);
    assert_eq!(
        report_of(loader.set("service.1={}").set("service.2.id=7").set("service.last.id=7")),
        "\
--set: `service.1` is a table; set a key in it: `service.1.name`, `service.1.id`, `service.1.weights`, \
`service.1.cache`, `service.1.provider`
    | --set service.1={}
    |       ^^^^^^^^^

--set: `service` has 2 tables, numbers 0 to 1; there is no `2`
    | --set service.2.id=7
    |       ^^^^^^^^^^^^

--set: `service` has 2 tables, numbers 0 to 1; there is no `last`
    | --set service.last.id=7
    |       ^^^^^^^^^^^^^^^"
    );
}

#[test]
fn a_conflict_is_reported_at_the_value_that_was_set_with_the_other_values() {
    assert_eq!(
        report("[p2ps.messaging]\nnak_retry_ms = 60\n"),
        "\
t.toml:2:16: [p2ps.messaging] nak_retry_ms must be at least twice nak_initial_ms
  2 | nak_retry_ms = 60
    |                ^^
    = p2ps.messaging.nak_initial_ms = 50 (default)"
    );
    assert_eq!(
        report_of(
            Loader::new::<RootConfig>().file("t.toml", "[p2ps]\ntls_port = 443\n").set("p2ps.port=443")
        ),
        "\
t.toml:2:12: [p2ps] tls_port and port must differ
  2 | tls_port = 443
    |            ^^^
    = p2ps.port = 443 (--set)"
    );
    assert_eq!(
        report("[[service]]\nname = 'A'\nid = 1\n[[service]]\nname = 'B'\nid = 1\n"),
        "\
t.toml:6:6: each service needs an id of its own
  6 | id = 1
    |      ^"
    );
}

#[test]
fn a_section_is_not_checked_when_something_in_it_is_wrong() {
    let wrong_value = "[p2ps.messaging]\nnak_retry_ms = 60\nwindow_bytes = 1\n[p2ps]\ntls_port = 14002\n";
    assert_eq!(kinds(Loader::new::<RootConfig>().file("t.toml", wrong_value)), [FaultKind::OutOfRange]);
    // A fault elsewhere does not keep it from being checked.
    let elsewhere = "[p2ps.messaging]\nnak_retry_ms = 60\n[admin]\nlisten = 1\n";
    assert_eq!(
        kinds(Loader::new::<RootConfig>().file("t.toml", elsewhere)),
        [FaultKind::Conflict, FaultKind::WrongType]
    );
    // Nor are keys called missing when a part of the text could not be read.
    let unreadable = "[[service]]\nname = 'A'\nid\n";
    assert_eq!(kinds(Loader::new::<RootConfig>().file("t.toml", unreadable)), [FaultKind::Syntax]);
}

#[test]
fn all_faults_of_all_layers_are_reported_at_once() {
    let loader = Loader::new::<RootConfig>()
        .file("a.toml", "instance = 1\n[p2ps]\nport = 0\nwiat = 'block'\n[[service]]\nid = 0\n")
        .file("b.toml", "[admin]\nlisten = 'x'\nlisten = 'y'\n")
        .environment([("TICKCAST_P2PS_GROUP", "x")])
        .set("p2ps.conflate=maybe");
    let faults = faults(loader);
    let places: Vec<(FaultKind, Layer, &str, usize, usize, &str)> = faults
        .as_slice()
        .iter()
        .filter_map(|fault| {
            fault
                .location()
                .map(|at| (fault.kind(), at.layer, at.name.as_str(), at.line, at.column, fault.key()))
        })
        .collect();
    assert_eq!(
        places,
        [
            (FaultKind::WrongType, Layer::File, "a.toml", 1, 12, "instance"),
            (FaultKind::OutOfRange, Layer::File, "a.toml", 3, 8, "p2ps.port"),
            (FaultKind::UnknownKey, Layer::File, "a.toml", 4, 1, "p2ps.wiat"),
            (FaultKind::Missing, Layer::File, "a.toml", 5, 1, "service.0.name"),
            (FaultKind::OutOfRange, Layer::File, "a.toml", 6, 6, "service.0.id"),
            (FaultKind::Malformed, Layer::File, "b.toml", 2, 10, "admin.listen"),
            (FaultKind::Duplicate, Layer::File, "b.toml", 3, 1, ""),
            (FaultKind::Malformed, Layer::Environment, "TICKCAST_P2PS_GROUP", 1, 21, "p2ps.group"),
            (FaultKind::WrongType, Layer::Flag, "--set", 1, 15, "p2ps.conflate"),
        ]
    );
    assert!(faults.to_string().ends_with("\n\n9 errors in the configuration"));
}

#[test]
fn a_wrong_value_is_reported_even_if_a_higher_layer_hides_it() {
    let loader = Loader::new::<RootConfig>().file("t.toml", "p2ps.port = 0\n").set("p2ps.port=5");
    assert_eq!(kinds(loader), [FaultKind::OutOfRange]);
}

#[test]
fn of_very_many_faults_the_first_are_kept_and_the_rest_counted() {
    // The wrong value is among those that are not kept; its section must not be checked all the same.
    let last = "[p2ps.messaging]\nwindow_bytes = 1\nnak_retry_ms = 60\n";
    let text: String = (0..1_000).map(|n| format!("absent_{n} = 1\n")).chain([last.to_owned()]).collect();
    let faults = faults(Loader::new::<RootConfig>().file("t.toml", text));
    assert_eq!((faults.as_slice().len(), faults.omitted()), (config::FAULTS_MAX, 901));
    assert!(faults.to_string().ends_with("1001 errors in the configuration (901 not shown)"));
}
