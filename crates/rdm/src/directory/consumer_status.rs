use rwf::{DataType, Domain, EncodeError, MapAction, MapHead, encode_to_vec};

use crate::login::StandbyRole;
use crate::login::standby::{put_role, role_message};
use crate::message::ToVec;

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

impl ToVec for ConsumerStatus {
    fn to_vec(&self) -> Result<Vec<u8>, EncodeError> {
        let msg = role_message(Domain::SOURCE, self.stream_id, b"ConsumerStatus");
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
    use rwf::{GenericMsg, Map};

    #[test]
    fn each_service_has_its_role() {
        let services = vec![(1, StandbyRole::Active), (300, StandbyRole::Standby)];
        let bytes = ConsumerStatus { stream_id: 2, services }.to_vec().expect("legal");
        let msg = GenericMsg::parse(&bytes).expect("whole");
        assert_eq!((msg.domain, msg.stream_id), (Domain::SOURCE, 2));
        assert_eq!(msg.key.and_then(|key| key.name), Some(&b"ConsumerStatus"[..]));
        let map = Map::parse(msg.payload).expect("a map");
        let keys: Vec<_> = map.entries().map(|entry| entry.expect("whole").key.to_vec()).collect();
        assert_eq!(keys, [vec![1], vec![1, 44]]);
    }
}
