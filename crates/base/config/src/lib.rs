//! The TOML schema: one description of each key feeds parsing, errors, defaults and the reference page.
//!
//! A crate declares its keys with [`section!`] and [`choice!`]: name, type, default, range and meaning, each
//! once. The program puts the sections together in a section of its own and loads it from its layers: the
//! defaults, a preset if a section has chosen one, files, the environment, `--set` flags. This crate opens no file and reads no environment; the
//! texts come in as arguments.
//!
//! ```
//! # use tickcast_config as config;
//! config::section! {
//!     /// Everything.
//!     pub struct RootConfig {
//!         /// The point-to-point server.
//!         p2ps: P2psConfig;
//!     }
//! }
//! config::section! {
//!     /// The point-to-point server.
//!     pub struct P2psConfig {
//!         /// Port on which RSSL consumers connect.
//!         port: u16 = 14002, range 1..=65535;
//!     }
//! }
//!
//! let loaded = config::Loader::new::<RootConfig>()
//!     .file("tickcast.toml", "[p2ps]\nport = 14010\n")
//!     .environment([("TICKCAST_P2PS_PORT", "14011"), ("HOME", "/root")])
//!     .set("p2ps.port=14012")
//!     .load()?;
//! assert_eq!(loaded.value.p2ps.port, 14012);
//! assert_eq!(loaded.origins.of("p2ps.port").to_string(), "--set");
//!
//! let refused = config::Loader::new::<RootConfig>().file("tickcast.toml", "[p2ps]\nprot = 14010\n").load();
//! assert_eq!(refused.expect_err("there is no such key").to_string(), "\
//! tickcast.toml:2:1: unknown key `prot` in [p2ps]; did you mean `port`?
//!   2 | prot = 14010
//!     | ^^^^
//!
//! 1 error in the configuration");
//! # Ok::<(), config::Faults>(())
//! ```
//!
//! # Promise
//!
//! - A later layer's value counts, key by key, and every value knows where it came from
//!   (`layers.rs`: `each_layer_overrides_the_one_below_and_every_value_knows_its_origin`).
//! - A preset stands under every other layer, wherever it is chosen (`presets.rs`:
//!   `a_preset_stands_under_every_layer_wherever_it_is_chosen`).
//! - A key that has another name now is refused with it under the former one (`renamed.rs`:
//!   `a_former_name_is_refused_with_the_present_one_in_a_file`).
//! - Whatever is wrong is reported, all of it at once, each fault with its place and what was expected
//!   (`faults.rs`: `all_faults_of_all_layers_are_reported_at_once`, and one test for each kind of fault).
//! - What is shown is a file that gives the same configuration (`properties.rs`:
//!   `what_is_shown_loads_to_the_same_configuration`).
//! - No text makes the loader panic (`properties.rs`: `no_mutation_of_a_valid_file_makes_the_loader_panic`,
//!   `no_text_at_all_makes_the_loader_panic`).
//! - The reference page has every key with its type, default, range, unit and meaning (`pages.rs`:
//!   `the_reference_page_is_made_from_the_same_table`).
//!
//! There is no type for secrets: [`Loaded::show`] shows every value. Let a key name the file that holds the
//! secret.

mod address;
mod admit;
mod audit;
mod choice;
mod complaint;
mod document;
mod fault;
mod json;
mod key_builder;
mod key_type;
mod kind;
mod loader;
mod nearest;
mod origin;
mod overrides;
mod path;
mod presets;
mod range;
mod reading;
mod reference;
mod schema;
mod section;
mod show;
mod source;
mod tree;
mod value;

pub use address::{CidrError, Ipv4Cidr};
pub use audit::audit;
pub use complaint::Complaint;
#[doc(hidden)]
pub use complaint::Complaints;
pub use fault::{FAULTS_MAX, Fault, FaultKind, Faults};
pub use key_builder::KeyBuilder;
pub use key_type::{FromDefault, KeyType, Measured, Nested, Ranged};
pub use kind::{ChoiceName, Kind, Length, TextFormat};
pub use loader::{Loaded, Loader, TEXT_BYTES_MAX};
pub use origin::{Origin, Origins};
pub use overrides::ENVIRONMENT_PREFIX;
pub use range::{KeyRange, Number};
pub use reference::reference;
#[doc(hidden)]
pub use schema::plain_name;
pub use schema::{Key, PRESET_KEY, PresetValues, Schema};
pub use section::Section;
pub use source::{Layer, Location};
pub use value::Value;
