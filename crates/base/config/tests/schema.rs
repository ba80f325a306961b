//! What the declarations make: defaults, the schema, choices, and the audit of it all.

mod sample;

use config::{FromDefault as _, KeyType as _, Kind, Loader, Section as _, Value};
use sample::{P2psConfig, RootConfig, ServiceConfig, WaitStrategy};
use tickcast_config as config;

#[test]
fn a_sound_declaration_has_no_mistakes() {
    assert_eq!(config::audit::<RootConfig>(), Vec::<String>::new());
}

#[test]
fn the_schema_has_each_key_with_its_type_default_range_unit_and_meaning() {
    let schema = P2psConfig::schema();
    assert_eq!(
        schema.doc,
        "The point-to-point server: takes each update once and gives it to every watcher."
    );
    let key = schema.key("item_linger_ms").expect("it is declared");
    assert_eq!(key.doc, "How long an item stays subscribed upstream after its last watcher has left.");
    assert_eq!((key.unit(), key.required, &key.default), ("milliseconds", false, &Value::Integer(5000)));
    assert!(matches!(key.kind, Kind::Integer { min: 0, max: 3_600_000 }));
    let key = schema.key("tls_port").expect("it is declared");
    assert_eq!(key.summary(), "Port of a second listener.");
    assert_eq!(key.doc, "Port of a second listener.\n\nFor consumers that may use TLS | nothing else.");
    assert_eq!(
        (key.kind.type_name().as_str(), key.kind.range_text().as_str()),
        ("integer, optional", "1 to 65535")
    );
    let names: Vec<&str> = RootConfig::schema().names().collect();
    assert_eq!(names, ["instance", "p2ps", "admin", "service"]);
    assert!(schema.key("type").is_some(), "a raw identifier loses its mark");
    assert!(ServiceConfig::schema().key("name").expect("it is declared").required);
}

#[test]
fn the_types_limits_hold_without_a_range() {
    config::section! {
        /// One key of each number type.
        pub struct Numbers {
            /// A number.
            a: u8 = 0;
            /// A number.
            b: u64 = 0;
            /// A number.
            c: i8 = 0;
            /// A number.
            d: i64 = 0;
            /// A number.
            e: f64 = 0.0;
            /// A number.
            f_us: i64 = 0;
            /// A number.
            g: u16 = 0, range ..=9;
            /// A text of one length.
            h: String = "EUR", length 3..=3;
            /// A list.
            i: Vec<i8> = [], range 0.., length 0..=2;
            /// A text.
            j: Option<String> = None, length 1..=usize::MAX;
        }
    }
    assert_eq!(config::audit::<Numbers>(), Vec::<String>::new());
    let texts: Vec<String> = Numbers::schema().keys.iter().map(config::Key::expectation).collect();
    assert_eq!(
        texts,
        [
            "an integer from 0 to 255",
            "an integer of at least 0",
            "an integer from -128 to 127",
            "an integer",
            "a number",
            "an integer (microseconds)",
            "an integer from 0 to 9",
            "a string of 3 bytes",
            "a list of at most 2 items, each an integer from 0 to 127",
            "a string of at least 1 byte",
        ]
    );
    let text = "a = 255\nb = 9223372036854775807\nc = -128\nd = -9223372036854775808\ne = -1.5e300\n";
    let value = Loader::new::<Numbers>().file("t", text).load().expect("all are within their types").value;
    assert_eq!(
        (value.a, value.b, value.c, value.d, value.e),
        (255, i64::MAX as u64, -128, i64::MIN, -1.5e300)
    );
    let faults = Loader::new::<Numbers>()
        .file("t", "a = 256\nb = -1\nc = -129\ne = 9007199254740993\ng = 10\n")
        .load();
    assert_eq!(faults.expect_err("none is within its type").as_slice().len(), 5);
}

#[test]
fn a_choice_knows_its_names() {
    let names: Vec<String> = WaitStrategy::ALL.iter().map(ToString::to_string).collect();
    assert_eq!(names, ["busy-spin", "yield", "block"]);
    assert_eq!(WaitStrategy::from_value(&Value::Text("yield".to_owned())), Some(WaitStrategy::Yield));
    assert_eq!(WaitStrategy::from_value(&Value::Text("Yield".to_owned())), None);
    assert_eq!(WaitStrategy::from_default(WaitStrategy::Block).to_value(), Value::Text("block".to_owned()));
}

#[test]
fn the_audit_finds_what_is_wrong_with_a_declaration() {
    config::section! {
        /// Wrong in every way that compiles.
        pub struct Wrong {
            undocumented: u8 = 1;
            /// Upper case.
            #[key = "Port"]
            port: u8 = 1;
            /// A name twice.
            #[key = "undocumented"]
            twice: u8 = 1;
            /// An empty range.
            empty: u8 = 1, range 5.., range ..=4;
            /// Its variable is that of `ab.c`.
            ab_c: u8 = 1;
            /// A section.
            ab: Inner;
        }
    }
    config::section! {
        /// A section.
        pub struct Inner {
            /// Its variable is that of `ab_c`.
            c: u8 = 1;
        }
    }
    assert_eq!(
        config::audit::<Wrong>(),
        [
            "undocumented: no documentation",
            "Port: a name has lower-case letters, digits and `_`, and begins with a letter",
            "undocumented: declared twice",
            "empty: the range is empty, or a choice has one name twice",
            "undocumented: has the variable TICKCAST_UNDOCUMENTED, as undocumented has",
            "ab.c: has the variable TICKCAST_AB_C, as ab_c has",
        ]
    );
}

