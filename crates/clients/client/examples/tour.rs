//! Asks a provider for all that a consumer can ask for, and says what came of it: `tour HOST:PORT SERVICE
//! [CA-FILE | websocket | zlib | lz4]`. The provider must know the items A to D and no item NOPE, take posts,
//! send generic messages back and know views, batches and pauses. Exit status 0 if everything came, 1 if not.

use std::error::Error;
use std::time::{Duration, Instant};

use tickcast_client::{
    ClientTlsConfig, Compression, Consumer, ConsumerConfig, Domain, GenericSpec, ItemEvent, ItemHandle,
    ItemMsg, ItemRequestSpec, ItemView, OwnedEvent, OwnedItemEvent, OwnedOutcome, PostSpec, Priority, Real,
    StateCode, WebSocketConfig, Writer,
};

const STEP_LIMIT: Duration = Duration::from_secs(20);
const BID: i16 = 22;
const CURRENCY: i16 = 15;

struct Tour {
    consumer: Consumer,
    service: String,
    seen: Vec<OwnedEvent>,
}

type Outcome = Result<(), Box<dyn Error>>;

fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [host, service, rest @ ..] = &arguments[..] else {
        return Err("usage: tour HOST:PORT SERVICE [CA-FILE | websocket | zlib | lz4]".into());
    };
    let mut config = ConsumerConfig { hosts: vec![host.parse()?], ..ConsumerConfig::default() };
    match rest.first().map(String::as_str) {
        None => {}
        Some("websocket") => config.websocket = Some(WebSocketConfig::default()),
        Some("zlib") => config.compression = Some(Compression::Zlib),
        Some("lz4") => config.compression = Some(Compression::Lz4),
        Some(ca) => {
            config.tls = Some(ClientTlsConfig { ca_file: ca.to_owned(), ..ClientTlsConfig::default() });
        }
    }
    let consumer = Consumer::new(&config)?;
    let mut tour = Tour { consumer, service: service.clone(), seen: Vec::new() };
    let [a, b] = tour.batch_with_view()?;
    tour.other_view(a)?;
    tour.pause_and_resume(a, b)?;
    tour.posts(a)?;
    tour.generic(a)?;
    tour.kinds_of_streams()?;
    tour.domains()?;
    tour.consumer.unsubscribe_all(&[a, b]);
    tour.consumer.close();
    Ok(())
}

impl Tour {
    fn batch_with_view(&mut self) -> Result<[ItemHandle; 2], Box<dyn Error>> {
        let service = self.service.clone();
        let spec =
            ItemRequestSpec { view: Some(ItemView::from([BID, 25])), ..ItemRequestSpec::new(&service, "") };
        let handles = self.consumer.subscribe_all(&spec, &["A", "B"]);
        let handles: Vec<ItemHandle> = handles.into_iter().collect::<Result<_, _>>()?;
        for handle in &handles {
            let image = self.image(*handle, "image of a batch")?;
            if image.field(CURRENCY)?.is_some() || image.field(BID)?.is_none() {
                return Err("the view is not honoured".into());
            }
        }
        println!("batch and view");
        Ok([handles[0], handles[1]])
    }

    fn other_view(&mut self, handle: ItemHandle) -> Outcome {
        self.consumer.set_view(handle, None)?;
        while self.image(handle, "image after another view")?.field(CURRENCY)?.is_none() {}
        self.consumer.set_priority(handle, Priority { class: 2, count: 3 })?;
        println!("other view and priority");
        Ok(())
    }

    /// Paused, the item is silent while another one is updated.
    fn pause_and_resume(&mut self, paused: ItemHandle, other: ItemHandle) -> Outcome {
        self.consumer.pause(paused)?;
        // What was under way.
        self.updates(other, 5)?;
        self.seen.clear();
        self.updates(other, 10)?;
        if self.seen.iter().filter_map(item).any(|event| event.handle == paused) {
            return Err("a paused item was updated".into());
        }
        self.consumer.resume(paused)?;
        self.image(paused, "image after a pause")?;
        println!("pause and resume");
        Ok(())
    }

    fn posts(&mut self, handle: ItemHandle) -> Outcome {
        let payload = |w: &mut Writer<'_>| w.field_list(|f| f.put(BID, Real::decimal(4711, 2)));
        let service = self.service.clone();
        self.consumer.post(handle, &PostSpec { tag: 1, ..PostSpec::default() }, payload)?;
        let item = (&*service, Domain::MARKET_PRICE, "B");
        self.consumer.post_off_stream(item, &PostSpec { tag: 2, ..PostSpec::default() }, payload)?;
        for wanted in [1, 2] {
            let taken = |event: &OwnedEvent| match event {
                OwnedEvent::Posted { tag, outcome, .. } => *tag == wanted && *outcome == OwnedOutcome::Taken,
                _ => false,
            };
            self.wait("ack of a post", taken)?;
        }
        println!("posts on and off stream");
        Ok(())
    }

