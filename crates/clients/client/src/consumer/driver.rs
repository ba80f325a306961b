//! The consumer with its socket.

use std::collections::VecDeque;
use std::io;
use std::ops::Deref;
use std::sync::Arc;

use net::{Registrar, clock};
use rwf::{Dictionary, Domain, EncodeError, Priority, Writer};
use units::Nanos;

use super::{
    ConsumerCore, ConsumerEvent, ConsumerSendError, GenericSpec, ItemHandle, ItemRequestSpec, ItemView,
    OwnedEvent, PostId, PostSpec, SubscribeError,
};
use crate::driver::{Driver, driver_calls};
use crate::wire::Wire;
use crate::{ConsumerConfig, Identity, StartError};

/// A consumer of market data: subscribes items at an RSSL server and is told what comes.
///
/// It does its work in the calls of the application's own thread: [`Consumer::dispatch`] waits for events,
/// [`Consumer::work`] does what there is to do and returns. Everything else, such as
/// [`image`](ConsumerCore::image) and [`field_id`](ConsumerCore::field_id), is that of [`ConsumerCore`]. A
/// consumer that is dropped without [`Consumer::close`] does not log out; the server sees the end of the
/// connection.
///
/// ```no_run
/// use std::time::Duration;
/// use tickcast_client::{Consumer, ConsumerConfig, ConsumerEvent};
///
/// let mut consumer = Consumer::new(&ConsumerConfig::default())?;
/// consumer.subscribe("DIRECT_FEED", "IBM.N")?;
/// loop {
///     consumer.dispatch(Duration::from_secs(1), &mut |event: ConsumerEvent<'_>| {
///         match event {
///             ConsumerEvent::Item(event) => match event.price("BID") {
///                 Ok(bid) => println!("{} {}", event.name(), bid.map_or("-".into(), |bid| bid.to_string())),
///                 Err(error) => eprintln!("{}: {error}", event.name()),
///             },
///             other => eprintln!("{other}"),
///         }
///     })?;
/// }
/// # #[allow(unreachable_code)]
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Consumer {
    pub(super) driver: Driver<ConsumerCore>,
    /// Events that were read and not yet asked for; see [`Consumer::next_event`].
    pub(super) waiting: VecDeque<OwnedEvent>,
}

impl Consumer {
    /// A consumer that connects with the first call of [`Consumer::dispatch`].
    ///
    /// # Errors
    /// [`StartError`] for a configuration that cannot be used, or a system without resources.
    pub fn new(config: &ConsumerConfig) -> Result<Consumer, StartError> {
        let identity = Identity::of_process(config.password_file.as_deref())?;
        let core = ConsumerCore::new(config, &identity, clock::seed())?;
        let driver = Driver::new(core, config.read_buffer_bytes as usize, config.tls.as_ref())?;
        Ok(Consumer { driver, waiting: VecDeque::new() })
    }

    /// The same with the application's own dictionary; none is downloaded then.
    #[must_use]
    pub fn with_dictionary(mut self, dictionary: Arc<Dictionary>) -> Consumer {
        self.driver.core.set_dictionary(dictionary);
        self
    }

    /// Subscribes an item of the market price domain, with updates.
    ///
    /// # Errors
    /// As [`Consumer::subscribe_with`].
    pub fn subscribe(&mut self, service: &str, name: &str) -> Result<ItemHandle, SubscribeError> {
        self.driver.core.subscribe(&ItemRequestSpec::new(service, name))
    }

    /// Subscribes an item. The request goes out in the next call of [`Consumer::dispatch`], or when service
    /// and dictionary are there; it is repeated after each loss, until [`Consumer::unsubscribe`].
    ///
    /// # Errors
    /// [`SubscribeError`]; nothing was done then.
    pub fn subscribe_with(&mut self, spec: &ItemRequestSpec<'_>) -> Result<ItemHandle, SubscribeError> {
        self.driver.core.subscribe(spec)
    }

    /// Ends an item. Returns whether there was one; no event follows.
    pub fn unsubscribe(&mut self, handle: ItemHandle) -> bool {
        self.driver.core.unsubscribe(handle)
    }

    /// Logs out, writes what is pending, and closes the connection.
    pub fn close(mut self) {
        self.driver.core.stop(clock::monotonic(), &mut |_| ());
        self.driver.close();
    }
}

