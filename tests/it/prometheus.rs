//! A real Prometheus.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;

use rxlab_load::Promql;

use crate::process::{PATIENCE, Running, free_port, wait_for};
use crate::require;

/// Prometheus on 127.0.0.1 with its own files, stopped when dropped.
pub(crate) struct Prometheus {
    _running: Running,
    pub(crate) url: String,
    _directory: tempfile::TempDir,
}

impl Prometheus {
    /// Scrapes itself and `targets`, as jobs of these names, each second, and evaluates the file of `rules`. Returns after
    /// the first scrape of itself; `None` if skipped.
    pub(crate) fn start(targets: &[(&str, SocketAddr)], rules: Option<&Path>) -> Option<Self> {
        if !require::prometheus() {
            return None;
        }
        let own = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        let directory = tempfile::tempdir().expect("a temporary directory");
        let config = directory.path().join("prometheus.yml");
        let mut text = "global: { scrape_interval: 1s, evaluation_interval: 1s }\n".to_owned();
        if let Some(rules) = rules {
            text += &format!("rule_files: ['{}']\n", rules.display());
        }
        text += "scrape_configs:\n";
        for (job, target) in [("self", own)].iter().chain(targets) {
            text += &format!("  - job_name: {job}\n    static_configs: [{{ targets: ['{target}'] }}]\n");
        }
        std::fs::write(&config, text).expect("written");
        let mut command = Command::new("prometheus");
        command.arg(format!("--config.file={}", config.display()));
        command.arg(format!("--storage.tsdb.path={}", directory.path().join("data").display()));
        let running = Running::silent(command.arg(format!("--web.listen-address={own}")));
        let prometheus = Self { _running: running, url: format!("http://{own}"), _directory: directory };
        wait_for("its first scrape", || prometheus.current("up{job='self'}") == Ok(1.0));
        Some(prometheus)
    }

    /// The only value of a query, or why there is none.
    pub(crate) fn current(&self, query: &str) -> Result<f64, String> {
        Promql::current(&self.url.parse().expect("a URL"), query, PATIENCE)
    }
}
