//! The program that the kernel runs on each frame of the interface: datagrams to our addresses go to the
//! socket of the queue, all else goes on to the kernel.

use std::io;
use std::net::SocketAddrV4;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use super::XdpMode;
use super::bpf::{self, Instruction, Link, Map, MapKind};
use crate::fork::Unshared;

/// The most addresses that one socket receives.
pub const DESTINATIONS_MAX: u32 = 4096;
/// Queues of an interface that a socket can be opened on: 0 to one less.
pub(super) const QUEUES_MAX: u32 = 256;

/// The program of one interface, attached until this is dropped or the process ends.
#[derive(Debug)]
pub(super) struct Program {
    destinations: Map<[u8; 8], u32>,
    /// By [`slot`] one of them, as its [`mark`]: found without a call, where a hash costs 100 ns. What is not
    /// there is looked for among all.
    marks: Map<u32, u64>,
    sockets: Map<u32, u32>,
    passed: Map<u32, u64>,
    _program: Unshared,
    _link: Link,
}

/// Which frames are redirected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Takes {
    /// Datagrams to the addresses that are added.
    Destinations,
    /// Every frame, without a look.
    Everything,
}

/// Datagrams to our addresses that the program left to the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Passed {
    /// They came in fragments.
    pub(super) fragmented: u64,
    /// They came on a queue without a socket.
    pub(super) other_queue: u64,
}

const SLOTS: u32 = 256;
const FRAGMENTED: i32 = 0;
const OTHER_QUEUE: i32 = 1;

impl Program {
    /// Loads the program and attaches it; it passes everything until a queue is served and, if it takes
    /// them, addresses are added.
    pub(super) fn attach(interface: u32, mode: XdpMode, takes: Takes) -> io::Result<Program> {
        let destinations = Map::new(MapKind::Hash, DESTINATIONS_MAX)?;
        let marks = Map::new(MapKind::Array, SLOTS)?;
        let sockets = Map::new(MapKind::Sockets, QUEUES_MAX)?;
        let passed = Map::new(MapKind::Array, 2)?;
        let code = match takes {
            Takes::Destinations => code(destinations.fd(), marks.fd(), sockets.fd(), passed.fd()),
            Takes::Everything => code_for_everything(sockets.fd()),
        };
        let program = bpf::load_xdp("tickcast", &code)?;
        let flags = match mode {
            XdpMode::Auto => 0,
            XdpMode::Generic => 1 << 1,
            XdpMode::Native => 1 << 2,
        };
        let link = Link::attach_xdp(program.as_fd(), interface, flags)?;
        Ok(Program { destinations, marks, sockets, passed, _program: program, _link: link })
    }

    /// Hands the datagrams of a queue to a socket.
    pub(super) fn serve(&self, queue: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
        self.sockets.insert(queue, socket.as_raw_fd() as u32)
    }

    /// Redirects what is sent to an address from now on.
    pub(super) fn add(&self, destination: SocketAddrV4) -> io::Result<()> {
        self.destinations.insert(key(destination), 1)?;
        self.marks.insert(slot(destination), mark(destination))
    }

    /// Leaves it to the kernel again.
    pub(super) fn remove(&self, destination: SocketAddrV4) -> io::Result<()> {
        let slot = slot(destination);
        if self.marks.get(slot)? == mark(destination) {
            self.marks.insert(slot, 0)?;
        }
        self.destinations.remove(key(destination))
    }

    pub(super) fn passed(&self) -> io::Result<Passed> {
        let count = |which: i32| self.passed.get(which as u32);
        Ok(Passed { fragmented: count(FRAGMENTED)?, other_queue: count(OTHER_QUEUE)? })
    }
}

/// Address and port as they lie in a frame, the port at the start of a word.
fn key(destination: SocketAddrV4) -> [u8; 8] {
    let [a, b, c, d] = destination.ip().octets();
    let [high, low] = destination.port().to_be_bytes();
    let mut key = [a, b, c, d, 0, 0, 0, 0];
    // The program stores the port as a 32-bit number that it has loaded as a 16-bit one.
    key[4..].copy_from_slice(&u32::from(u16::from_ne_bytes([high, low])).to_ne_bytes());
    key
}

/// Address and port in one number as the program loads them, and a bit that no empty slot has.
fn mark(destination: SocketAddrV4) -> u64 {
    let address = u32::from_ne_bytes(destination.ip().octets());
    let port = u16::from_ne_bytes(destination.port().to_be_bytes());
    (u64::from(port) | MARKED as u64) << 32 | u64::from(address)
}

