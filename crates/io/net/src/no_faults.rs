//! What sockets have of [`faults`](crate::faults) without that feature: none.

use std::net::SocketAddrV4;

#[derive(Debug)]
pub(crate) struct SocketFaults;

impl SocketFaults {
    #[inline]
    pub(crate) fn of_new_socket() -> SocketFaults {
        SocketFaults
    }

    #[inline]
    pub(crate) fn are_possible(&self) -> bool {
        false
    }

    #[inline]
    pub(crate) fn is_cut(&self) -> bool {
        false
    }

    pub(crate) fn pass(&self, arrived: Vec<(SocketAddrV4, Vec<u8>)>) -> Vec<(SocketAddrV4, Vec<u8>)> {
        arrived
    }
}
