//! Consumer and provider against servers that are scripted, recorded, or real sockets.

mod consumer;
mod world;
