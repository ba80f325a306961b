//! WebSocket connections (RFC 6455, RFC 7692) as state machines. No I/O.
