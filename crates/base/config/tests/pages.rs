//! The display, its JSON form and the reference page, in full.

mod sample;

use config::{Loaded, Loader};
use sample::RootConfig;
use tickcast_config as config;

config::section! {
    /// A small configuration.
    pub struct SmallConfig {
        /// Name of this process.
        instance: String = "tickcast", length 1..=32;
        /// The point-to-point server.
        p2ps: P2psConfig;
        /// Status pages.
        admin: Option<AdminConfig> = None;
        /// A service.
        #[key = "service"]
        services: Vec<ServiceConfig>;
        /// A feed.
        #[key = "feed"]
        feeds: Vec<ServiceConfig>;
    }
}

config::section! {
    /// The point-to-point server: takes each update once and gives it to every watcher.
    pub struct P2psConfig {
        /// Port on which RSSL consumers connect.
        port: u16 = 14002, range 1..=65535;
        /// How long an item stays subscribed upstream after its last watcher has left.
        ///
        /// Short for many items | long for few.
        item_linger_ms: u64 = 5_000, range 0..=3_600_000;
        /// How the thread waits for work.
        wait: WaitStrategy = WaitStrategy::Block;
        /// Port for TLS.
        tls_port: Option<u16> = None, range 1..;
        /// Cores that the threads run on.
        cpus: Vec<u16> = [0, 1], range ..=1023, length 1..=8;
    }
}

config::section! {
    /// HTTP for people.
    pub struct AdminConfig {
        /// Whether it may change anything.
        read_only: bool = true;
    }
}

config::section! {
    /// What can be asked for.
    pub struct ServiceConfig {
        /// Name by which items are requested.
        name: String, required;
        /// What is kept.
        cache: CacheConfig;
    }
}

config::section! {
    /// What is kept.
    pub struct CacheConfig {
        /// Share of memory.
        share: f64 = 0.5, range 0.0..=1.0;
    }
}

config::choice! {
    /// How a thread waits.
    pub enum WaitStrategy {
        /// Polls without pause: least latency,
        /// one core each.
        BusySpin = "busy-spin",
        /// Sleeps until there is work.
        Block = "block",
    }
}

fn small() -> Loaded<SmallConfig> {
    let file = "[p2ps]\nport = 14010\n[[service]]\nname = \"A\"\n[[service]]\nname = \"B \\\" \\\\\"\ncache.share = 1\n";
    let loader = Loader::new::<SmallConfig>().file("tickcast.toml", file);
    let loader = loader.environment([("TICKCAST_P2PS_WAIT", "busy-spin")]).set("p2ps.cpus=2,3");
    loader.load().unwrap_or_else(|faults| panic!("{faults}"))
}

#[test]
fn the_display_is_toml_with_documentation_and_origins() {
    assert_eq!(
        small().show(),
        r#"# Name of this process. A string of 1 to 32 bytes; default "tickcast".
instance = "tickcast"  # default

# The point-to-point server.
[p2ps]
# Port on which RSSL consumers connect. An integer from 1 to 65535; default 14002.
port           = 14010        # tickcast.toml:2
# How long an item stays subscribed upstream after its last watcher has left. An integer from 0 to
# 3600000 milliseconds; default 5000.
item_linger_ms = 5000         # default
# How the thread waits for work. One of "busy-spin", "block"; default "block".
wait           = "busy-spin"  # TICKCAST_P2PS_WAIT
# Port for TLS. An integer from 1 to 65535; not set by default.
# tls_port is not set         # default
# Cores that the threads run on. A list of 1 to 8 items, each an integer from 0 to 1023; default [0,
# 1].
cpus           = [2, 3]       # --set

# Status pages.
# [admin] is not set

# A service.
[[service]]
# Name by which items are requested. A string; required.
name = "A"  # tickcast.toml:4

# What is kept.
[service.cache]
# Share of memory. A number from 0.0 to 1.0; default 0.5.
share = 0.5  # default

[[service]]
name = "B \" \\"  # tickcast.toml:6

[service.cache]
share = 1.0  # tickcast.toml:7

# A feed.
# [[feed]]: none
"#
    );
}

#[test]
fn the_json_form_has_values_and_origins() {
    let expected = r#"{
  "values": {
    "admin": null,
    "feed": [],
    "instance": "tickcast",
    "p2ps": {
      "cpus": [2, 3],
      "item_linger_ms": 5000,
      "port": 14010,
      "tls_port": null,
      "wait": "busy-spin"
    },
    "service": [
      {
        "cache": {
          "share": 0.5
        },
        "name": "A"
      },
      {
        "cache": {
          "share": 1.0
        },
        "name": "B \" \\"
      }
    ]
  },
  "origins": {
    "instance": { "layer": "default" },
    "p2ps.port": { "layer": "file", "name": "tickcast.toml", "line": 2 },
    "p2ps.item_linger_ms": { "layer": "default" },
    "p2ps.wait": { "layer": "environment", "name": "TICKCAST_P2PS_WAIT" },
    "p2ps.tls_port": { "layer": "default" },
    "p2ps.cpus": { "layer": "flag" },
    "service.0.name": { "layer": "file", "name": "tickcast.toml", "line": 4 },
    "service.0.cache.share": { "layer": "default" },
    "service.1.name": { "layer": "file", "name": "tickcast.toml", "line": 6 },
    "service.1.cache.share": { "layer": "file", "name": "tickcast.toml", "line": 7 }
  }
}
"#;
    assert_eq!(small().json(), expected);
}