/// Where a mark lies: its bytes combined into one.
fn slot(destination: SocketAddrV4) -> u32 {
    let bytes = destination.ip().octets().into_iter().chain(destination.port().to_be_bytes());
    bytes.fold(0, |slot, byte| slot ^ u32::from(byte))
}

/// Above the port in the upper half of a mark.
const MARKED: i32 = 1 << 16;

const LOAD_BYTE: u8 = 0x71;
const LOAD_HALF: u8 = 0x69;
const LOAD_WORD: u8 = 0x61;
const LOAD_DOUBLE: u8 = 0x79;
const STORE_WORD: u8 = 0x63;
const LOAD_MAP: u8 = 0x18;
const MOVE: u8 = 0xbf;
const MOVE_NUMBER: u8 = 0xb7;
const ADD_NUMBER: u8 = 0x07;
const AND_NUMBER: u8 = 0x57;
const OR_NUMBER: u8 = 0x47;
const OR: u8 = 0x4f;
const XOR: u8 = 0xaf;
const SHIFT_LEFT: u8 = 0x67;
const SHIFT_RIGHT: u8 = 0x77;
const ATOMIC_ADD_DOUBLE: u8 = 0xdb;
const JUMP: u8 = 0x05;
const JUMP_IF_EQUAL: u8 = 0x15;
const JUMP_IF_EQUAL_REGISTER: u8 = 0x1d;
const JUMP_IF_NOT_EQUAL: u8 = 0x55;
const JUMP_IF_GREATER_REGISTER: u8 = 0x2d;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;

/// In the source half of a [`LOAD_MAP`]: the number is a descriptor.
const MAP_DESCRIPTOR: u8 = 1;
const MAP_LOOKUP: i32 = 1;
const REDIRECT_MAP: i32 = 51;
const XDP_PASS: i32 = 2;
const XDP_REDIRECT: i32 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Label {
    Search,
    Ours,
    Count,
    Pass,
    Exit,
}

/// Puts instructions behind each other and, at the end, distances into jumps.
#[derive(Default)]
struct Assembler {
    code: Vec<Instruction>,
    jumps: Vec<(usize, Label)>,
    labels: Vec<(Label, usize)>,
}

impl Assembler {
    fn op(&mut self, code: u8, to: u8, from: u8, offset: i16, immediate: i32) {
        let registers = if cfg!(target_endian = "little") { to | from << 4 } else { to << 4 | from };
        self.code.push(Instruction { code, registers, offset, immediate });
    }

    fn jump(&mut self, code: u8, register: u8, other: u8, immediate: i32, label: Label) {
        self.jumps.push((self.code.len(), label));
        self.op(code, register, other, 0, immediate);
    }

    fn map(&mut self, to: u8, fd: libc::c_int) {
        self.op(LOAD_MAP, to, MAP_DESCRIPTOR, 0, fd);
        // The upper half of the 64-bit number.
        self.op(0, 0, 0, 0, 0);
    }

    fn label(&mut self, label: Label) {
        self.labels.push((label, self.code.len()));
    }

    fn finish(mut self) -> Vec<Instruction> {
        for (at, label) in self.jumps {
            let target = self.labels.iter().find(|(l, _)| *l == label).map_or(at + 1, |(_, target)| *target);
            self.code[at].offset = (target - at - 1) as i16;
        }
        self.code
    }
}

