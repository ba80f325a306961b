use super::super::Reader;
use super::record::read_option;
use crate::error::{Part, WireError};

const SOURCE_ID: u8 = 0x81;
const SOURCE_TYPE: u8 = 0x82;
const VERSION: u8 = 0x83;
const LOCAL_DOMAIN: u8 = 0x84;
const LENGTH: u8 = 0x80;
/// Bytes of the length option that ends the block.
const LENGTH_OPTION_LEN: usize = 4;

/// The options of an LBMR packet, checked: options `type u8, len u8, flags ...`, last `80 04 total u16`,
/// where `total` is the length of the whole block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketOptions<'a>(&'a [u8]);

impl<'a> PacketOptions<'a> {
    /// Options that were written with [`PacketOption::emit`]; the length option is added when they are sent.
    #[must_use]
    pub fn written(bytes: &'a [u8]) -> PacketOptions<'a> {
        PacketOptions(bytes)
    }

    pub(super) fn read(r: &mut Reader<'a>) -> Result<PacketOptions<'a>, WireError> {
        let (block, at) = (r.rest(), r.at());
        let mut body = &[][..];
        let mut last = None;
        while r.left() > 0 {
            body = &block[..block.len() - r.left()];
            last = Some(read_option(r, Part::PacketOption, LENGTH_OPTION_LEN)?);
        }
        match last {
            Some((LENGTH, &[t0, t1])) if usize::from(u16::from_be_bytes([t0, t1])) == block.len() => {}
            _ => {
                let (found, limit) = (body.len(), block.len());
                return Err(WireError::BadLength { part: Part::PacketOption, at, found, limit });
            }
        }
        PacketOptions::check(body)?;
        Ok(PacketOptions(body))
    }

    fn check(body: &[u8]) -> Result<(), WireError> {
        let mut r = Reader::new(body, Part::PacketOption);
        while r.left() > 0 {
            PacketOption::read(&mut r)?;
        }
        Ok(())
    }

    /// The options in their order, without the length option.
    pub fn iter(&self) -> impl Iterator<Item = PacketOption<'a>> + use<'a> {
        let mut r = Reader::new(self.0, Part::PacketOption);
        // They were checked when the packet was read.
        std::iter::from_fn(move || if r.left() == 0 { None } else { PacketOption::read(&mut r).ok() })
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        let total = (LENGTH_OPTION_LEN + self.0.len()) as u16;
        out.extend_from_slice(self.0);
        out.extend_from_slice(&[LENGTH, LENGTH_OPTION_LEN as u8]);
        out.extend_from_slice(&total.to_be_bytes());
    }
}

/// One option of an LBMR packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketOption<'a> {
    /// 0x81: `flags u16`, eight bytes that identify the sending context.
    SourceId {
        /// 0x8000: may be ignored.
        flags: u16,
        /// The context.
        context: [u8; 8],
    },
    /// 0x82: `flags u8, kind u8`.
    SourceType {
        /// 0x80: may be ignored.
        flags: u8,
        /// 0 application, 1 gateway, 2 store.
        kind: u8,
    },
    /// 0x83: `flags u16, version u32`.
    Version {
        /// 0x8000: may be ignored.
        flags: u16,
        /// Version of the sending library.
        version: u32,
    },
    /// 0x84: `flags u16, domain u32`.
    LocalDomain {
        /// 0x8000: may be ignored.
        flags: u16,
        /// The domain.
        domain: u32,
    },
    /// Any other option: skipped by its length.
    Other {
        /// The type.
        kind: u8,
        /// What follows type and length.
        body: &'a [u8],
    },
}

impl<'a> PacketOption<'a> {
    fn read(r: &mut Reader<'a>) -> Result<PacketOption<'a>, WireError> {
        let (kind, body) = read_option(r, Part::PacketOption, LENGTH_OPTION_LEN)?;
        let mut r = Reader::new(body, Part::PacketOption);
        let option = match kind {
            SOURCE_ID => PacketOption::SourceId { flags: r.u16()?, context: r.array()? },
            SOURCE_TYPE => PacketOption::SourceType { flags: r.u8()?, kind: r.u8()? },
            VERSION => PacketOption::Version { flags: r.u16()?, version: r.u32()? },
            LOCAL_DOMAIN => PacketOption::LocalDomain { flags: r.u16()?, domain: r.u32()? },
            kind => PacketOption::Other { kind, body: r.take(body.len())? },
        };
        r.end()?;
        Ok(option)
    }

    /// Appends the option.
    pub fn emit(&self, out: &mut Vec<u8>) {
        match *self {
            PacketOption::SourceId { flags, context } => {
                out.extend_from_slice(&[SOURCE_ID, 12]);
                out.extend_from_slice(&flags.to_be_bytes());
                out.extend_from_slice(&context);
            }
            PacketOption::SourceType { flags, kind } => {
                out.extend_from_slice(&[SOURCE_TYPE, 4, flags, kind]);
            }
            PacketOption::Version { flags, version } => emit_wide(out, VERSION, flags, version),
            PacketOption::LocalDomain { flags, domain } => emit_wide(out, LOCAL_DOMAIN, flags, domain),
            PacketOption::Other { kind, body } => {
                out.extend_from_slice(&[kind, (2 + body.len()) as u8]);
                out.extend_from_slice(body);
            }
        }
    }
}

fn emit_wide(out: &mut Vec<u8>, kind: u8, flags: u16, value: u32) {
    out.extend_from_slice(&[kind, 8]);
    out.extend_from_slice(&flags.to_be_bytes());
    out.extend_from_slice(&value.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block() -> Vec<u8> {
        let mut options = Vec::new();
        PacketOption::SourceId { flags: 0x8000, context: [7; 8] }.emit(&mut options);
        PacketOption::Version { flags: 0x8000, version: 0x0300_0000 }.emit(&mut options);
        let mut out = Vec::new();
        PacketOptions::written(&options).emit(&mut out);
        out
    }

    fn read(bytes: &[u8]) -> Result<PacketOptions<'_>, WireError> {
        PacketOptions::read(&mut Reader::new(bytes, Part::LbmrHeader))
    }

    #[test]
    fn a_block_reads_back_without_its_length_option() {
        let bytes = block();
        let options = read(&bytes).expect("well-formed");
        assert_eq!(options.iter().count(), 2);
        assert_eq!(options.iter().next(), Some(PacketOption::SourceId { flags: 0x8000, context: [7; 8] }));
    }

    #[test]
    fn a_block_that_does_not_end_with_its_own_length_is_refused() {
        let good = block();
        assert!(read(&[]).is_err());
        assert!(read(&good[..good.len() - 4]).is_err());
        let mut bad = good.clone();
        *bad.last_mut().expect("not empty") += 1;
        assert!(read(&bad).is_err());
        let mut long = good;
        long.push(0);
        assert!(read(&long).is_err());
    }
}
