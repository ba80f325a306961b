//! Rssl Wire Format: zero-copy views, an encoder into the caller's buffer, the data dictionary. No I/O.
