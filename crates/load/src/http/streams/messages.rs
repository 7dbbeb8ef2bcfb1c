//! Requests of a spec as HTTP/2 and HTTP/3 send them.

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HOST, HeaderName, HeaderValue};
use http::{HeaderMap, Method, Request, Uri, Version};

use crate::Random;
use crate::check::{SpecError, range, refuse_if};
use crate::header::Header;
use crate::http::outgoing::SEED;
use crate::http::template::Template;
use crate::spec::Spec;

/// Fields of a connection, which HTTP/2 and HTTP/3 do not have (RFC 9113 8.2.2, RFC 9114 4.2).
const OF_A_CONNECTION: [&str; 4] = ["connection", "keep-alive", "proxy-connection", "upgrade"];

/// All requests of a load, in turn.
pub(crate) struct Messages {
    targets: Vec<Target>,
    method: Method,
    fields: HeaderMap,
    /// `scheme://authority`, before the path.
    origin: String,
    body: Bytes,
}

enum Target {
    Fixed(Request<()>),
    Filled(Template),
}

impl Messages {
    /// Checks what is particular to them.
    pub(in crate::http) fn check(spec: &Spec) -> Result<(), SpecError> {
        let is_banned = |header: &Header| {
            let is = |name: &str| header.name().eq_ignore_ascii_case(name);
            OF_A_CONNECTION.into_iter().any(is)
                || (is("te") && !header.value().eq_ignore_ascii_case("trailers"))
        };
        refuse_if(
            spec.headers.iter().any(is_banned),
            "HTTP/2 and HTTP/3 have no connection-specific headers: leave out Connection, Keep-Alive, Upgrade, and TE other than \
             trailers",
        )?;
        refuse_if(spec.no_keepalive, "--no-keepalive is for HTTP/1.1 only")?;
        refuse_if(!spec.targets.is_empty(), "--targets is for HTTP/1.1 only")?;
        let origin = origin(spec);
        for path in spec.all_paths() {
            let (mut text, template) = (origin.clone().into_bytes(), Template::parse(path)?);
            template.fill(&mut Random::new(0), &mut text);
            if Uri::try_from(text).is_err() {
                return range("paths", format!("valid in {}", spec.http_version), path.clone());
            }
        }
        Ok(())
    }

    /// Those of a checked spec.
    pub(in crate::http) fn new(spec: &Spec) -> Self {
        let mut fields = HeaderMap::new();
        for header in &spec.headers {
            let name = HeaderName::try_from(header.name()).expect("a checked name");
            let value = HeaderValue::from_bytes(header.value().as_bytes()).expect("a checked value");
            if name != HOST {
                fields.append(name, value);
            }
        }
        if !spec.body.is_empty() || matches!(&*spec.method, "POST" | "PUT" | "PATCH") {
            fields.insert(CONTENT_LENGTH, spec.body.bytes().len().into());
        }
        let mut messages = Self {
            targets: Vec::new(),
            method: Method::try_from(&*spec.method).expect("a checked method"),
            fields,
            origin: origin(spec),
            body: Bytes::from_owner(spec.body.shared()),
        };
        let target = |path: &String| {
            let template = Template::parse(path).expect("a checked path");
            if template.has_placeholders() {
                return Target::Filled(template);
            }
            Target::Fixed(messages.to(format!("{}{path}", messages.origin).into_bytes()))
        };
        messages.targets = spec.all_paths().iter().map(target).collect();
        messages
    }

    fn to(&self, uri: Vec<u8>) -> Request<()> {
        let mut head = Request::new(());
        *head.method_mut() = self.method.clone();
        *head.uri_mut() = Uri::try_from(uri).expect("a checked path");
        *head.version_mut() = Version::HTTP_2;
        *head.headers_mut() = self.fields.clone();
        head
    }

    /// Source of the placeholders of connection `number`: the same in every run.
    pub(super) fn random(&self, number: usize) -> Random {
        Random::new(number as u64 ^ SEED)
    }

    /// Head of request `turn` of a connection.
    pub(super) fn head(&self, turn: usize, random: &mut Random) -> Request<()> {
        match &self.targets[turn % self.targets.len()] {
            Target::Fixed(head) => head.clone(),
            Target::Filled(template) => {
                let mut uri = self.origin.clone().into_bytes();
                template.fill(random, &mut uri);
                self.to(uri)
            }
        }
    }

    /// Body of every request.
    pub(super) fn body(&self) -> Bytes {
        self.body.clone()
    }
}

/// Scheme and authority of all requests. A Host field becomes the authority (RFC 9113 8.3.1).
fn origin(spec: &Spec) -> String {
    let host = spec.headers.iter().find(|header| header.name().eq_ignore_ascii_case("host"));
    let authority = host.map_or_else(|| spec.url.host_header(), |host| host.value().to_owned());
    format!("{}://{authority}", spec.url.scheme())
}