/// The program. Registers: r6 context, r7 start of the frame, r8 the more-fragments bit, r9 which counter.
fn code(
    destinations: libc::c_int,
    marks: libc::c_int,
    sockets: libc::c_int,
    passed: libc::c_int,
) -> Vec<Instruction> {
    use Label::{Count, Exit, Ours, Pass, Search};
    /// A half word of the frame as a load brings it.
    const fn half(network: u16) -> i32 {
        u16::from_ne_bytes(network.to_be_bytes()) as i32
    }
    let mut a = Assembler::default();
    // What calls leave alone is kept in r6 to r9.
    a.op(MOVE, 6, 1, 0, 0); // r6 = context
    a.op(LOAD_WORD, 7, 6, 0, 0); // r7 = context.data
    a.op(LOAD_WORD, 3, 6, 4, 0); // r3 = context.data_end
    // Shorter than the headers of Ethernet, IPv4 and UDP: not ours. Every load below is within these bytes.
    a.op(MOVE, 4, 7, 0, 0); // r4 = data
    a.op(ADD_NUMBER, 4, 0, 0, super::frame::HEADERS_LEN as i32); // r4 += 42
    a.jump(JUMP_IF_GREATER_REGISTER, 4, 3, 0, Pass); // if r4 > data_end
    a.op(LOAD_HALF, 4, 7, 12, 0); // r4 = type of the Ethernet frame
    a.jump(JUMP_IF_NOT_EQUAL, 4, 0, half(0x0800), Pass); // not IPv4 (nor with a VLAN tag)
    a.op(LOAD_BYTE, 4, 7, 14, 0); // r4 = version and header length
    a.jump(JUMP_IF_NOT_EQUAL, 4, 0, 0x45, Pass); // with options the ports lie elsewhere
    a.op(LOAD_BYTE, 4, 7, 23, 0); // r4 = protocol
    a.jump(JUMP_IF_NOT_EQUAL, 4, 0, 17, Pass); // not UDP
    a.op(LOAD_HALF, 8, 7, 20, 0); // r8 = flags and fragment offset
    a.op(MOVE, 4, 8, 0, 0); // r4 = the same
    a.op(AND_NUMBER, 4, 0, 0, half(0x1fff)); // r4 = fragment offset
    a.jump(JUMP_IF_NOT_EQUAL, 4, 0, 0, Pass); // a later fragment has no ports
    a.op(AND_NUMBER, 8, 0, 0, half(0x2000)); // r8 = more fragments
    // The key on the stack: address, port.
    a.op(LOAD_WORD, 4, 7, 30, 0); // r4 = destination address
    a.op(STORE_WORD, 10, 4, -8, 0); // stack[-8] = r4
    a.op(LOAD_HALF, 5, 7, 36, 0); // r5 = destination port
    a.op(STORE_WORD, 10, 5, -4, 0); // stack[-4] = r5
    // Its mark in r9, its slot on the stack.
    a.op(MOVE, 9, 5, 0, 0); // r9 = port
    a.op(OR_NUMBER, 9, 0, 0, MARKED); // r9 |= marked
    a.op(SHIFT_LEFT, 9, 0, 0, 32); // r9 <<= 32
    a.op(OR, 9, 4, 0, 0); // r9 |= address
    a.op(XOR, 4, 5, 0, 0); // r4 = address ^ port
    a.op(MOVE, 5, 4, 0, 0); // r5 = r4
    a.op(SHIFT_RIGHT, 5, 0, 0, 16); // r5 >>= 16
    a.op(XOR, 4, 5, 0, 0); // r4 ^= r5
    a.op(MOVE, 5, 4, 0, 0); // r5 = r4
    a.op(SHIFT_RIGHT, 5, 0, 0, 8); // r5 >>= 8
    a.op(XOR, 4, 5, 0, 0); // r4 ^= r5
    a.op(AND_NUMBER, 4, 0, 0, SLOTS as i32 - 1); // r4 &= 255
    a.op(STORE_WORD, 10, 4, -12, 0); // stack[-12] = slot
    a.map(1, marks); // r1 = marks
    a.op(MOVE, 2, 10, 0, 0); // r2 = stack
    a.op(ADD_NUMBER, 2, 0, 0, -12); // r2 = slot
    // The kernel puts the look into an array in line.
    a.op(CALL, 0, 0, 0, MAP_LOOKUP); // r0 = mark there
    a.jump(JUMP_IF_EQUAL, 0, 0, 0, Search); // never: the verifier wants it looked at
    a.op(LOAD_DOUBLE, 1, 0, 0, 0); // r1 = that mark
    a.jump(JUMP_IF_EQUAL_REGISTER, 1, 9, 0, Ours); // if r1 == r9
    a.label(Search);
    a.map(1, destinations); // r1 = destinations
    a.op(MOVE, 2, 10, 0, 0); // r2 = stack
    a.op(ADD_NUMBER, 2, 0, 0, -8); // r2 = key
    a.op(CALL, 0, 0, 0, MAP_LOOKUP); // r0 = value or null
    a.jump(JUMP_IF_EQUAL, 0, 0, 0, Pass); // somebody else's
    a.label(Ours);
    // The first of several fragments: the kernel puts them together, as nobody here does.
    a.op(MOVE_NUMBER, 9, 0, 0, FRAGMENTED); // r9 = which counter
    a.jump(JUMP_IF_NOT_EQUAL, 8, 0, 0, Count);
    a.map(1, sockets); // r1 = sockets
    a.op(LOAD_WORD, 2, 6, 16, 0); // r2 = context.rx_queue_index
    a.op(MOVE_NUMBER, 3, 0, 0, XDP_PASS); // r3 = what to return when the queue has no socket
    a.op(CALL, 0, 0, 0, REDIRECT_MAP); // r0 = XDP_REDIRECT or r3
    a.jump(JUMP_IF_EQUAL, 0, 0, XDP_REDIRECT, Exit);
    a.op(MOVE_NUMBER, 9, 0, 0, OTHER_QUEUE); // r9 = which counter
    a.label(Count);
    a.op(STORE_WORD, 10, 9, -8, 0); // stack[-8] = which counter
    a.map(1, passed); // r1 = counters
    a.op(MOVE, 2, 10, 0, 0); // r2 = stack
    a.op(ADD_NUMBER, 2, 0, 0, -8); // r2 = key
    a.op(CALL, 0, 0, 0, MAP_LOOKUP); // r0 = counter or null
    a.jump(JUMP_IF_EQUAL, 0, 0, 0, Pass); // never: the verifier wants it looked at
    a.op(MOVE_NUMBER, 1, 0, 0, 1); // r1 = 1
    a.op(ATOMIC_ADD_DOUBLE, 0, 1, 0, 0); // *r0 += r1
    a.jump(JUMP, 0, 0, 0, Pass);
    a.label(Pass);
    a.op(MOVE_NUMBER, 0, 0, 0, XDP_PASS); // r0 = XDP_PASS
    a.label(Exit);
    a.op(EXIT, 0, 0, 0, 0);
    a.finish()
}

