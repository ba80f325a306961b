//! LBM-family packets and the reliability state machines: windows, NAKs, reassembly, topic resolution. Sans-IO.
