use crate::counters;

counters! {
    /// One AF_XDP socket.
    struct XdpSocket("xdp_socket") {
        datagrams_sent: Total, "datagrams", "Datagrams handed over as frames.";
        datagrams_sent_by_kernel: Total, "datagrams", "Datagrams sent through an ordinary socket: the Ethernet address was unknown or in doubt, or the host is not reached through the interface.";
        sends_blocked: Total, "calls", "Sends refused because no frame, or no room in the kernel, was free.";
        datagrams_received: Total, "datagrams", "Datagrams taken from frames.";
        frames_malformed: Total, "frames", "Frames dropped because they hold no whole plain datagram.";
        checksum_errors: Total, "frames", "Frames dropped because a checksum is wrong.";
        checksums_unfinished: Total, "datagrams", "Datagrams taken whose checksum their host left to a device that is none.";
        datagrams_dropped_by_kernel: Gauge, "datagrams", "Datagrams that found no free frame or were too long for one, as the kernel last said.";
        fill_ring_empty: Gauge, "times", "How often the kernel found no free frame, as it last said.";
        fragments_passed: Gauge, "datagrams", "Datagrams in fragments, which are left to the kernel and not received, as it last said.";
        other_queue_passed: Gauge, "datagrams", "Datagrams on queues without a socket, which are left to the kernel and not received, as it last said.";
        flows_forgotten: Gauge, "times", "How often more addresses were sent to than are remembered.";
    }
}
