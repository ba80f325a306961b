//! How a source and many receivers get along: storms of NAKs, receivers that ask for too much, sources that
//! share a link, packets with keyed codes, and encrypted ones.

mod authentication;
#[path = "../support/ciphers.rs"]
mod ciphers;
mod congestion;
mod crybabies;
mod encryption;
mod group;
mod hostile;
#[path = "../support/keys.rs"]
mod keys;
mod link;
#[path = "../support/pcap.rs"]
mod pcap;
