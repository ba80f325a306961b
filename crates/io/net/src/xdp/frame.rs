//! Ethernet, IPv4 and UDP around a datagram: headers from a template, and what a frame holds.
//!
//! Layout of a frame, all numbers in network order:
//!
//! | at | bytes | what |
//! |---|---|---|
//! | 0 | 6, 6, 2 | Ethernet: destination, source, type 0x0800 |
//! | 14 | 1, 1, 2 | IPv4: version 4 and 5 words of header, class 0, length with header |
//! | 18 | 2, 2 | identification 0 (RFC 6864: it means nothing where nothing is fragmented), don't fragment |
//! | 22 | 1, 1, 2 | time to live, protocol 17, checksum of the header |
//! | 26 | 4, 4 | addresses: source, destination |
//! | 34 | 2, 2, 2, 2 | UDP: ports, length with header, checksum (0: none) |
//! | 42 | | payload; a frame under 60 bytes is filled up behind it on the wire |

use std::fmt;
use std::net::{Ipv4Addr, SocketAddrV4};

use super::checksum::Sum;

/// Bytes of the headers before a payload.
pub const HEADERS_LEN: usize = 42;
/// Bytes of the IPv4 and UDP headers, which count against the MTU.
pub const IP_UDP_LEN: usize = 28;

const ETHERNET_LEN: usize = 14;
const IP_LEN: usize = 20;
const UDP_LEN: usize = 8;
const UDP: u8 = 17;

/// An Ethernet address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MacAddress(pub [u8; 6]);

impl MacAddress {
    /// Where frames to a multicast group go: 01:00:5e and the low 23 bits of the group (RFC 1112).
    #[must_use]
    pub fn of_group(group: Ipv4Addr) -> MacAddress {
        let [_, b, c, d] = group.octets();
        MacAddress([0x01, 0x00, 0x5e, b & 0x7f, c, d])
    }
}

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// Who sends to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// Address of the sending interface.
    pub source: MacAddress,
    /// Address of the next hop, or of the group.
    pub destination: MacAddress,
    /// Sending address and port.
    pub from: SocketAddrV4,
    /// Address and port it is for.
    pub to: SocketAddrV4,
    /// Routers it may cross, plus one.
    pub ttl: u8,
}

/// The headers of all datagrams between two ends but for lengths and checksums, of which the parts that
/// never change are summed.
#[derive(Clone, Copy, Debug)]
pub struct Headers {
    bytes: [u8; HEADERS_LEN],
    ip: Sum,
    /// Of the pseudo-header and the ports; without it datagrams carry no checksum.
    udp: Option<Sum>,
}

impl Headers {
    /// The template for datagrams between two ends, with UDP checksums or without.
    #[must_use]
    pub fn new(ends: &Ends, udp_checksum: bool) -> Headers {
        let mut bytes = [0; HEADERS_LEN];
        bytes[0..6].copy_from_slice(&ends.destination.0);
        bytes[6..12].copy_from_slice(&ends.source.0);
        bytes[12..14].copy_from_slice(&[0x08, 0x00]);
        bytes[14] = 0x45;
        bytes[20] = 0x40;
        bytes[22] = ends.ttl;
        bytes[23] = UDP;
        bytes[26..30].copy_from_slice(&ends.from.ip().octets());
        bytes[30..34].copy_from_slice(&ends.to.ip().octets());
        bytes[34..36].copy_from_slice(&ends.from.port().to_be_bytes());
        bytes[36..38].copy_from_slice(&ends.to.port().to_be_bytes());
        let ip = Sum::of(&bytes[ETHERNET_LEN..ETHERNET_LEN + IP_LEN]);
        let udp = Sum::of(&bytes[26..38]).plus_word(UDP.into());
        Headers { bytes, ip, udp: udp_checksum.then_some(udp) }
    }

    /// Completes a frame whose payload lies at [`HEADERS_LEN`] and ends with the slice.
    ///
    /// # Panics
    /// If the slice is shorter than the headers, or the payload longer than 65,507 bytes.
    #[inline]
    pub fn write(&self, frame: &mut [u8]) {
        let payload_len = frame.len() - HEADERS_LEN;
        assert!(payload_len <= crate::udp::PAYLOAD_MAX_BYTES, "a payload of {payload_len} bytes");
        let (headers, payload) = frame.split_at_mut(HEADERS_LEN);
        headers.copy_from_slice(&self.bytes);
        let ip_len = (payload_len + IP_UDP_LEN) as u16;
        let udp_len = (payload_len + UDP_LEN) as u16;
        headers[16..18].copy_from_slice(&ip_len.to_be_bytes());
        headers[24..26].copy_from_slice(&self.ip.plus_word(ip_len).checksum().to_be_bytes());
        headers[38..40].copy_from_slice(&udp_len.to_be_bytes());
        if let Some(udp) = self.udp {
            // The length counts twice: in the pseudo-header and in the header.
            let sum = udp.plus_word(udp_len).plus_word(udp_len).plus(Sum::of(payload));
            // Zero would say that there is none.
            let checksum = Some(sum.checksum()).filter(|c| *c != 0).unwrap_or(0xffff);
            headers[40..42].copy_from_slice(&checksum.to_be_bytes());
        }
    }
}

