//! Packets as a capture file that tshark reads, and the judgement of the wire checker where it is at hand.

use std::net::SocketAddrV4;
use std::path::{Path, PathBuf};
use std::process::Command;
use units::Nanos;

/// A capture being written: classic format, microseconds, Ethernet, IPv4, UDP with right checksums.
pub(crate) struct Capture {
    bytes: Vec<u8>,
    ip_id: u16,
}

impl Capture {
    pub(crate) fn new() -> Capture {
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&0xa1b2_c3d4u32.to_le_bytes());
        bytes.extend_from_slice(&2u16.to_le_bytes());
        bytes.extend_from_slice(&4u16.to_le_bytes());
        for word in [0u32, 0, 65_535, 1] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        Capture { bytes, ip_id: 0 }
    }

    pub(crate) fn udp(&mut self, at: Nanos, from: SocketAddrV4, to: SocketAddrV4, payload: &[u8]) {
        let ip = ipv4(self.ip_id, from, to, &udp(from, to, payload));
        self.ip_id = self.ip_id.wrapping_add(1);
        let frame = [&mac(to)[..], &mac(from), &[0x08, 0x00], &ip].concat();
        let micros = 1_700_000_000_000_000 + at.0 / 1_000;
        let len = frame.len() as u32;
        for word in [(micros / 1_000_000) as u32, (micros % 1_000_000) as u32, len, len] {
            self.bytes.extend_from_slice(&word.to_le_bytes());
        }
        self.bytes.extend_from_slice(&frame);
    }

    /// Writes the file into the temporary directory of the target.
    pub(crate) fn write(&self, name: &str) -> PathBuf {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::write(&path, &self.bytes).expect("the target directory can be written");
        path
    }
}

fn mac(address: SocketAddrV4) -> [u8; 6] {
    let [a, b, c, d] = address.ip().octets();
    if address.ip().is_multicast() { [0x01, 0, 0x5e, b & 0x7f, c, d] } else { [0x02, 0, a, b, c, d] }
}

fn udp(from: SocketAddrV4, to: SocketAddrV4, payload: &[u8]) -> Vec<u8> {
    let len = (8 + payload.len()) as u16;
    let mut out = Vec::with_capacity(usize::from(len));
    for word in [from.port(), to.port(), len, 0] {
        out.extend_from_slice(&word.to_be_bytes());
    }
    out.extend_from_slice(payload);
    let pseudo = [&from.ip().octets()[..], &to.ip().octets(), &[0, 17], &len.to_be_bytes()].concat();
    let sum = match checksum(&[&pseudo, &out]) {
        0 => 0xffff,
        sum => sum,
    };
    out[6..8].copy_from_slice(&sum.to_be_bytes());
    out
}

fn ipv4(id: u16, from: SocketAddrV4, to: SocketAddrV4, segment: &[u8]) -> Vec<u8> {
    let len = (20 + segment.len()) as u16;
    let mut header = vec![0x45, 0];
    for word in [len, id, 0x4000] {
        header.extend_from_slice(&word.to_be_bytes());
    }
    header.extend_from_slice(&[16, 17, 0, 0]);
    header.extend_from_slice(&from.ip().octets());
    header.extend_from_slice(&to.ip().octets());
    let sum = checksum(&[&header]);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    header.extend_from_slice(segment);
    header
}

/// The Internet checksum over parts that are each of even length, except the last.
fn checksum(parts: &[&[u8]]) -> u16 {
    let word = |pair: &[u8]| u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0));
    let mut sum: u32 = parts.iter().flat_map(|p| p.chunks(2)).map(word).sum();
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    !(sum as u16)
}

/// Lets the wire checker judge the capture, if it and tshark are on this machine.
pub(crate) fn judge(capture: &Path, arguments: &[&str]) {
    let checker = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../../shared/interop/check-lbm-wire");
    let has_tshark = Command::new("tshark").arg("--version").output().is_ok_and(|o| o.status.success());
    if !checker.exists() || !has_tshark {
        println!("not judged: the wire checker or tshark is not here; the capture is {}", capture.display());
        return;
    }
    let output = Command::new(&checker).args(arguments).arg(capture).output().expect("the checker starts");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}\n{said}", capture.display());
    println!("{said}");
}
