//! The domains against what the public libraries sent, against themselves, and against spoilt input.

mod dictionary;
mod directory;
mod expectations;
mod hostile;
mod recorded;
mod sessions;
mod support;
