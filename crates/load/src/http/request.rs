//! Requests of a spec as the bytes of HTTP/1.1.

use super::block::Block;
use super::template::Template;
use crate::spec::Spec;

/// All requests of `spec`, in turn.
pub(super) fn block(spec: &Spec) -> Block {
    let paths = spec.targets();
    let parse = |path: &String| Template::parse(path).expect("the paths of a checked spec can be filled in");
    let templates: Vec<Template> = paths.iter().map(parse).collect();
    let requests: Vec<Vec<u8>> = paths.iter().map(|path| request(spec, path)).collect();
    if !templates.iter().any(Template::has_placeholders) {
        return Block::new(&requests, spec.pipeline);
    }
    let begin = spec.method.len() + 1;
    let around = |(template, (path, bytes)): (Template, (&String, &Vec<u8>))| {
        template.within(&bytes[..begin], &bytes[begin + path.len()..])
    };
    Block::filled(templates.into_iter().zip(paths.iter().zip(&requests)).map(around).collect())
}

/// Adds only requested headers: in a deep pipeline every byte is copied a hundred times per write, here
/// and in the server.
fn request(spec: &Spec, path: &str) -> Vec<u8> {
    let given = |name: &str| spec.headers.iter().any(|header| header.name().eq_ignore_ascii_case(name));
    let mut text = format!("{} {path} HTTP/1.1\r\n", spec.method);
    if !given("host") {
        text += &format!("Host: {}\r\n", spec.url.host_header());
    }
    for header in &spec.headers {
        text += &format!("{header}\r\n");
    }
    // A server may wait for the length with methods that usually have a body.
    if !spec.body.is_empty() || matches!(&*spec.method, "POST" | "PUT" | "PATCH") {
        text += &format!("Content-Length: {}\r\n", spec.body.bytes().len());
    }
    if spec.no_keepalive && !given("connection") {
        text += "Connection: close\r\n";
    }
    text += "\r\n";
    let mut bytes = text.into_bytes();
    bytes.extend_from_slice(spec.body.bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::{Spec, request};

    #[test]
    fn requests_are_what_was_asked_for() {
        let mut spec = Spec::new("http://[::1]:8080/a?b".parse().expect("a URL"));
        let text = |spec: &Spec| String::from_utf8(request(spec, &spec.url.path)).expect("text");
        assert_eq!(text(&spec), "GET /a?b HTTP/1.1\r\nHost: [::1]:8080\r\n\r\n");
        spec.method = "POST".to_owned();
        spec.headers = vec!["host: x".parse().expect("a header"), "X-Y: 1".parse().expect("a header")];
        spec.body = "a=b\n".into();
        spec.no_keepalive = true;
        let expected = "POST /a?b HTTP/1.1\r\nhost: x\r\nX-Y: 1\r\nContent-Length: 4\r\n\
                        Connection: close\r\n\r\na=b\n";
        assert_eq!(text(&spec), expected);
    }
}
