//! Connections driven from outside, as a socket would.

mod both_ends;
mod counters_move;
mod hostile;
mod reading;
mod recorded;
mod support;
mod timers;
