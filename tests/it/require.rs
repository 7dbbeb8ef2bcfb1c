//! Skips need a reason: a privileged test that cannot run names the missing capability, and `RXLAB_REQUIRE` turns the
//! skip into a failure. `RXLAB_SKIP` names capabilities to do without on a machine that has them (`make check`).

use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

/// Returns from a test that cannot run here: `require::needs!(netns, program("tuned", "tuned-adm", "--version"))`.
macro_rules! needs {
    ($($capability:ident $(($($argument:expr),*))?),+) => {
        if $(!$crate::require::$capability($($($argument),*)?))||+ {
            return;
        }
    };
}
pub(crate) use needs;

/// True if the variable, a list of capabilities, has this one.
fn lists(variable: &str, capability: &str) -> bool {
    std::env::var(variable).unwrap_or_default().split(',').any(|name| name == capability)
}

/// True if the test can run. `capability` is a name in `RXLAB_REQUIRE` and `RXLAB_SKIP`; `missing` returns the reason
/// why it is unavailable, and is not called for one that is to be skipped.
pub(crate) fn have(capability: &str, missing: impl FnOnce() -> Option<String>) -> bool {
    let skipped = lists("RXLAB_SKIP", capability).then(|| "RXLAB_SKIP names it".to_owned());
    let Some(missing) = skipped.or_else(missing) else { return true };
    assert!(
        !lists("RXLAB_REQUIRE", capability),
        "RXLAB_REQUIRE wants {capability}, and it is missing: {missing}"
    );
    println!("skipped, {capability} is missing: {missing}");
    false
}

/// Network namespaces, veth and `ip`.
pub(crate) fn netns() -> bool {
    static MISSING: LazyLock<Option<String>> = LazyLock::new(|| {
        let range = rxlab::lab::Range::build(&rxlab::lab::RangeSpec::default());
        range.err().map(|error| error.to_string())
    });
    have("netns", || MISSING.clone())
}

/// Reason why a program cannot be run.
fn missing(name: &str, argument: &str) -> Option<String> {
    Command::new(name).arg(argument).output().err().map(|error| format!("cannot run {name}: {error}"))
}

fn not_root() -> Option<String> {
    (!rustix::process::geteuid().is_root()).then(|| "the tests do not run as root".to_owned())
}

/// Root, and `setpriv` to become another user.
pub(crate) fn root() -> bool {
    have("root", || not_root().or_else(|| missing("setpriv", "--version")))
}

/// The programs that measure receive time; attaches them briefly.
pub(crate) fn bpf() -> bool {
    static MISSING: LazyLock<Option<String>> = LazyLock::new(|| {
        let host = rxlab_sys::LiveHost::open("/".as_ref()).expect("opened");
        rxlab_probe::Programs::attach(&host).err().map(|missing| missing.to_string())
    });
    have("bpf", || MISSING.clone())
}

/// The irqbalance daemon, with no other instance running: the two would conflict.
pub(crate) fn irqbalance() -> bool {
    let running = || {
        let host = rxlab_sys::LiveHost::open("/".as_ref()).expect("opened");
        let running = rxlab_path::sample::Inventory::take(&host, rxlab_path::sample::Scope::Path).irqbalance;
        let running = running.known().and_then(Option::as_ref);
        running.map(|irqbalance| format!("process {} is one already", irqbalance.pid))
    };
    have("irqbalance", || not_root().or_else(|| missing("irqbalance", "--version")).or_else(running))
}

/// A program that the tests only use to check a file.
pub(crate) fn program(capability: &str, name: &str, version: &str) -> bool {
    have(capability, || missing(name, version))
}

/// Programs that are capabilities by their own name, with the argument that makes them exit at once.
macro_rules! programs {
    ($($(#[$doc:meta])* $name:ident $argument:literal,)+) => {
        $($(#[$doc])* pub(crate) fn $name() -> bool {
            program(stringify!($name), stringify!($name), $argument)
        })+
    };
}

programs! {
    /// A third-party web server.
    nginx "-v",
    /// A third-party web server with HTTP/3.
    caddy "version",
    /// A third-party name server.
    dnsmasq "--version",
    /// A third-party BitTorrent tracker.
    opentracker "-h",
    /// A metrics server, for PromQL.
    prometheus "--version",
    /// Required to set offloads.
    ethtool "--version",
    /// Required to load a firewall.
    nft "--version",
    /// A browser that a test can drive.
    chromium "--version",
    /// A terminal that a test can read and type into.
    tmux "-V",
}

/// udev's own tool; `RXLAB_UDEVADM` gives the path of one that is not installed, for a machine without udev.
pub(crate) fn udevadm() -> Option<String> {
    let udevadm = std::env::var("RXLAB_UDEVADM").unwrap_or_else(|_| "udevadm".to_owned());
    program("udev", &udevadm, "--version").then_some(udevadm)
}

/// Output of a program of `lab/`, or why there is none: `failed` and its complaint.
fn lab(name: &str, arguments: &[&str], failed: &str) -> Result<String, String> {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("lab").join(name);
    match Command::new(program).args(arguments).output() {
        Err(error) => Err(format!("cannot run lab/{name}: {error}")),
        Ok(out) if out.status.success() => Ok(String::from_utf8_lossy(&out.stdout).into_owned()),
        Ok(out) => Err(format!("{failed}{}", String::from_utf8_lossy(&out.stderr).trim())),
    }
}

/// CPU time, for tests that take minutes of it: those of every operation, or of thousands of machines or schedules.
pub(crate) fn minutes() -> bool {
    have("minutes", || None)
}

/// Requirements of `lab/vm` to boot a guest, including its kernel in the cache.
pub(crate) fn vm() -> bool {
    have("vm", || lab("vm", &["--check"], "").err())
}

/// The Go/Fiber server of the field cases, which `scripts/setup.sh cases` builds.
pub(crate) fn fiber() -> bool {
    have("fiber", || lab("fiber", &[], "lab/fiber --build has not built it: ").err())
}

/// The source of axe-core, which finds barriers for readers with disabilities; `scripts/setup.sh test` fetches it.
pub(crate) fn axe() -> Option<String> {
    let path = lab("axe", &[], "lab/axe --fetch has not fetched it: ");
    let is_there = have("axe", || path.as_ref().err().cloned());
    path.ok().filter(|_| is_there).map(|path| std::fs::read_to_string(path.trim_end()).expect("readable"))
}

/// Folder of the Python client of the Model Context Protocol, which `scripts/setup.sh test` fetches.
pub(crate) fn mcp() -> Option<String> {
    let path = lab("mcp", &[], "lab/mcp --fetch has not fetched it: ");
    let is_there = have("mcp", || path.as_ref().err().cloned());
    path.ok().filter(|_| is_there).map(|path| path.trim_end().to_owned())
}
