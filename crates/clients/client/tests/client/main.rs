//! Consumer and provider against servers that are scripted, recorded, or real sockets.

mod channel;
mod consumers;
mod dialled;
mod dictionary;
mod group;
mod hostile;
mod interactive;
mod interactive_web;
mod items;
mod names;
mod newcomer;
mod provider;
mod recorded;
mod services;
mod session;
mod session_file;
mod sockets;
mod standby;
mod telling;
mod web;
mod world;