    fn generic(&mut self, handle: ItemHandle) -> Outcome {
        let spec = GenericSpec { seq_num: Some(1), ..GenericSpec::default() };
        self.consumer.send_generic(handle, &spec, |w| w.element_list(|e| e.put("Question", 42u64)))?;
        let echo = |event: &OwnedEvent| {
            item(event).is_some_and(|event| event.view(|view| matches!(view.msg(), ItemMsg::Generic(_))))
        };
        self.wait("generic message", echo)?;
        println!("generic");
        Ok(())
    }

    fn kinds_of_streams(&mut self) -> Outcome {
        let service = self.service.clone();
        let spec = |name| ItemRequestSpec::new(&service, name);
        let private = self.consumer.subscribe_with(&ItemRequestSpec { private_stream: true, ..spec("C") })?;
        let image = self.image(private, "image of a private stream")?;
        let is_private = |view: &ItemEvent<'_>| match view.msg() {
            ItemMsg::Refresh(refresh) => refresh.private_stream,
            _ => false,
        };
        if !image.view(is_private) {
            return Err("the stream is not private".into());
        }
        let snapshot = self.consumer.subscribe_with(&ItemRequestSpec { streaming: false, ..spec("D") })?;
        while !self.image(snapshot, "snapshot")?.is_final {}
        let nothing = self.consumer.subscribe_with(&spec("NOPE"))?;
        let not_found = move |event: &OwnedEvent| {
            item(event).is_some_and(|event| {
                event.handle == nothing && event.is_final && event.state.borrow().code == StateCode::NOT_FOUND
            })
        };
        self.wait("the end of an unknown item", not_found)?;
        println!("private stream, snapshot, unknown item");
        Ok(())
    }

    fn domains(&mut self) -> Outcome {
        for domain in [Domain::MARKET_BY_ORDER, Domain::MARKET_BY_PRICE, Domain::SYMBOL_LIST] {
            let service = self.service.clone();
            let spec = ItemRequestSpec { domain, ..ItemRequestSpec::new(&service, "A") };
            let handle = self.consumer.subscribe_with(&spec)?;
            let image = self.image(handle, "image of a map")?;
            if image.view(|view| view.map().map_or(0, |map| map.entries().count())) == 0 {
                return Err(format!("{domain}: no entries").into());
            }
        }
        println!("maps");
        Ok(())
    }

    /// The next whole image of an item.
    fn image(&mut self, handle: ItemHandle, what: &str) -> Result<OwnedItemEvent, Box<dyn Error>> {
        let whole = |event: &OwnedEvent| {
            item(event).is_some_and(|event| event.handle == handle && event.view(|view| view.is_complete()))
        };
        match self.wait(what, whole)? {
            OwnedEvent::Item(event) => Ok(event),
            other => Err(format!("{other:?}").into()),
        }
    }

    /// Waits for so many updates of an item; what comes meanwhile stays to be seen.
    fn updates(&mut self, handle: ItemHandle, count: usize) -> Outcome {
        let until = Instant::now() + STEP_LIMIT;
        let is_update =
            |event: &&OwnedItemEvent| event.handle == handle && event.view(|view| view.is_update());
        while self.seen.iter().filter_map(item).filter(is_update).count() < count {
            self.look("updates", until)?;
        }
        Ok(())
    }

    /// Takes the first event that is `wanted`; waits for it.
    fn wait(
        &mut self,
        what: &str,
        wanted: impl Fn(&OwnedEvent) -> bool,
    ) -> Result<OwnedEvent, Box<dyn Error>> {
        let until = Instant::now() + STEP_LIMIT;
        loop {
            if let Some(at) = self.seen.iter().position(&wanted) {
                return Ok(self.seen.remove(at));
            }
            self.look(what, until)?;
        }
    }

    fn look(&mut self, what: &str, until: Instant) -> Outcome {
        if Instant::now() > until {
            return Err(format!("never came: {what}; the last was {:?}", self.seen.last()).into());
        }
        let seen = &mut self.seen;
        self.consumer.dispatch(Duration::from_millis(100), &mut |event| seen.push(event.into()))?;
        Ok(())
    }
}

fn item(event: &OwnedEvent) -> Option<&OwnedItemEvent> {
    if let OwnedEvent::Item(event) = event { Some(event) } else { None }
}
