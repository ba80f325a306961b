//! UDP datagrams past the kernel's network stack, by AF_XDP.
//!
//! A frame that arrives is looked at by a small program in the kernel, before the network stack
//! ([`DESTINATIONS_MAX`] addresses at most); datagrams to our addresses go into memory that the kernel and
//! we share, everything else goes on to the kernel. What we send is written as a whole frame into the same
//! memory. On both sides there remains one system call a batch at most, and none to receive while spinning.
//! The packets on the wire are those of a UDP socket.
//!
//! # What is supported
//!
//! - One [`XdpSocket`] on one queue of one Ethernet interface, used by one thread. An interface takes one
//!   program, so a second socket on it, of this process or of another, is refused by name
//!   (`a_second_socket_on_an_interface_is_refused_by_name`). Several groups and ports share the socket.
//! - IPv4 without options, datagrams within the MTU and the frames of the socket
//!   (`a_datagram_that_no_frame_holds_is_refused_with_the_limit`). Fragments and what comes on other queues
//!   are left to the kernel and counted (`fragments_are_passed_and_counted`).
//! - Sending to groups, and to hosts that the kernel reaches through the interface. A host whose Ethernet
//!   address is not known is sent to by the kernel, which then finds it out
//!   (`an_unresolved_neighbour_is_reached_by_the_kernel_first_and_by_frames_then`). A host that is reached
//!   otherwise, this one included, always is.
//! - Programs on this host do not hear what is sent to a group here: the frames leave at once.
//!
//! # What is promised, and which test proves it
//!
//! - What is sent arrives at an ordinary socket byte for byte, and the reverse, in generic mode and in that
//!   of the driver (`datagrams_of_every_length_arrive_at_a_socket_byte_for_byte`,
//!   `datagrams_of_a_socket_of_every_length_arrive_byte_for_byte`).
//! - Checksums are written, and wrong ones are dropped and counted
//!   (`a_wrong_checksum_is_dropped_and_counted`).
//! - Other traffic of the interface is not touched (`other_ports_and_protocols_go_on_to_the_kernel`).
//! - A full ring is would-block, and sending goes on afterwards (`a_full_ring_blocks_until_frames_return`);
//!   what does not find a frame is dropped by the kernel and counted
//!   (`what_finds_no_frame_is_counted_and_reception_goes_on`).
//! - When the interface is taken away there is an error, without a wait
//!   (`an_interface_that_is_taken_away_is_an_error`).
//! - The program goes with the socket, at the latest with the process
//!   (`the_interface_is_free_again_when_the_socket_is_dropped`).
//! - Every interleaving of the positions of a ring keeps entries whole and in order
//!   (`every_interleaving_hands_over_whole_entries_in_order`, by loom).

mod anchor;
mod bare;
mod bpf;
mod checksum;
mod flow;
pub mod frame;
mod memory;
mod netlink;
mod open;
mod option;
mod program;
mod receive;
mod ring;
mod send;
mod service;
mod socket;

pub use bare::BareSocket;
pub use program::DESTINATIONS_MAX;
pub use receive::{XdpDatagram, XdpReceived};
pub use socket::{RECEIVE_MAX, XdpSocket};

use std::net::Ipv4Addr;
use std::time::Duration;

/// Where in the kernel the program looks at frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum XdpMode {
    /// In the driver where it can, else in the generic place.
    #[default]
    Auto,
    /// Behind the driver, with any interface.
    Generic,
    /// In the driver; refused where the driver cannot.
    Native,
}

/// How frames get between the device and the shared memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum XdpCopy {
    /// By the device itself where it can, else copied.
    #[default]
    Auto,
    /// Copied by the kernel.
    Copy,
    /// By the device; refused where it cannot.
    ZeroCopy,
}

/// How a socket is opened.
#[derive(Clone, Copy, Debug)]
pub struct XdpOptions {
    /// An address of the interface; it is the sender's address of all that is sent.
    pub interface: Ipv4Addr,
    /// The receive queue of the interface to which the datagrams come.
    pub queue: u32,
    /// Where the program runs.
    pub mode: XdpMode,
    /// How frames get into memory.
    pub copy: XdpCopy,
    /// How many routers a datagram to a group may cross, plus one.
    pub ttl: u8,
    /// Frames to receive into, a power of two from 128 to 65,536: what may wait unread.
    pub receive_frames: u32,
    /// Frames to send from, a power of two from 64 to 65,536: what may wait unsent.
    pub send_frames: u32,
    /// Bytes of a frame, 2,048 or 4,096. 256 of them stay free before a frame that arrives.
    pub frame_bytes: u32,
    /// Whether UDP checksums are written, and checked.
    pub checksum: bool,
    /// How long a look at an empty ring works in the driver instead of waiting for its interrupt; zero: not
    /// at all. For devices with queues in hardware. Each such look is a system call.
    pub busy_poll: Duration,
}

impl XdpOptions {
    /// The defaults on the interface of an address: any mode, queue 0, 4,096 frames to receive and 2,048 to
    /// send of 2 KiB (12 MiB), checksums, no busy polling by the kernel.
    #[must_use]
    pub fn on(interface: Ipv4Addr) -> XdpOptions {
        XdpOptions {
            interface,
            queue: 0,
            mode: XdpMode::Auto,
            copy: XdpCopy::Auto,
            ttl: 16,
            receive_frames: 4096,
            send_frames: 2048,
            frame_bytes: 2048,
            checksum: true,
            busy_poll: Duration::ZERO,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
