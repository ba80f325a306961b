//! The TOML schema: one description of each key feeds parsing, errors, defaults and the reference page.
