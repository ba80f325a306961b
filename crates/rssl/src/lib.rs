//! RSSL connections as state machines: handshake, framing, packing, fragmentation, pings. Sans-IO.
