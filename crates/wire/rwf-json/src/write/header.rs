//! The members of each message class.

use rwf::{
    AckMsg, CloseMsg, Domain, GenericMsg, Key, Msg, NakCode, PostMsg, PostUserInfo, Qos, RefreshMsg,
    RequestMsg, StatusMsg, UpdateMsg,
};

use super::key::RequestLists;
use super::text::member;
use super::{KeyPart, Writer, Written};
use crate::{Services, names};

impl<'k> KeyPart<'k> {
    fn of(self, own: Option<&'k Key<'k>>) -> Option<&'k Key<'k>> {
        match self {
            KeyPart::Own => own,
            KeyPart::Without => None,
            KeyPart::Given(key) => Some(key),
        }
    }
}

impl<S: Services> Writer<'_, '_, S> {
    /// Everything behind the stream id.
    #[inline]
    pub(super) fn body(&mut self, msg: &Msg<'_>, key: KeyPart<'_>, depth: u32) -> Written {
        match msg {
            Msg::Update(m) => self.update(m, key, depth),
            Msg::Refresh(m) => self.refresh(m, key, depth),
            Msg::Status(m) => self.status(m, key, depth),
            Msg::Request(m) => self.request(m, key, depth),
            Msg::Close(m) => self.close(m),
            Msg::Ack(m) => self.ack(m, key, depth),
            Msg::Generic(m) => self.generic(m, key, depth),
            Msg::Post(m) => self.post(m, key, depth),
        }?;
        self.text.close_object();
        self.check_length()
    }

    #[inline]
    fn update(&mut self, m: &UpdateMsg<'_>, key: KeyPart<'_>, depth: u32) -> Written {
        self.text.raw(b"\"Type\":\"Update\",");
        self.domain(m.domain);
        self.text.raw(member!("UpdateType"));
        self.text.name_or_number(names::update_type::name(m.update_type.0), m.update_type.0);
        self.text.comma();
        self.text.flag(member!("DoNotConflate"), m.do_not_conflate);
        self.text.flag(member!("DoNotRipple"), m.do_not_ripple);
        self.text.flag(member!("Discardable"), m.discardable);
        self.text.flag(member!("DoNotCache"), m.do_not_cache);
        self.optional_key(key.of(m.key.as_ref()), m.domain, depth)?;
        self.post_user_info(m.post_user_info);
        self.base64(member!("PermData"), m.permission_data);
        self.text.optional(member!("SeqNumber"), m.seq_num.map(u64::from));
        if let Some(conflation) = m.conflation {
            self.text.raw(member!("ConflationInfo"));
            self.text.open_object();
            self.text.optional(member!("Count"), Some(conflation.count.into()));
            self.text.optional(member!("Time"), Some(conflation.time.into()));
            self.text.close_object();
            self.text.comma();
        }
        self.base64(member!("ExtHdr"), m.extended_header);
        self.payload(m.container_type, m.payload, depth)
    }

    fn refresh(&mut self, m: &RefreshMsg<'_>, key: KeyPart<'_>, depth: u32) -> Written {
        self.text.raw(b"\"Type\":\"Refresh\",");
        self.domain(m.domain);
        self.optional_key(key.of(m.key.as_ref()), m.domain, depth)?;
        self.text.raw(member!("State"));
        self.text.state(&m.state);
        self.text.comma();
        self.base64(member!("ExtHdr"), m.extended_header);
        self.qos(member!("Qos"), m.qos);
        self.unless(member!("Complete"), m.complete);
        self.unless(member!("ClearCache"), m.clear_cache);
        self.text.flag(member!("DoNotCache"), m.do_not_cache);
        self.text.flag(member!("Private"), m.private_stream);
        self.text.flag(member!("Qualified"), m.qualified_stream);
        self.unless(member!("Solicited"), m.solicited);
        self.post_user_info(m.post_user_info);
        self.base64(member!("PermData"), m.permission_data);
        self.text.optional(member!("SeqNumber"), m.seq_num.map(u64::from));
        self.text.optional(member!("PartNumber"), m.part_num.map(u64::from));
        self.payload(m.container_type, m.payload, depth)
    }

