use rdm::directory::Directory;
use rwf::Dictionary;

/// How messages are converted. The defaults are those of the vendor's distribution server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Enumerated fields are written as the text that the dictionary shows for them; else as numbers.
    pub expand_enum_fields: bool,
    /// A member that nobody knows makes a received message an error; else it is passed over.
    pub catch_unknown_keys: bool,
    /// A field that the dictionary lacks makes a received message an error; else it is left out.
    pub catch_unknown_fields: bool,
    /// Received enumerated fields may be the text shown for them; else only numbers.
    pub allow_enum_display_strings: bool,
    /// The service meant by a received key that names none, on all domains but login and source directory.
    pub default_service_id: Option<u16>,
    /// The longest JSON text that one message may become, in bytes.
    pub json_bytes_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            expand_enum_fields: true,
            catch_unknown_keys: false,
            catch_unknown_fields: true,
            allow_enum_display_strings: true,
            default_service_id: None,
            json_bytes_max: 64 << 20,
        }
    }
}

/// The names of services, which JSON has where RWF has numbers.
pub trait Services {
    /// The name of a service, `None` for one without a known name: its number is written.
    fn name(&self, service_id: u16) -> Option<&str>;
    /// The number of a service, `None` if there is none of that name: what names it is an error.
    fn id(&self, name: &str) -> Option<u16>;
}

/// No service has a name.
#[derive(Clone, Copy, Debug)]
pub struct NoServices;

impl Services for NoServices {
    fn name(&self, _: u16) -> Option<&str> {
        None
    }

    fn id(&self, _: &str) -> Option<u16> {
        None
    }
}

impl Services for Directory {
    fn name(&self, service_id: u16) -> Option<&str> {
        Some(&self.service(service_id)?.info.name)
    }

    fn id(&self, name: &str) -> Option<u16> {
        Some(self.service_by_name(name)?.id)
    }
}

impl<S: Services> Services for &S {
    fn name(&self, service_id: u16) -> Option<&str> {
        (*self).name(service_id)
    }

    fn id(&self, name: &str) -> Option<u16> {
        (*self).id(name)
    }
}

/// What a conversion needs to know, in both directions. It is three references: made anew for each call, it
/// costs nothing.
#[derive(Debug)]
pub struct Converter<'c, S> {
    pub(crate) dictionary: &'c Dictionary,
    pub(crate) services: &'c S,
    pub(crate) options: Options,
}

impl<'c, S: Services> Converter<'c, S> {
    /// A converter of messages whose fields are those of `dictionary`.
    #[must_use]
    pub fn new(dictionary: &'c Dictionary, services: &'c S, options: Options) -> Self {
        Converter { dictionary, services, options }
    }
}

impl<S> Clone for Converter<'_, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for Converter<'_, S> {}
