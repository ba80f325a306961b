//! What tests and measurements share. Crates of the product use it in their tests only (`dependencies.toml`). It uses
//! no crate of ours, so the tests of every crate can use it.
//!
//! - [`repeat`](mod@repeat): seeds of random tests, and the command that repeats a failed one;
//! - [`Folder`]: a temporary folder, removed with its owner;
//! - [`hosts`]: two hosts joined by a cable, as network namespaces;
//! - [`child`]: children made by `fork`, users;
//! - [`watchdog`]: waits that end.
//!
//! ```
//! use tickcast_testkit as testkit;
//!
//! let mut sum = 0;
//! testkit::for_each_seed!(0..10, |seed| sum += seed);
//! assert_eq!(sum, 45);
//! ```

pub mod child;
mod folder;
pub mod hosts;
pub mod repeat;
mod sockets;
pub mod watchdog;

pub use folder::Folder;
pub use sockets::refuse_offload;
