use rwf::{DataType, Domain, EncodeError, GenericMsg, encode_to_vec};

use crate::element::{PutElement, known_elements};
use crate::message::{ToVec, require_domain};
use crate::{Element, RdmError};

/// A measurement of the round trip, on the login stream of a consumer that offered it.
///
/// The server sends it; the consumer sends it back unchanged at once; the time between is the round trip,
/// which the next measurement reports to the consumer.
///
/// Shape: generic message, provider driven; payload element list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundTrip {
    /// The stream of the login.
    pub stream_id: i32,
    /// The server's clock when it sent this; its unit is the server's own.
    pub ticks: u64,
    /// The round trip measured last, in microseconds.
    pub last_latency_us: Option<u64>,
    /// Segments that TCP has sent again.
    pub tcp_retransmission_count: Option<u64>,
}

impl RoundTrip {
    /// Reads a measurement; `None` if the generic message is something else.
    ///
    /// # Errors
    /// [`RdmError::WrongType`] names the element; [`RdmError::Missing`] without ticks.
    pub fn parse(msg: &GenericMsg<'_>) -> Result<Option<RoundTrip>, RdmError> {
        require_domain(msg.domain, Domain::LOGIN)?;
        if !msg.provider_driven || msg.container_type != DataType::ELEMENT_LIST {
            return Ok(None);
        }
        let (mut ticks, mut last_latency_us, mut tcp_retransmission_count) = (None, None, None);
        for element in known_elements(msg.payload, None)? {
            let e = element?;
            match e.element {
                Element::Ticks => ticks = e.uint()?,
                Element::RoundTripLatency => last_latency_us = e.uint()?,
                Element::TcpRetrans => tcp_retransmission_count = e.uint()?,
                _ => {}
            }
        }
        let ticks = ticks.ok_or(RdmError::Missing { part: Element::Ticks.into() })?;
        Ok(Some(RoundTrip { stream_id: msg.stream_id, ticks, last_latency_us, tcp_retransmission_count }))
    }
}

impl ToVec for RoundTrip {
    fn to_vec(&self) -> Result<Vec<u8>, EncodeError> {
        let msg = GenericMsg {
            provider_driven: true,
            ..GenericMsg::new(Domain::LOGIN, self.stream_id, DataType::ELEMENT_LIST)
        };
        encode_to_vec(|w| {
            msg.encode_header(w);
            w.element_list(|e| {
                e.element(Element::Ticks, self.ticks);
                e.some(Element::RoundTripLatency, self.last_latency_us);
                e.some(Element::TcpRetrans, self.tcp_retransmission_count);
            });
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rwf::Key;

    #[test]
    fn a_measurement_comes_back_unchanged() {
        for (last_latency_us, tcp_retransmission_count) in [(None, None), (Some(250), Some(0))] {
            let sent = RoundTrip { stream_id: 1, ticks: u64::MAX, last_latency_us, tcp_retransmission_count };
            let bytes = sent.to_vec().expect("legal");
            let back = RoundTrip::parse(&GenericMsg::parse(&bytes).expect("whole")).expect("legal");
            assert_eq!(back, Some(sent));
            assert_eq!(back.expect("one").to_vec(), Ok(bytes));
        }
    }

    #[test]
    fn other_generic_messages_are_no_measurement() {
        let key = Some(Key { name: Some(b"ConsumerConnectionStatus"), ..Key::default() });
        let standby = GenericMsg { key, ..GenericMsg::new(Domain::LOGIN, 1, DataType::MAP) };
        assert_eq!(RoundTrip::parse(&standby), Ok(None));
        let consumer_driven = GenericMsg { container_type: DataType::ELEMENT_LIST, ..standby };
        assert_eq!(RoundTrip::parse(&consumer_driven), Ok(None));
        let without_ticks = GenericMsg {
            provider_driven: true,
            payload: &[0],
            ..GenericMsg::new(Domain::LOGIN, 1, DataType::ELEMENT_LIST)
        };
        let missing = RdmError::Missing { part: Element::Ticks.into() };
        assert_eq!(RoundTrip::parse(&without_ticks), Err(missing));
    }
}
