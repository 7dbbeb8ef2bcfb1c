//! A small run of the benchmark against other load generators.

use std::process::Command;

/// Runs a script of `bench` with `--small`. Returns whether it succeeded, its table, and its complaints.
fn small(script: &str) -> (bool, String, String) {
    let _noise = crate::quiet::noisy();
    let out = Command::new(format!("{}/bench/{script}", env!("CARGO_MANIFEST_DIR")))
        .args(["--small", "--program", env!("CARGO_BIN_EXE_rxlab")])
        .output()
        .expect("the script runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (out.status.success(), text(&out.stdout), text(&out.stderr))
}

#[test]
fn the_load_benchmark_runs() {
    let have = |name, version| crate::require::program("bench", name, version);
    if !have("bash", "--version") || !have("taskset", "--version") {
        return;
    }
    let (succeeded, table, complaints) = small("load.sh");
    assert!(succeeded, "{complaints}");
    for (case, client) in [
        ("depth-1", "rxlab"),
        ("depth-16", "rxlab"),
        ("open-2k", "rxlab-precise"),
        ("open-2k", "rxlab-coarse"),
    ] {
        let line = table
            .lines()
            .find(|line| line.split_whitespace().take(2).eq([case, client]))
            .unwrap_or_else(|| panic!("{case} {client}: {table}\n{complaints}"));
        let number = |column: usize| line.split_whitespace().nth(column).and_then(|n| n.parse::<f64>().ok());
        // Median, runs, requests per second.
        for column in [2, 6, 7] {
            assert!(number(column).is_some_and(|number| number > 0.0), "{line}");
        }
    }
    assert!(table.contains("# rxlab "), "the versions stand above the table: {table}");
}

#[test]
fn the_limits_benchmark_runs() {
    crate::require::needs!(program("bench", "bash", "--version"));
    let (_, table, complaints) = small("load-limits.sh");
    let line = |begin: &str| {
        let line = table.lines().find(|line| line.trim_start().starts_with(begin));
        line.unwrap_or_else(|| panic!("{begin}: {table}\n{complaints}")).to_owned()
    };
    // Results are not checked: the machine is busy.
    let counts: Vec<u64> = line("1000 ")
        .split_whitespace()
        .map_while(|word| word.parse::<f64>().ok())
        .map(|n| n as u64)
        .collect();
    let [_, _, due, sent] = counts[..] else { panic!("{table}") };
    assert!((500..=due).contains(&sent), "{table}");
    let open = line("open at most").split([' ', ',']).find_map(|word| word.parse::<u64>().ok());
    assert!(open.is_some_and(|open| open > 1000), "{table}");
    assert!(line("first ").ends_with(": too short to judge"), "{table}");
}

/// One row: each client reads a usual response.
#[test]
fn the_table_of_framings_is_made() {
    if !crate::require::program("bench", "python3", "--version") {
        return;
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/bench/conformance/run.py");
    let out = Command::new("python3")
        .args([script, "--only", "status 299", "--program", env!("CARGO_BIN_EXE_rxlab")])
        .output()
        .expect("the script runs");
    let text = String::from_utf8_lossy(&out.stdout);
    let row =
        |name: &str| text.lines().find(|line| line.starts_with(name)).map(|line| line.split_whitespace());
    let clients = row("response").expect("the names of the clients").count() - 1;
    let cells = row("status 299").expect("its row").skip(2);
    assert!(clients > 0 && cells.eq(std::iter::repeat_n("yes", clients)), "{text}");
}

/// Programs that leak memory, descriptors, threads, files or BPF objects, next to one that leaks nothing.
#[test]
fn the_soak_finds_each_leak() {
    crate::require::needs!(program("bench", "python3", "--version"));
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/bench/soak/run.py");
    let out = Command::new(script).arg("--self-test").output().expect("the script runs");
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success(), "{text}{}", String::from_utf8_lossy(&out.stderr));
    for leak in
        ["memory: anonymous_kib", "descriptors: descriptors", "threads: threads", "files of files: files"]
    {
        assert!(text.lines().any(|line| line.starts_with(&format!("{leak} grew from "))), "{leak}: {text}");
    }
    assert!(!text.contains("nothing: "), "{text}");
}
