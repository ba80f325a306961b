use rwf::{
    AckMsg, CloseMsg, Domain, EncodeError, GenericMsg, Msg, PostMsg, RefreshMsg, RequestMsg, StatusMsg,
    UpdateMsg, encode_to_vec,
};

use crate::RdmError;

/// A message that can be put into bytes, header and payload.
pub trait ToVec {
    /// The message as it stands in a frame.
    ///
    /// # Errors
    /// [`EncodeError`] if a part is longer than RWF can say, such as a login name of more than 255 bytes.
    fn to_vec(&self) -> Result<Vec<u8>, EncodeError>;
}

macro_rules! to_vec_by_encode {
    ($($class:ident)*) => {
        $(impl ToVec for $class<'_> {
            fn to_vec(&self) -> Result<Vec<u8>, EncodeError> {
                encode_to_vec(|w| self.encode(w))
            }
        })*
    };
}
to_vec_by_encode!(Msg RequestMsg RefreshMsg StatusMsg UpdateMsg CloseMsg AckMsg GenericMsg PostMsg);

/// Refuses a message of another domain.
pub(crate) fn require_domain(found: Domain, wanted: Domain) -> Result<(), RdmError> {
    if found == wanted { Ok(()) } else { Err(RdmError::WrongDomain { found, wanted }) }
}

/// The error for a message of a class that the domain has no use for.
pub(crate) fn wrong_class(msg: &Msg<'_>) -> RdmError {
    RdmError::WrongClass { domain: msg.domain(), class: msg.class() }
}
