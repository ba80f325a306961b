//! RWF messages as the JSON of the WebSocket API, and back. No I/O.
