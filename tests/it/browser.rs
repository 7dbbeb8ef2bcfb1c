//! A headless Chromium, driven over its DevTools protocol on two pipes.

use std::cell::RefCell;
use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::process::{PATIENCE, Running, wait_for};
use crate::require;

/// One page of a browser. Everything that the page requests, and every message of its console, is kept.
pub(crate) struct Browser {
    _running: Running,
    pipes: RefCell<Pipes>,
    session: String,
    _profile: tempfile::TempDir,
}

struct Pipes {
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    last: u64,
    events: Vec<Value>,
}

impl Browser {
    /// Starts a browser with an empty page of this size; `None` where there is no Chromium.
    pub(crate) fn start(width: u32, height: u32) -> Option<Self> {
        if !require::chromium() {
            return None;
        }
        let profile = tempfile::tempdir().expect("a directory");
        // It reads commands from descriptor 3 and writes answers to descriptor 4.
        let script = "exec chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run \
            --disable-background-networking --disable-component-update --disable-sync \
            --remote-debugging-pipe --user-data-dir=\"$0\" --window-size=$1 about:blank 3<&0 4>&1 </dev/null >/dev/null 2>&1";
        let mut command = Command::new("sh");
        command.args(["-c", script]).arg(profile.path()).arg(format!("{width},{height}"));
        let mut running = Running::spawn(command.stdin(Stdio::piped()).stdout(Stdio::piped()));
        let (to, from) = (running.child().stdin.take().expect("a pipe"), running.stdout());
        let pipes = Pipes { to, from: BufReader::new(from), last: 0, events: Vec::new() };
        let mut browser =
            Self { _running: running, pipes: RefCell::new(pipes), session: String::new(), _profile: profile };
        let target = browser.call("Target.createTarget", &json!({ "url": "about:blank" }));
        let attached = browser
            .call("Target.attachToTarget", &json!({ "targetId": target["targetId"], "flatten": true }));
        browser.session = attached["sessionId"].as_str().expect("a session").to_owned();
        for domain in ["Page", "Runtime", "Network", "Log"] {
            browser.call(&format!("{domain}.enable"), &json!({}));
        }
        browser.set_size(width, height);
        Some(browser)
    }

    /// Calls a method of the protocol.
    fn call(&self, method: &str, parameters: &Value) -> Value {
        let mut pipes = self.pipes.borrow_mut();
        pipes.last += 1;
        let id = pipes.last;
        let mut message = json!({ "id": id, "method": method, "params": parameters });
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        pipes.to.write_all(format!("{message}\0").as_bytes()).expect("the browser listens");
        loop {
            let mut answer = Vec::new();
            pipes.from.read_until(0, &mut answer).expect("the browser answers");
            assert_eq!(answer.pop(), Some(0), "the browser has ended");
            let answer: Value = serde_json::from_slice(&answer).expect("JSON");
            if answer["id"] == id {
                assert!(answer.get("error").is_none(), "{method}: {answer}");
                return answer["result"].clone();
            }
            pipes.events.push(answer);
        }
    }

    fn set_size(&self, width: u32, height: u32) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", &size);
    }

    /// Sets the size of the page, and whether the reader prefers dark colours.
    pub(crate) fn look_as(&self, width: u32, height: u32, dark: bool) {
        self.set_size(width, height);
        let scheme = if dark { "dark" } else { "light" };
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.call("Emulation.setEmulatedMedia", &json!({ "features": features }));
    }

    /// Opens an address and waits until it is loaded.
    pub(crate) fn open(&self, url: &str) {
        self.call("Page.navigate", &json!({ "url": url }));
        wait_for("the page", || self.value("document.readyState") == "complete");
    }

    /// The value of a JavaScript expression.
    pub(crate) fn value(&self, expression: &str) -> Value {
        let parameters = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let result = self.call("Runtime.evaluate", &parameters);
        assert!(result.get("exceptionDetails").is_none(), "{expression}: {result}");
        result["result"]["value"].clone()
    }

    pub(crate) fn text(&self, selector: &str) -> String {
        let value = self.value(&format!("document.querySelector({selector:?})?.innerText ?? ''"));
        value.as_str().expect("text").to_owned()
    }

    /// Waits until the text of an element is accepted.
    pub(crate) fn wait_for_text(&self, selector: &str, accepts: impl Fn(&str) -> bool) {
        let start = Instant::now();
        loop {
            let text = self.text(selector);
            if accepts(&text) {
                return;
            }
            assert!(start.elapsed() < PATIENCE, "{selector} is still {text:?}, errors: {:?}", self.errors());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Clicks the middle of an element with the mouse.
    pub(crate) fn click(&self, selector: &str) {
        let place = self.value(&format!(
            "(() => {{ const one = document.querySelector({selector:?}); one.scrollIntoView({{ block: 'center' }}); \
             const box = one.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; }})()"
        ));
        for kind in ["mousePressed", "mouseReleased"] {
            let event =
                json!({ "type": kind, "x": place[0], "y": place[1], "button": "left", "clickCount": 1 });
            self.call("Input.dispatchMouseEvent", &event);
        }
    }

    /// Gives a field a value, as a reader does.
    pub(crate) fn choose(&self, id: &str, value: &str, event: &str) {
        self.value(&format!(
            "(() => {{ const one = document.getElementById('{id}'); one.value = '{value}'; \
             one.dispatchEvent(new Event('{event}')); }})()"
        ));
    }

    /// Errors of the console, exceptions, and violations of the page's policy.
    pub(crate) fn errors(&self) -> Vec<Value> {
        let is_error = |event: &&Value| match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => true,
            Some("Runtime.consoleAPICalled") => event["params"]["type"] == "error",
            Some("Log.entryAdded") => event["params"]["entry"]["level"] == "error",
            _ => false,
        };
        self.pipes.borrow().events.iter().filter(is_error).cloned().collect()
    }

    /// Addresses that the page requested.
    pub(crate) fn requested(&self) -> Vec<String> {
        let pipes = self.pipes.borrow();
        let sent = pipes.events.iter().filter(|event| event["method"] == "Network.requestWillBeSent");
        sent.filter_map(|event| event["params"]["request"]["url"].as_str().map(str::to_owned)).collect()
    }

    /// Barriers for readers with disabilities that axe-core finds, in light and in dark colours.
    pub(crate) fn barriers(&self, axe: &str) -> Vec<Value> {
        self.value(&format!("{axe}; 1"));
        let barriers = |dark: bool| {
            self.look_as(1200, 900, dark);
            self.value(
                "axe.run().then(found => found.violations.map(one => one.id + ': ' + one.nodes[0].html))",
            )
        };
        [false, true]
            .map(barriers)
            .iter()
            .flat_map(|found| found.as_array().expect("a list").clone())
            .collect()
    }

    /// A picture of the page, as PNG in base64.
    pub(crate) fn picture(&self) -> String {
        let picture = self.call("Page.captureScreenshot", &json!({ "format": "png" }));
        picture["data"].as_str().expect("a picture").to_owned()
    }
}