    fn status(&mut self, m: &StatusMsg<'_>, key: KeyPart<'_>, depth: u32) -> Written {
        self.text.raw(b"\"Type\":\"Status\",");
        self.domain(m.domain);
        self.optional_key(key.of(m.key.as_ref()), m.domain, depth)?;
        if let Some(state) = &m.state {
            self.text.raw(member!("State"));
            self.text.state(state);
            self.text.comma();
        }
        self.base64(member!("ExtHdr"), m.extended_header);
        self.text.flag(member!("ClearCache"), m.clear_cache);
        self.text.flag(member!("Private"), m.private_stream);
        self.text.flag(member!("Qualified"), m.qualified_stream);
        self.post_user_info(m.post_user_info);
        self.base64(member!("PermData"), m.permission_data);
        self.payload(m.container_type, m.payload, depth)
    }

    fn request(&mut self, m: &RequestMsg<'_>, key: KeyPart<'_>, depth: u32) -> Written {
        let lists = RequestLists::of(m);
        self.text.raw(b"\"Type\":\"Request\",");
        self.domain(m.domain);
        self.unless(member!("Streaming"), m.streaming);
        // Where there are no updates, nothing is said about them.
        self.unless(member!("KeyInUpdates"), m.key_in_updates || !m.streaming);
        self.text.flag(member!("ConfInfoInUpdates"), m.conflation_info_in_updates);
        self.unless(member!("Refresh"), !m.no_refresh);
        self.text.flag(member!("Private"), m.private_stream);
        self.text.flag(member!("Qualified"), m.qualified_stream);
        self.text.flag(member!("Pause"), m.pause);
        if let Some(priority) = m.priority {
            self.text.raw(member!("Priority"));
            self.text.open_object();
            self.text.optional(member!("Class"), Some(priority.class.into()));
            self.text.optional(member!("Count"), Some(priority.count.into()));
            self.text.close_object();
            self.text.comma();
        }
        self.base64(member!("ExtHdr"), m.extended_header);
        self.qos(member!("Qos"), m.qos);
        self.qos(member!("WorstQos"), m.worst_qos);
        if let Some(key) = key.of(Some(&m.key)) {
            self.key(key, m.domain, lists.items.as_ref(), depth)?;
        }
        self.view(&lists)?;
        match lists.is_empty() {
            true => self.payload(m.container_type, m.payload, depth),
            false => self.other_elements(m.payload, &lists, depth),
        }
    }

    fn view(&mut self, lists: &RequestLists<'_>) -> Written {
        let Some(view) = &lists.view else { return Ok(()) };
        if let Some(view_type) = lists.view_type {
            self.text.raw(member!("ViewType"));
            match u8::try_from(view_type).ok().and_then(names::view_type::name) {
                Some(name) => self.text.word(name),
                None => self.text.uint(view_type),
            }
            self.text.comma();
        }
        self.text.raw(member!("View"));
        self.text.open_array();
        for item in view.values() {
            self.text.primitive(&item?)?;
            self.text.comma();
        }
        self.text.close_array();
        self.text.comma();
        Ok(())
    }

    /// A close has no payload in JSON: the list of streams stands in place of the id.
    fn close(&mut self, m: &CloseMsg<'_>) -> Written {
        self.text.raw(b"\"Type\":\"Close\",");
        self.domain(m.domain);
        self.text.flag(member!("Ack"), m.ack);
        self.base64(member!("ExtHdr"), m.extended_header);
        Ok(())
    }

    fn ack(&mut self, m: &AckMsg<'_>, key: KeyPart<'_>, depth: u32) -> Written {
        self.text.raw(b"\"Type\":\"Ack\",");
        self.domain(m.domain);
        self.text.optional(member!("AckID"), Some(m.ack_id.into()));
        if let Some(code) = m.nak_code.filter(|code| *code != NakCode::NONE) {
            self.text.raw(member!("NakCode"));
            self.text.name_or_number(names::nak_code::name(code.0), code.0);
            self.text.comma();
        }
        if let Some(text) = m.text {
            self.text.raw(member!("Text"));
            self.text.string(text);
            self.text.comma();
        }
        self.text.optional(member!("SeqNumber"), m.seq_num.map(u64::from));
        self.optional_key(key.of(m.key.as_ref()), m.domain, depth)?;
        self.text.flag(member!("Private"), m.private_stream);
        self.text.flag(member!("Qualified"), m.qualified_stream);
        self.base64(member!("ExtHdr"), m.extended_header);
        self.payload(m.container_type, m.payload, depth)
    }