/// What is known of a datagram's UDP checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksum {
    /// It was right, or not to be looked at.
    Passed,
    /// The sender gave none.
    Absent,
    /// Only the pseudo-header was summed: the sender's kernel left the rest to a device that is none (veth,
    /// loopback), so the frame has never been on a wire.
    Unfinished,
}

/// A datagram in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parsed<'f> {
    /// Sending address and port.
    pub from: SocketAddrV4,
    /// Address and port it was sent to.
    pub to: SocketAddrV4,
    /// The bytes it carries.
    pub payload: &'f [u8],
    /// What its checksum said.
    pub checksum: Checksum,
}

/// Why a frame is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// Shorter than the headers.
    TooShort {
        /// Its length.
        bytes: usize,
    },
    /// Not IPv4 in Ethernet, IPv4 with options, or not UDP.
    NotPlainUdp,
    /// A fragment of a longer datagram.
    Fragment,
    /// The checksum of the IPv4 header is wrong.
    IpChecksum,
    /// A length in the headers contradicts the frame.
    Length {
        /// Bytes by the header of IPv4.
        ip: usize,
        /// Bytes by the header of UDP.
        udp: usize,
        /// Bytes there are behind the Ethernet header.
        there: usize,
    },
    /// The checksum over the datagram is wrong.
    UdpChecksum,
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            FrameError::TooShort { bytes } => {
                write!(f, "a frame of {bytes} bytes is shorter than its headers of {HEADERS_LEN}")
            }
            FrameError::NotPlainUdp => f.write_str("not UDP in IPv4 without options"),
            FrameError::Fragment => f.write_str("a fragment"),
            FrameError::IpChecksum => f.write_str("the checksum of the IPv4 header is wrong"),
            FrameError::Length { ip, udp, there } => {
                write!(f, "{there} bytes of which IPv4 takes {ip} and UDP {udp}")
            }
            FrameError::UdpChecksum => f.write_str("the checksum of the datagram is wrong"),
        }
    }
}

impl std::error::Error for FrameError {}

