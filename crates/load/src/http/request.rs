//! Requests of a spec as the bytes of HTTP/1.1.

use super::block::Block;
use super::template::Template;
use crate::header::Header;
use crate::spec::Spec;
use crate::target::Target;

/// All requests of `spec`, in turn.
pub(super) fn block(spec: &Spec) -> Block {
    let targets = targets(spec);
    let parse = |target: &Target| {
        Template::parse(&target.path).expect("the paths of a checked spec can be filled in")
    };
    let templates: Vec<Template> = targets.iter().map(parse).collect();
    let requests: Vec<Vec<u8>> = targets.iter().map(|target| request(spec, target)).collect();
    if !templates.iter().any(Template::has_placeholders) {
        return Block::new(&requests, spec.pipeline);
    }
    let around = |(template, (target, bytes)): (Template, (&Target, &Vec<u8>))| {
        let begin = target.method.len() + 1;
        template.within(&bytes[..begin], &bytes[begin + target.path.len()..])
    };
    Block::filled(templates.into_iter().zip(targets.iter().zip(&requests)).map(around).collect())
}

/// The requests of `spec` in turn; those of a list of paths differ in their path only.
fn targets(spec: &Spec) -> Vec<Target> {
    if !spec.targets.is_empty() {
        return spec.targets.clone();
    }
    let target = |path: &String| {
        let (method, body) = (spec.method.clone(), spec.body.clone());
        Target { method, path: path.clone(), headers: Vec::new(), body }
    };
    spec.all_paths().iter().map(target).collect()
}

/// Adds only requested headers: in a deep pipeline every byte is copied a hundred times per write, here
/// and in the server.
fn request(spec: &Spec, Target { method, path, headers, body }: &Target) -> Vec<u8> {
    let is_of = |header: &Header, name: &str| header.name().eq_ignore_ascii_case(name);
    let others = spec.headers.iter().filter(|header| !headers.iter().any(|own| is_of(own, header.name())));
    let all: Vec<&Header> = others.chain(headers).collect();
    let given = |name: &str| all.iter().any(|header| is_of(header, name));
    let mut text = format!("{method} {path} HTTP/1.1\r\n");
    if !given("host") {
        text += &format!("Host: {}\r\n", spec.url.host_header());
    }
    for header in &all {
        text += &format!("{header}\r\n");
    }
    // A server may wait for the length with methods that usually have a body.
    if !body.is_empty() || matches!(&**method, "POST" | "PUT" | "PATCH") {
        text += &format!("Content-Length: {}\r\n", body.bytes().len());
    }
    if spec.no_keepalive && !given("connection") {
        text += "Connection: close\r\n";
    }
    text += "\r\n";
    let mut bytes = text.into_bytes();
    bytes.extend_from_slice(body.bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::{Spec, Target, request, targets};

    #[test]
    fn requests_are_what_was_asked_for() {
        let mut spec = Spec::new("http://[::1]:8080/a?b".parse().expect("a URL"));
        let text = |spec: &Spec| String::from_utf8(request(spec, &targets(spec)[0])).expect("text");
        assert_eq!(text(&spec), "GET /a?b HTTP/1.1\r\nHost: [::1]:8080\r\n\r\n");
        spec.method = "POST".to_owned();
        spec.headers = vec!["host: x".parse().expect("a header"), "X-Y: 1".parse().expect("a header")];
        spec.body = "a=b\n".into();
        spec.no_keepalive = true;
        let expected = "POST /a?b HTTP/1.1\r\nhost: x\r\nX-Y: 1\r\nContent-Length: 4\r\n\
                        Connection: close\r\n\r\na=b\n";
        assert_eq!(text(&spec), expected);
        let headers = vec!["x-y: 2".parse().expect("a header"), "X-Z: 3".parse().expect("a header")];
        let target = Target { method: "PUT".to_owned(), path: "/t".to_owned(), headers, body: "t".into() };
        spec.targets = vec![target];
        let expected = "PUT /t HTTP/1.1\r\nhost: x\r\nx-y: 2\r\nX-Z: 3\r\nContent-Length: 1\r\n\
                        Connection: close\r\n\r\nt";
        assert_eq!(text(&spec), expected, "its headers replace those of all");
    }
}
