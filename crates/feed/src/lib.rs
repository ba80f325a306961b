//! Feed handlers and replay of recorded markets.