    fn generic(&mut self, m: &GenericMsg<'_>, key: KeyPart<'_>, depth: u32) -> Written {
        self.text.raw(b"\"Type\":\"Generic\",");
        self.domain(m.domain);
        self.optional_key(key.of(m.key.as_ref()), m.domain, depth)?;
        self.text.optional(member!("SeqNumber"), m.seq_num.map(u64::from));
        self.text.optional(member!("SecSeqNumber"), m.secondary_seq_num.map(u64::from));
        self.text.optional(member!("PartNumber"), m.part_num.map(u64::from));
        self.unless(member!("Complete"), m.complete);
        self.text.flag(member!("ProviderDriven"), m.provider_driven);
        self.base64(member!("PermData"), m.permission_data);
        self.base64(member!("ExtHdr"), m.extended_header);
        self.payload(m.container_type, m.payload, depth)
    }

    fn post(&mut self, m: &PostMsg<'_>, key: KeyPart<'_>, depth: u32) -> Written {
        self.text.raw(b"\"Type\":\"Post\",");
        self.domain(m.domain);
        self.post_user_info(Some(m.post_user_info));
        self.text.optional(member!("PostID"), m.post_id.map(u64::from));
        self.optional_key(key.of(m.key.as_ref()), m.domain, depth)?;
        self.text.optional(member!("SeqNumber"), m.seq_num.map(u64::from));
        self.unless(member!("Complete"), m.complete);
        self.text.flag(member!("Ack"), m.ack);
        self.base64(member!("PermData"), m.permission_data);
        self.text.optional(member!("PartNumber"), m.part_num.map(u64::from));
        self.text.optional(member!("PostUserRights"), m.user_rights.map(u64::from));
        self.base64(member!("ExtHdr"), m.extended_header);
        self.payload(m.container_type, m.payload, depth)
    }

    /// The domain; market price is what is meant without it.
    #[inline]
    fn domain(&mut self, domain: Domain) {
        if domain != Domain::MARKET_PRICE {
            self.text.raw(member!("Domain"));
            self.text.name_or_number(names::domain::name(domain.0), domain.0);
            self.text.comma();
        }
    }

    #[inline]
    fn optional_key(&mut self, key: Option<&Key<'_>>, domain: Domain, depth: u32) -> Written {
        match key {
            Some(key) => self.key(key, domain, None, depth),
            None => Ok(()),
        }
    }

    /// A member that is written only when it is false.
    fn unless(&mut self, member: &[u8], set: bool) {
        if !set {
            self.text.raw(member);
            self.text.boolean(false);
            self.text.comma();
        }
    }

    fn qos(&mut self, member: &[u8], qos: Option<Qos>) {
        if let Some(qos) = qos {
            self.text.raw(member);
            self.text.qos(qos);
            self.text.comma();
        }
    }

    #[inline]
    pub(super) fn base64(&mut self, member: &[u8], bytes: Option<&[u8]>) {
        if let Some(bytes) = bytes {
            self.text.raw(member);
            self.text.base64(bytes);
            self.text.comma();
        }
    }

    fn post_user_info(&mut self, info: Option<PostUserInfo>) {
        let Some(info) = info else { return };
        self.text.raw(member!("PostUserInfo"));
        self.text.open_object();
        self.text.raw(member!("Address"));
        self.text.quote();
        for (at, byte) in info.address.to_be_bytes().into_iter().enumerate() {
            self.text.raw(if at == 0 { b"" } else { b"." });
            self.text.uint(byte.into());
        }
        self.text.quote();
        self.text.comma();
        self.text.optional(member!("UserID"), Some(info.user_id.into()));
        self.text.close_object();
        self.text.comma();
    }
}
