use lbt::ordered::{self, Backlog, Kept};
use lbt::{rm, ru};
use units::Sqn;

use super::ipc::Ring;

/// Room for one message where the transport will send it from; see
/// [`Context::claim`](crate::Context::claim). Dropped without [`Claim::commit`], it leaves nothing behind.
pub struct Claim<'a>(Inner<'a>);

enum Inner<'a> {
    Rm(rm::Claim<'a>),
    Tcp(ordered::Claim<'a, Kept<Backlog>>),
    Ipc(ordered::Claim<'a, Kept<Ring>>),
    Ru(ru::Claim<'a>),
}

impl<'a> Claim<'a> {
    pub(crate) fn rm(claim: rm::Claim<'a>) -> Claim<'a> {
        Claim(Inner::Rm(claim))
    }

    pub(crate) fn tcp(claim: ordered::Claim<'a, Kept<Backlog>>) -> Claim<'a> {
        Claim(Inner::Tcp(claim))
    }

    pub(crate) fn ipc(claim: ordered::Claim<'a, Kept<Ring>>) -> Claim<'a> {
        Claim(Inner::Ipc(claim))
    }

    pub(crate) fn ru(claim: ru::Claim<'a>) -> Claim<'a> {
        Claim(Inner::Ru(claim))
    }

    /// The payload, to be written; what it holds before is not defined.
    #[inline]
    pub fn payload(&mut self) -> &mut [u8] {
        match &mut self.0 {
            Inner::Rm(claim) => claim.payload(),
            Inner::Tcp(claim) => claim.payload(),
            Inner::Ipc(claim) => claim.payload(),
            Inner::Ru(claim) => claim.payload(),
        }
    }

    /// Makes it a message and returns its topic number.
    #[inline]
    pub fn commit(self) -> Sqn {
        match self.0 {
            Inner::Rm(claim) => claim.commit(),
            Inner::Tcp(claim) => claim.commit(),
            Inner::Ipc(claim) => claim.commit(),
            Inner::Ru(claim) => claim.commit(),
        }
    }
}
