use std::ops::AddAssign;

/// What has gone through one connection in one direction.
///
/// The same is counted for every protocol, so that connections can be compared whatever they speak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// Bytes of the TCP connection before encryption, handshake included.
    pub bytes: u64,
    /// Frames, pings included.
    pub frames: u64,
    /// Messages.
    pub messages: u64,
    /// Frames that hold several messages.
    pub packed_frames: u64,
    /// Messages in those.
    pub packed_messages: u64,
    /// Bytes of compressed payloads as they are on the wire.
    pub compressed_bytes: u64,
    /// Bytes of the same payloads in clear.
    pub expanded_bytes: u64,
}

impl Flow {
    /// What the bytes would be without compression.
    #[must_use]
    pub fn clear_bytes(&self) -> u64 {
        (self.bytes + self.expanded_bytes).saturating_sub(self.compressed_bytes)
    }

    /// The part of the messages that shared a frame, 0 to 1; 0 before the first message.
    #[must_use]
    pub fn packed_ratio(&self) -> f64 {
        ratio(self.packed_messages, self.messages).unwrap_or(0.0)
    }

    /// How many times longer compressed payloads are in clear; 1 before the first one.
    #[must_use]
    pub fn compression_ratio(&self) -> f64 {
        ratio(self.expanded_bytes, self.compressed_bytes).unwrap_or(1.0)
    }
}

impl AddAssign for Flow {
    fn add_assign(&mut self, more: Flow) {
        self.bytes += more.bytes;
        self.frames += more.frames;
        self.messages += more.messages;
        self.packed_frames += more.packed_frames;
        self.packed_messages += more.packed_messages;
        self.compressed_bytes += more.compressed_bytes;
        self.expanded_bytes += more.expanded_bytes;
    }
}

fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_without_traffic_has_ratios() {
        let flow = Flow::default();
        assert_eq!((flow.packed_ratio(), flow.compression_ratio()), (0.0, 1.0));
    }

    #[test]
    fn ratios_are_those_of_messages_and_of_payloads() {
        let mut flow = Flow { bytes: 1300, frames: 7, messages: 30, packed_messages: 20, ..Flow::default() };
        flow += Flow { compressed_bytes: 1000, expanded_bytes: 3000, ..Flow::default() };
        assert_eq!(flow.clear_bytes(), 3300);
        assert_eq!((flow.packed_ratio(), flow.compression_ratio()), (2.0 / 3.0, 3.0));
    }
}
