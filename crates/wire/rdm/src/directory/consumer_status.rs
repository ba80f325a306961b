use rwf::{DataType, Domain, EncodeError, GenericMsg, Map, MapAction, MapHead, encode_to_vec};

use super::read::{require_type, service_id};
use crate::login::StandbyRole;
use crate::login::standby::{put_role, role_in, role_message, tells_roles};
use crate::message::{ToVec, require_domain};
use crate::{Part, RdmError};

const CONSUMER_STATUS: &[u8] = b"ConsumerStatus";

/// A consumer tells its server on the directory stream what the server's services are to it.
///
/// Shape: generic message with the name `ConsumerStatus`; payload a map, service id to element list. Source:
/// RWF 14.1, source directory domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerStatus {
    /// The stream of the directory.
    pub stream_id: i32,
    /// Ids of services and what they are.
    pub services: Vec<(u16, StandbyRole)>,
}

impl ConsumerStatus {
    /// Reads what a consumer says; `None` if the generic message is something else. Entries that tell no role are
    /// passed over.
    ///
    /// # Errors
    /// The payload is not what it must be; [`RdmError::OutOfRange`] for an id or a role that cannot be.
    pub fn parse(msg: &GenericMsg<'_>) -> Result<Option<ConsumerStatus>, RdmError> {
        require_domain(msg.domain, Domain::SOURCE)?;
        if !tells_roles(msg, CONSUMER_STATUS) {
            return Ok(None);
        }
        let map = Map::parse(msg.payload)?;
        require_type(Part::Services, map.key_type, DataType::UINT)?;
        let mut services = Vec::new();
        for entry in map.entries() {
            let entry = entry?;
            let data = entry.data.filter(|_| entry.action != MapAction::Delete).unwrap_or_default();
            if let Some(role) = role_in(data)? {
                services.push((service_id(entry.key)?, role));
            }
        }
        Ok(Some(ConsumerStatus { stream_id: msg.stream_id, services }))
    }
}

impl ToVec for ConsumerStatus {
    fn to_vec(&self) -> Result<Vec<u8>, EncodeError> {
        let msg = role_message(Domain::SOURCE, self.stream_id, CONSUMER_STATUS);
        encode_to_vec(|w| {
            msg.encode_header(w);
            w.map(&MapHead::new(DataType::UINT, DataType::ELEMENT_LIST), |map| {
                for (service_id, role) in &self.services {
                    map.entry(MapAction::Add, u64::from(*service_id), None, |w| {
                        w.element_list(|e| put_role(e, *role));
                    });
                }
            });
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn each_service_has_its_role() {
        let services = vec![(1, StandbyRole::Active), (300, StandbyRole::Standby)];
        let told = ConsumerStatus { stream_id: 2, services };
        let bytes = told.to_vec().expect("legal");
        let msg = GenericMsg::parse(&bytes).expect("whole");
        assert_eq!(ConsumerStatus::parse(&msg), Ok(Some(told)));
        assert_eq!((msg.domain, msg.stream_id), (Domain::SOURCE, 2));
        assert_eq!(msg.key.and_then(|key| key.name), Some(&b"ConsumerStatus"[..]));
        let map = Map::parse(msg.payload).expect("a map");
        let keys: Vec<_> = map.entries().map(|entry| entry.expect("whole").key.to_vec()).collect();
        assert_eq!(keys, [vec![1], vec![1, 44]]);
    }
}