/// The datagram in a frame. `verify` says whether the UDP checksum is computed; the header's always is.
///
/// # Errors
/// See [`FrameError`].
#[inline]
pub fn parse(frame: &[u8], verify: bool) -> Result<Parsed<'_>, FrameError> {
    let Some((headers, _)) = frame.split_first_chunk::<HEADERS_LEN>() else {
        return Err(FrameError::TooShort { bytes: frame.len() });
    };
    let word = |at: usize| u16::from_be_bytes([headers[at], headers[at + 1]]);
    let address = |at: usize| Ipv4Addr::new(headers[at], headers[at + 1], headers[at + 2], headers[at + 3]);
    if word(12) != 0x0800 || headers[14] != 0x45 || headers[23] != UDP {
        return Err(FrameError::NotPlainUdp);
    }
    if word(20) & 0x3fff != 0 {
        return Err(FrameError::Fragment);
    }
    if Sum::of(&headers[ETHERNET_LEN..ETHERNET_LEN + IP_LEN]).folded() != 0xffff {
        return Err(FrameError::IpChecksum);
    }
    let (ip, udp, there) = (usize::from(word(16)), usize::from(word(38)), frame.len() - ETHERNET_LEN);
    if udp < UDP_LEN || ip < udp + IP_LEN || there < ip {
        return Err(FrameError::Length { ip, udp, there });
    }
    let datagram = &frame[ETHERNET_LEN + IP_LEN..][..udp];
    let checksum = match word(40) {
        0 => Checksum::Absent,
        _ if !verify => Checksum::Passed,
        given => {
            let pseudo = Sum::of(&headers[26..34]).plus_word(UDP.into()).plus_word(udp as u16);
            if pseudo.plus(Sum::of(datagram)).folded() == 0xffff {
                Checksum::Passed
            } else if given == pseudo.folded() {
                Checksum::Unfinished
            } else {
                return Err(FrameError::UdpChecksum);
            }
        }
    };
    Ok(Parsed {
        from: SocketAddrV4::new(address(26), word(34)),
        to: SocketAddrV4::new(address(30), word(36)),
        payload: &datagram[UDP_LEN..],
        checksum,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENDS: Ends = Ends {
        source: MacAddress([2, 0, 0, 0, 0, 1]),
        destination: MacAddress([2, 0, 0, 0, 0, 2]),
        from: SocketAddrV4::new(Ipv4Addr::new(10, 77, 0, 1), 14_391),
        to: SocketAddrV4::new(Ipv4Addr::new(10, 77, 0, 2), 47_400),
        ttl: 16,
    };

    fn frame(payload: &[u8], udp_checksum: bool) -> Vec<u8> {
        let mut frame = vec![0xee; HEADERS_LEN];
        frame.extend_from_slice(payload);
        Headers::new(&ENDS, udp_checksum).write(&mut frame);
        frame
    }

    #[test]
    fn a_frame_is_the_bytes_that_another_implementation_makes() {
        // Of Python's struct, checksums word by word.
        let hex = "02000000000202000000000108004500002000004000101156310a4d00010a4d0002\
                   3837b928000c22057469636b";
        let expected: Vec<u8> =
            (0..hex.len() / 2).map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap()).collect();
        assert_eq!(frame(b"tick", true), expected);
    }

    #[test]
    fn what_is_written_reads_the_same_at_every_length() {
        let bytes: Vec<u8> = (0..1472u32).map(|i| (i * 7) as u8).collect();
        for len in 0..bytes.len() {
            let read = parse(&frame(&bytes[..len], true), true).map(|p| (p.from, p.to, p.payload.to_vec()));
            assert_eq!(read, Ok((ENDS.from, ENDS.to, bytes[..len].to_vec())));
        }
    }

    #[test]
    fn without_checksum_none_is_written_and_none_is_asked_for() {
        let frame = frame(b"tick", false);
        assert_eq!(frame[40..42], [0, 0]);
        assert_eq!(parse(&frame, true).unwrap().checksum, Checksum::Absent);
    }

    #[test]
    fn a_checksum_that_comes_to_zero_is_written_as_all_ones() {
        let made = (0..=u16::MAX).map(|n| frame(&n.to_be_bytes(), true));
        let zero = made.into_iter().find(|frame| frame[40..42] == [0xff, 0xff]).unwrap();
        assert_eq!(parse(&zero, true).unwrap().checksum, Checksum::Passed);
    }

    #[test]
    fn padding_of_a_short_frame_is_no_payload() {
        let mut frame = frame(b"tick", true);
        frame.resize(60, 0xaa);
        assert_eq!(parse(&frame, true).unwrap().payload, b"tick");
    }

    #[test]
    fn a_single_changed_bit_behind_the_ethernet_header_is_noticed() {
        let good = frame(b"the price of everything", true);
        for bit in 8 * ETHERNET_LEN..8 * good.len() {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(parse(&bad, true).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_checksum_left_to_the_device_is_told_apart_from_a_wrong_one() {
        let mut frame = frame(b"tick", true);
        let udp_len = 12u16;
        let pseudo = Sum::of(&frame[26..34]).plus_word(17).plus_word(udp_len).folded();
        frame[40..42].copy_from_slice(&pseudo.to_be_bytes());
        assert_eq!(parse(&frame, true).unwrap().checksum, Checksum::Unfinished);
        frame[41] ^= 1;
        assert_eq!(parse(&frame, true), Err(FrameError::UdpChecksum));
        assert_eq!(parse(&frame, false).unwrap().checksum, Checksum::Passed);
    }

    #[test]
    fn what_is_not_a_whole_plain_datagram_is_refused_by_its_reason() {
        let good = frame(b"tick", true);
        // Changes bytes and mends the header's checksum.
        let changed = |at: usize, bytes: &[u8]| {
            let mut bad = good.clone();
            bad[at..at + bytes.len()].copy_from_slice(bytes);
            bad[24..26].fill(0);
            let checksum = Sum::of(&bad[14..34]).checksum();
            bad[24..26].copy_from_slice(&checksum.to_be_bytes());
            bad
        };
        assert_eq!(parse(&good[..41], true), Err(FrameError::TooShort { bytes: 41 }));
        assert_eq!(parse(&changed(12, &[0x86, 0xdd]), true), Err(FrameError::NotPlainUdp));
        assert_eq!(parse(&changed(14, &[0x46]), true), Err(FrameError::NotPlainUdp));
        assert_eq!(parse(&changed(23, &[6]), true), Err(FrameError::NotPlainUdp));
        assert_eq!(parse(&changed(20, &[0x20, 0x00]), true), Err(FrameError::Fragment));
        assert_eq!(parse(&changed(20, &[0x00, 0x01]), true), Err(FrameError::Fragment));
        let length = |ip, udp| Err(FrameError::Length { ip, udp, there: 32 });
        assert_eq!(parse(&changed(16, &[0, 33]), true), length(33, 12));
        assert_eq!(parse(&changed(16, &[0, 31]), true), length(31, 12));
        assert_eq!(parse(&changed(38, &[0, 13]), true), length(32, 13));
        assert_eq!(parse(&changed(38, &[0, 7]), true), length(32, 7));
    }

    #[test]
    fn groups_have_the_ethernet_address_of_their_low_23_bits() {
        assert_eq!(MacAddress::of_group(Ipv4Addr::new(224, 10, 10, 78)).to_string(), "01:00:5e:0a:0a:4e");
        assert_eq!(MacAddress::of_group(Ipv4Addr::new(239, 255, 1, 2)).to_string(), "01:00:5e:7f:01:02");
    }
}