/// The shortest program: what comes on a queue with a socket goes there.
fn code_for_everything(sockets: libc::c_int) -> Vec<Instruction> {
    let mut a = Assembler::default();
    a.op(LOAD_WORD, 2, 1, 16, 0); // r2 = context.rx_queue_index
    a.map(1, sockets); // r1 = sockets
    a.op(MOVE_NUMBER, 3, 0, 0, XDP_PASS); // r3 = what to return when the queue has no socket
    a.op(CALL, 0, 0, 0, REDIRECT_MAP); // r0 = XDP_REDIRECT or r3
    a.op(EXIT, 0, 0, 0, 0);
    a.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_jump_goes_forward_to_an_instruction_that_is_none_of_a_pair() {
        let code = code(3, 4, 5, 6);
        let second_halves: Vec<usize> =
            (0..code.len()).filter(|i| code[*i].code == LOAD_MAP).map(|i| i + 1).collect();
        let is_jump =
            |i: &Instruction| i.code & 7 == 5 && i.code != CALL && i.code != EXIT && i.code != LOAD_MAP;
        for (at, jump) in code.iter().enumerate().filter(|(_, i)| is_jump(i)) {
            let target = at + 1 + usize::try_from(jump.offset).unwrap();
            assert!(target < code.len() && !second_halves.contains(&target), "{at} jumps to {target}");
        }
        assert_eq!(code.last().map(|i| i.code), Some(EXIT));
    }

    #[test]
    fn a_mark_is_of_one_destination_and_none_is_empty() {
        let of = |text: &str| (slot(text.parse().unwrap()), mark(text.parse().unwrap()));
        let (slot, mark) = of("239.1.2.3:20000");
        assert_eq!(slot, 239 ^ 1 ^ 2 ^ 3 ^ (20_000 >> 8) ^ (20_000 & 0xff));
        assert_eq!(mark & 0xffff_ffff, u64::from(u32::from_ne_bytes([239, 1, 2, 3])));
        let (same_slot, other_mark) = of("239.1.3.2:20000");
        assert!(slot == same_slot && mark != other_mark);
        assert_ne!(of("0.0.0.0:0").1, 0);
    }

    #[test]
    fn a_key_is_the_address_and_the_port_as_the_program_stores_them() {
        let key = key("239.1.2.3:20000".parse().unwrap());
        assert_eq!(key[..4], [239, 1, 2, 3]);
        let port = u32::from_ne_bytes([key[4], key[5], key[6], key[7]]);
        assert_eq!(u16::try_from(port).unwrap().to_ne_bytes(), 20_000u16.to_be_bytes());
    }
}
