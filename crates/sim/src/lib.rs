//! Deterministic simulator: the pure rooms under virtual time, loss, reordering and crashes.
