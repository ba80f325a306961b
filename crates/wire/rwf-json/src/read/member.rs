//! The members of a message, found in one pass whatever their order.

use rwf::DataType;

use super::fault::Fault;
use crate::json::Node;
use crate::names;

macro_rules! members {
    ($($member:ident $name:literal;)*) => {
        /// A member that some message class has.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Member {
            $($member,)*
        }

        impl Member {
            const ALL: &[Member] = &[$(Member::$member),*];

            #[inline]
            fn of(name: &[u8]) -> Option<Member> {
                $(if name == $name.as_bytes() { return Some(Member::$member); })*
                None
            }

            pub(super) const fn name(self) -> &'static [u8] {
                match self {
                    $(Member::$member => $name.as_bytes(),)*
                }
            }
        }
    };
}

members! {
    Id "ID"; Type "Type"; Domain "Domain"; Key "Key"; UpdateType "UpdateType"; State "State";
    SeqNumber "SeqNumber"; PermData "PermData"; Qos "Qos"; Streaming "Streaming";
    KeyInUpdates "KeyInUpdates"; Refresh "Refresh"; View "View"; ViewType "ViewType"; Priority "Priority";
    WorstQos "WorstQos"; Pause "Pause"; ConfInfoInUpdates "ConfInfoInUpdates"; Private "Private";
    Qualified "Qualified"; ExtHdr "ExtHdr"; Solicited "Solicited"; Complete "Complete";
    ClearCache "ClearCache"; DoNotCache "DoNotCache"; PartNumber "PartNumber"; PostUserInfo "PostUserInfo";
    DoNotConflate "DoNotConflate"; DoNotRipple "DoNotRipple"; Discardable "Discardable";
    ConflationInfo "ConflationInfo"; Ack "Ack"; PostId "PostID"; PostUserRights "PostUserRights";
    AckId "AckID"; NakCode "NakCode"; Text "Text"; SecSeqNumber "SecSeqNumber";
    ProviderDriven "ProviderDriven"; Debug "Debug";
}

/// A message with its members.
#[derive(Clone, Copy, Debug)]
pub(super) struct Members<'t> {
    pub(super) object: Node<'t>,
    found: [Option<Node<'t>>; Member::ALL.len()],
    pub(super) payload: Option<Payload<'t>>,
}

/// A container as a member.
#[derive(Clone, Copy, Debug)]
pub(super) struct Payload<'t> {
    pub(super) data_type: DataType,
    pub(super) node: Node<'t>,
    pub(super) name: &'t [u8],
}

impl<'t> Members<'t> {
    /// Finds the members of an object. With `strict`, one that no message has is a fault.
    pub(super) fn of(object: Node<'t>, strict: bool) -> Result<Members<'t>, Fault<'t>> {
        let mut members = Members { object, found: [None; Member::ALL.len()], payload: None };
        for (name, node) in object.members() {
            match Member::of(name) {
                Some(member) => members.found[member as usize] = Some(node),
                None => Payload::keep(&mut members.payload, name, node, strict)?,
            }
        }
        Ok(members)
    }

    #[inline]
    pub(super) fn get(&self, member: Member) -> Option<Node<'t>> {
        self.found[member as usize]
    }

    /// A member as `read` reads it, if it is there.
    #[inline]
    pub(super) fn read<T>(
        &self,
        member: Member,
        read: impl FnOnce(Node<'t>, &'t [u8]) -> Result<T, Fault<'t>>,
    ) -> Result<Option<T>, Fault<'t>> {
        self.get(member).map(|node| read(node, member.name())).transpose()
    }

    /// A member as `read` reads it, which has to be there.
    pub(super) fn require<T>(
        &self,
        member: Member,
        read: impl FnOnce(Node<'t>, &'t [u8]) -> Result<T, Fault<'t>>,
    ) -> Result<T, Fault<'t>> {
        match self.get(member) {
            Some(node) => read(node, member.name()),
            None => Err(Fault::missing(self.object, member.name())),
        }
    }

    /// A flag, `default` if it is not there.
    #[inline]
    pub(super) fn flag(&self, member: Member, default: bool) -> Result<bool, Fault<'t>> {
        Ok(self.read(member, super::scalar::boolean)?.unwrap_or(default))
    }
}

impl<'t> Payload<'t> {
    /// The container that a member holds, by its name.
    fn of(name: &'t [u8], node: Node<'t>) -> Option<Payload<'t>> {
        let number = names::payload::number(name).or(match name {
            b"FieldList" => Some(DataType::FIELD_LIST.0),
            b"ElementList" => Some(DataType::ELEMENT_LIST.0),
            _ => None,
        })?;
        Some(Payload { data_type: DataType(number), node, name })
    }

    /// Keeps a member that is a container, of which there can be one. What it is not is passed over, or with
    /// `strict` a fault.
    pub(super) fn keep(
        kept: &mut Option<Payload<'t>>,
        name: &'t [u8],
        node: Node<'t>,
        strict: bool,
    ) -> Result<(), Fault<'t>> {
        match (Payload::of(name, node), &kept) {
            (Some(payload), Some(other)) if payload.name != other.name => {
                Err(Fault::unexpected_key(name, node))
            }
            (Some(payload), _) => {
                *kept = Some(payload);
                Ok(())
            }
            (None, _) if strict => Err(Fault::unexpected_key(name, node)),
            (None, _) => Ok(()),
        }
    }

    /// The container in an object whose other members are `known`.
    pub(super) fn in_object(
        object: Node<'t>,
        known: &[&[u8]],
        strict: bool,
    ) -> Result<Option<Payload<'t>>, Fault<'t>> {
        let mut kept = None;
        for (name, node) in object.members() {
            if !known.contains(&name) {
                Payload::keep(&mut kept, name, node, strict)?;
            }
        }
        Ok(kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_member_is_found_by_its_name() {
        for member in Member::ALL {
            assert_eq!(Member::of(member.name()), Some(*member));
        }
        assert_eq!(Member::of(b"Fields"), None);
    }
}