#[test]
fn the_json_form_is_json_whatever_the_strings_hold() {
    let nasty = "a\u{0}\u{1f}\"\\\u{7f}\u{2028}é\n\t\r";
    let loaded =
        Loader::new::<RootConfig>().set(format!("p2ps.type={nasty}")).load().expect("any text is a string");
    let json: serde_json::Value = serde_json::from_str(&loaded.json()).expect("it is JSON");
    assert_eq!(json["values"]["p2ps"]["type"], nasty);
    assert_eq!(json["values"]["p2ps"]["rate_bits_per_second"], 1_000_000_000);
    assert_eq!(json["origins"]["p2ps.type"]["layer"], "flag");
}

#[test]
fn the_reference_page_is_made_from_the_same_table() {
    assert_eq!(
        config::reference::<SmallConfig>(),
        r#"# Configuration reference

Each key can be set in the file, by an environment variable or by a flag; of these, the later counts. The variable of a key is `TICKCAST_` and its full name in capitals with `_` between the parts: `p2ps.port` is `TICKCAST_P2PS_PORT`, and `--set p2ps.port=...` as a flag. In tables that can stand several times (`[[...]]`) the number of the table, from 0, is a part of the name.

## Top level

| key | type | default | range | unit | meaning |
|---|---|---|---|---|---|
| `instance` | string | `"tickcast"` | 1 to 32 bytes |  | Name of this process. |

## `[p2ps]`

The point-to-point server: takes each update once and gives it to every watcher.

| key | type | default | range | unit | meaning |
|---|---|---|---|---|---|
| `port` | integer | `14002` | 1 to 65535 |  | Port on which RSSL consumers connect. |
| `item_linger_ms` | integer | `5000` | 0 to 3600000 | milliseconds | How long an item stays subscribed upstream after its last watcher has left.<br>Short for many items \| long for few. |
| `wait` | choice | `"block"` | "busy-spin", "block" |  | How the thread waits for work.<br>`busy-spin`: Polls without pause: least latency, one core each.<br>`block`: Sleeps until there is work. |
| `tls_port` | integer, optional | not set | 1 to 65535 |  | Port for TLS. |
| `cpus` | list of integer | `[0, 1]` | 1 to 8 items, each 0 to 1023 |  | Cores that the threads run on. |

## `[admin]`

Status pages.

HTTP for people.

Optional: absent by default.

| key | type | default | range | unit | meaning |
|---|---|---|---|---|---|
| `read_only` | boolean | `true` |  |  | Whether it may change anything. |

## `[[service]]`

A service.

What can be asked for.

Can stand any number of times.

| key | type | default | range | unit | meaning |
|---|---|---|---|---|---|
| `name` | string | required |  |  | Name by which items are requested. |

## `[service.cache]`

What is kept.

| key | type | default | range | unit | meaning |
|---|---|---|---|---|---|
| `share` | number | `0.5` | 0.0 to 1.0 |  | Share of memory. |

## `[[feed]]`

A feed.

What can be asked for.

Can stand any number of times.

| key | type | default | range | unit | meaning |
|---|---|---|---|---|---|
| `name` | string | required |  |  | Name by which items are requested. |

## `[feed.cache]`

What is kept.

| key | type | default | range | unit | meaning |
|---|---|---|---|---|---|
| `share` | number | `0.5` | 0.0 to 1.0 |  | Share of memory. |
"#
    );
}

#[test]
fn a_files_name_cannot_break_out_of_its_comment() {
    let loader = Loader::new::<SmallConfig>().file("a\nport = 1\u{7f}", "p2ps.port = 2\n");
    let shown = loader.load().expect("the file is right").show();
    assert!(shown.contains("port           = 2        # a\\nport = 1\\u{7f}:1\n"), "{shown}");
    let again = Loader::new::<SmallConfig>().file("again", shown).load().expect("it is TOML");
    assert_eq!(again.value.p2ps.port, 2);
}

#[test]
fn a_long_value_does_not_push_the_others_origins_away() {
    let long = "x".repeat(100);
    let loaded =
        Loader::new::<RootConfig>().set(format!("p2ps.type={long}")).load().expect("any text is a string");
    let shown = loaded.show();
    assert!(shown.contains(&format!("type                 = \"{long}\"  # --set\n")), "{shown}");
    assert!(shown.contains("port                 = 14002          # default\n"), "{shown}");
}
