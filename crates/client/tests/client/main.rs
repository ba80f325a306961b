//! Consumer and provider against servers that are scripted, recorded, or real sockets.

mod consumers;
mod dictionary;
mod items;
mod services;
mod session;
mod world;
