config::section! {
    /// JSON over WebSocket in place of RSSL.
    pub struct WebSocketConfig {
        /// Path of the upgrade request.
        path: String = "/WebSocket", length 1..=1024;
        /// Whether compressed messages are offered (`permessage-deflate`).
        compression: bool = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_declaration_is_sound() {
        assert_eq!(config::audit::<WebSocketConfig>(), Vec::<String>::new());
    }
}