/// What the core of a consumer does with items, for the consumer that drives it. Of warm standby each server is told,
/// or the active one, as the core's methods say.
macro_rules! core_calls {
    ($consumer:ident, $core:ident, $($field:ident).+) => {
        #[doc = concat!("What [`", stringify!($core), "`] does under the same names, at the time that it is.")]
        impl $consumer {
            /// Subscribes several items at once; see [`subscribe_all`](crate::ConsumerCore::subscribe_all).
            pub fn subscribe_all(
                &mut self,
                spec: &ItemRequestSpec<'_>,
                names: &[&str],
            ) -> Vec<Result<ItemHandle, SubscribeError>> {
                self.$($field).+.subscribe_all(spec, names)
            }

            /// Ends several items at once; see [`unsubscribe_all`](crate::ConsumerCore::unsubscribe_all).
            pub fn unsubscribe_all(&mut self, handles: &[ItemHandle]) -> usize {
                self.$($field).+.unsubscribe_all(handles)
            }

            /// Wants another part of an item; see [`set_view`](crate::ConsumerCore::set_view).
            ///
            /// # Errors
            /// As [`set_view`](crate::ConsumerCore::set_view).
            pub fn set_view(&mut self, handle: ItemHandle, view: Option<ItemView>) -> Result<(), ConsumerSendError> {
                self.$($field).+.set_view(handle, view)
            }

            /// Gives an item another priority; see [`set_priority`](crate::ConsumerCore::set_priority).
            ///
            /// # Errors
            /// As [`set_priority`](crate::ConsumerCore::set_priority).
            pub fn set_priority(&mut self, handle: ItemHandle, priority: Priority) -> Result<(), ConsumerSendError> {
                self.$($field).+.set_priority(handle, priority)
            }

            /// Lets the server stop the updates of an item; see [`pause`](crate::ConsumerCore::pause).
            ///
            /// # Errors
            /// As [`pause`](crate::ConsumerCore::pause).
            pub fn pause(&mut self, handle: ItemHandle) -> Result<(), ConsumerSendError> {
                self.$($field).+.pause(handle)
            }

            /// Wants the updates of an item again; see [`resume`](crate::ConsumerCore::resume).
            ///
            /// # Errors
            /// As [`resume`](crate::ConsumerCore::resume).
            pub fn resume(&mut self, handle: ItemHandle) -> Result<(), ConsumerSendError> {
                self.$($field).+.resume(handle)
            }

            /// Lets the server stop the updates of all items; see [`pause_all`](crate::ConsumerCore::pause_all).
            ///
            /// # Errors
            /// As [`pause_all`](crate::ConsumerCore::pause_all).
            pub fn pause_all(&mut self) -> Result<(), ConsumerSendError> {
                self.$($field).+.pause_all()
            }

            /// Wants the updates of all items again; see [`resume_all`](crate::ConsumerCore::resume_all).
            ///
            /// # Errors
            /// As [`resume_all`](crate::ConsumerCore::resume_all).
            pub fn resume_all(&mut self) -> Result<(), ConsumerSendError> {
                self.$($field).+.resume_all()
            }

            /// Wants the image of an item once more; see [`request_image`](crate::ConsumerCore::request_image).
            ///
            /// # Errors
            /// As [`request_image`](crate::ConsumerCore::request_image).
            pub fn request_image(&mut self, handle: ItemHandle) -> Result<(), ConsumerSendError> {
                self.$($field).+.request_image(handle)
            }

            /// Posts on the stream of an item; see [`post`](crate::ConsumerCore::post). It is written in the
            /// next call of `dispatch`.
            ///
            /// # Errors
            /// As [`post`](crate::ConsumerCore::post).
            pub fn post(
                &mut self,
                handle: ItemHandle,
                spec: &PostSpec<'_>,
                payload: impl FnMut(&mut Writer<'_>),
            ) -> Result<PostId, ConsumerSendError> {
                self.$($field).+.post(clock::monotonic(), handle, spec, payload)
            }

            /// Posts to an item by service, domain and name; see
            /// [`post_off_stream`](crate::ConsumerCore::post_off_stream).
            ///
            /// # Errors
            /// As [`post_off_stream`](crate::ConsumerCore::post_off_stream).
            pub fn post_off_stream(
                &mut self,
                item: (&str, Domain, &str),
                spec: &PostSpec<'_>,
                payload: impl FnMut(&mut Writer<'_>),
            ) -> Result<PostId, ConsumerSendError> {
                self.$($field).+.post_off_stream(clock::monotonic(), item, spec, payload)
            }

            /// Sends a generic message on the stream of an item; see
            /// [`send_generic`](crate::ConsumerCore::send_generic).
            ///
            /// # Errors
            /// As [`send_generic`](crate::ConsumerCore::send_generic).
            pub fn send_generic(
                &mut self,
                handle: ItemHandle,
                spec: &GenericSpec<'_>,
                payload: impl FnMut(&mut Writer<'_>),
            ) -> Result<(), ConsumerSendError> {
                self.$($field).+.send_generic(handle, spec, payload)
            }

            /// Logs in with a token; see [`set_login_token`](crate::ConsumerCore::set_login_token).
            ///
            /// # Errors
            /// As [`set_login_token`](crate::ConsumerCore::set_login_token).
            pub fn set_login_token(&mut self, token: &str) -> Result<(), EncodeError> {
                self.$($field).+.set_login_token(token)
            }
        }
    };
}

pub(super) use core_calls;

core_calls!(Consumer, ConsumerCore, driver.core);

driver_calls!(Consumer, ConsumerEvent);

/// For the thread of a [`ConsumerChannel`](super::ConsumerChannel).
impl Consumer {
    pub(super) fn into_parts(self) -> (ConsumerCore, Wire) {
        self.driver.into_parts()
    }

    pub(super) fn from_parts(parts: (ConsumerCore, Wire)) -> io::Result<Consumer> {
        Ok(Consumer { driver: Driver::of_parts(parts)?, waiting: VecDeque::new() })
    }

    pub(super) fn registrar(&self) -> &Registrar {
        self.driver.registrar()
    }

    pub(super) fn work_reading<F: FnMut(ConsumerEvent<'_>)>(
        &mut self,
        reads: usize,
        on_event: &mut F,
    ) -> usize {
        self.driver.work(reads, on_event)
    }

    /// See [`ConsumerCore::hold_input`].
    pub(super) fn hold_input(&mut self, holds_input: bool) {
        self.driver.core.hold_input(clock::monotonic(), holds_input);
    }

    pub(super) fn core(&mut self) -> &mut ConsumerCore {
        &mut self.driver.core
    }

    /// Waits until there is something to do; not for the socket unless `reads`.
    pub(super) fn wait(&mut self, reads: bool) -> io::Result<()> {
        self.driver.wait(reads, Nanos::NEVER, clock::monotonic())
    }

    /// Waits for the waker alone.
    pub(super) fn wait_for_waker(&mut self) -> io::Result<()> {
        self.driver.wait_for_waker()
    }
}

impl Deref for Consumer {
    type Target = ConsumerCore;

    fn deref(&self) -> &ConsumerCore {
        &self.driver.core
    }
}
