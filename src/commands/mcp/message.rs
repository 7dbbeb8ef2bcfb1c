//! Messages of JSON-RPC 2.0, one on each line.

use serde::Serialize;
use serde_json::Value;

/// A request, or a notification.
#[derive(Debug, PartialEq)]
pub(super) struct Message {
    /// A text or an integer; `None` for a notification, which has no answer.
    pub(super) id: Option<Value>,
    pub(super) method: String,
    /// Null without any.
    pub(super) params: Value,
}

/// Why a request has no result: a code of JSON-RPC, and a text.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Failure {
    code: i32,
    message: String,
}

impl Failure {
    /// It is no request.
    pub(super) fn request(message: &str) -> Self {
        Self { code: -32600, message: message.to_owned() }
    }

    /// Its parameters are wrong.
    pub(super) fn params(message: String) -> Self {
        Self { code: -32602, message }
    }

    /// There is no such method.
    pub(super) fn method(name: &str) -> Self {
        Self { code: -32601, message: format!("unknown method {name}") }
    }
}

impl Message {
    /// The message of a line, or the answer to what is none.
    pub(super) fn parse(line: &[u8]) -> Result<Self, Box<Reply>> {
        let unread = |error| Failure { code: -32700, message: format!("not JSON: {error}") };
        let mut value: Value = serde_json::from_slice(line)
            .map_err(|error| Box::new(Reply::failed(Value::Null, unread(error))))?;
        let id = value.get_mut("id").map(Value::take);
        let refused = |id, why| Err(Box::new(Reply::failed(id, Failure::request(why))));
        if id.as_ref().is_some_and(|id| !(id.is_string() || id.is_i64() || id.is_u64())) {
            return refused(Value::Null, "`id` must be a string or an integer");
        }
        match value["method"].as_str().map(str::to_owned) {
            Some(method) => Ok(Self { id, method, params: value["params"].take() }),
            None => refused(id.unwrap_or(Value::Null), "a message without `method`"),
        }
    }
}

/// The answer to a request, or a notification.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Reply {
    jsonrpc: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Failure>,
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    params: Option<Value>,
}

impl Reply {
    const EMPTY: Self =
        Self { jsonrpc: "2.0", id: None, result: None, error: None, method: None, params: None };

    pub(super) fn result(id: Value, result: Value) -> Self {
        Self { id: Some(id), result: Some(result), ..Self::EMPTY }
    }

    pub(super) fn failed(id: Value, failure: Failure) -> Self {
        Self { id: Some(id), error: Some(failure), ..Self::EMPTY }
    }

    pub(super) fn notification(method: &'static str, params: Value) -> Self {
        Self { method: Some(method), params: Some(params), ..Self::EMPTY }
    }
}

#[cfg(test)]
mod tests {
    use super::{Failure, Message, Reply};
    use proptest::prelude::*;
    use serde_json::{Value, json};

    /// The code and the id of a refusal.
    fn refusal(line: &[u8]) -> (i32, Value) {
        let Reply { id, error, .. } = *Message::parse(line).expect_err("refused");
        (error.expect("an error").code, id.expect("an id"))
    }

    #[test]
    fn requests_and_notifications() {
        let request = Message::parse(br#"{"jsonrpc":"2.0","id":"a","method":"ping","params":{"x":1}}"#);
        let expected = Message { id: Some(json!("a")), method: "ping".to_owned(), params: json!({ "x": 1 }) };
        assert_eq!(request, Ok(expected));
        let notification = Message::parse(br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        let notification = notification.expect("a message");
        assert_eq!((notification.id, notification.params), (None, Value::Null));
    }

    #[test]
    fn what_is_no_message_has_the_code_of_json_rpc() {
        let nested = "[".repeat(100_000);
        for line in [&b"{"[..], b"{\"id\":\"\xff\"}", nested.as_bytes(), br#"{"id":1e999,"method":"ping"}"#] {
            assert_eq!(refusal(line), (-32700, Value::Null));
        }
        for line in ["[]", "1", "{}", r#"{"id":null,"method":"ping"}"#, r#"{"id":1.5,"method":"ping"}"#] {
            assert_eq!(refusal(line.as_bytes()), (-32600, Value::Null), "{line}");
        }
        // Of the versions that are answered, none has batches.
        assert_eq!(refusal(br#"[{"id":1,"method":"ping"}]"#), (-32600, Value::Null));
        // The client waits for an answer with this id.
        assert_eq!(refusal(br#"{"id":7,"method":5}"#), (-32600, json!(7)));
    }

    #[test]
    fn answers_have_either_a_result_or_an_error() {
        let text = |reply| serde_json::to_string(&reply).expect("text");
        assert_eq!(text(Reply::result(json!(1), json!({}))), r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
        assert_eq!(
            text(Reply::failed(Value::Null, Failure::method("x"))),
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"unknown method x"}}"#
        );
        let told = Reply::notification("notifications/progress", json!({ "progress": 5 }));
        assert_eq!(
            text(told),
            r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":5}}"#
        );
    }

    proptest! {
        /// An id comes back as it was sent.
        #[test]
        fn ids_are_kept(id in any::<i64>(), method in "[a-z/]{1,20}") {
            let line = json!({ "jsonrpc": "2.0", "id": id, "method": method }).to_string();
            let message = Message::parse(line.as_bytes()).expect("a message");
            prop_assert_eq!((message.id, message.method), (Some(json!(id)), method));
        }
    }
}