#[test]
fn the_audit_finds_defaults_that_could_not_be_loaded() {
    config::section! {
        /// Defaults that break the rules.
        pub struct Defaults {
            /// Out of its range.
            low: u8 = 1, range 5..=9;
            /// No TOML integer.
            big: u64 = u64::MAX;
            /// The check wants it to be as great as `low`.
            other: u8 = 2;
            /// Nothing sets it.
            needed: String, required;
        }
        check = Defaults::check;
    }
    impl Defaults {
        fn check(&self) -> Result<(), Vec<config::Complaint>> {
            if self.low == self.other {
                Ok(())
            } else {
                Err(vec![config::Complaint::new(["low"], "low and other differ")])
            }
        }
    }
    assert_eq!(
        config::audit::<Defaults>(),
        [
            "a default cannot be stated in a file",
            "low: the default: `low` must be an integer from 5 to 9, is 1",
        ]
    );

    config::section! {
        /// Defaults that contradict one another.
        pub struct Contradiction {
            /// One.
            a: u8 = 1;
            /// Two.
            b: u8 = 2;
        }
        check = Contradiction::check;
    }
    impl Contradiction {
        fn check(&self) -> Result<(), Vec<config::Complaint>> {
            if self.a == self.b {
                Ok(())
            } else {
                Err(vec![config::Complaint::new(["a", "b"], "a and b must be equal")])
            }
        }
    }
    assert_eq!(config::audit::<Contradiction>(), ["top level: the defaults: a and b must be equal"]);
}

mod rate {
    //! A type with a textual form that a number may stand for.

    use tickcast_config as config;

    /// So many a second; none is "max".
    #[derive(Clone, Debug, PartialEq)]
    pub(super) struct Rate(pub(super) Option<f64>);

    impl std::fmt::Display for Rate {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            match self.0 {
                Some(rate) => rate.fmt(f),
                None => f.write_str("max"),
            }
        }
    }

    impl std::str::FromStr for Rate {
        type Err = &'static str;
        fn from_str(text: &str) -> Result<Self, Self::Err> {
            let rate = text.parse().ok().filter(|rate| *rate > 0.0);
            if text == "max" { Ok(Rate(None)) } else { rate.map(Some).map(Rate).ok_or("max or more than 0") }
        }
    }

    config::text_type!(Rate, "a rate", "rate", example "10" or number);

    config::section! {
        /// What one side of a connection may do.
        pub(super) struct SideConfig {
            /// Messages.
            messages: Rate = Rate(None);
            /// Whether it may write.
            writes: bool = true;
        }
    }

    config::section! {
        /// Both sides of a connection.
        pub(super) struct BothConfig {
            /// The one that only reads.
            reader: SideConfig, without ["writes"];
            /// The other.
            writer: SideConfig;
        }
    }
}

#[test]
fn a_number_stands_for_its_text_where_a_type_says_so() {
    let load =
        |text: &str| Loader::new::<rate::SideConfig>().file("f.toml", format!("messages = {text}")).load();
    for (text, rate) in [("5", 5.0), ("0.25", 0.25), ("1_000", 1000.0), ("0x10", 16.0), ("\"5\"", 5.0)] {
        let loaded = load(text).unwrap_or_else(|faults| panic!("{faults}"));
        assert_eq!(loaded.value.messages, rate::Rate(Some(rate)), "{text}");
    }
    let refused = |text: &str| load(text).expect_err(text).as_slice()[0].message().to_owned();
    assert_eq!(refused("-1"), "`messages` must be a rate such as 10, is the integer -1; max or more than 0");
    assert_eq!(refused("true"), "`messages` must be a rate such as 10, is true");
    assert_eq!(
        refused("99999999999999999999"),
        "`messages` must be a rate such as 10, is an integer of more than 64 bits"
    );
    let flag = Loader::new::<rate::SideConfig>().set("messages=2.5").load().expect("flags are texts");
    assert_eq!(flag.value.messages, rate::Rate(Some(2.5)));
}

#[test]
fn a_key_that_is_withheld_cannot_be_set_and_is_shown_nowhere() {
    assert_eq!(config::audit::<rate::BothConfig>(), Vec::<String>::new());
    let load = |text: &str| Loader::new::<rate::BothConfig>().file("f.toml", text).load();
    let refused = load("[reader]\nwrites = true\n").expect_err("withheld");
    assert_eq!(
        refused.as_slice()[0].message(),
        "unknown key `writes` in [reader]; a key of this name belongs in [writer]"
    );
    let loaded = load("[writer]\nwrites = false\n").expect("legal");
    assert!(loaded.value.reader.writes && !loaded.value.writer.writes);
    for text in [config::reference::<rate::BothConfig>(), loaded.show()] {
        let (reader, writer) = text.split_once("[writer]").expect("both sections");
        assert!(!reader.contains("writes") && writer.contains("writes"), "{text}");
    }
    assert_eq!(loaded.json().matches("\"writes\"").count(), 1, "{}", loaded.json());
}
