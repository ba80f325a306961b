//! How a source and many receivers get along: storms of NAKs, receivers that ask for too much, sources that
//! share a link, and packets with keyed codes.

mod authentication;
mod congestion;
mod crybabies;
mod group;
mod hostile;
#[path = "../support/keys.rs"]
mod keys;
mod link;
#[path = "../support/pcap.rs"]
mod pcap;
