//! Every parser by the name of its file below `src`. A test of rxlab looks here for a call of each function of
//! `src/parse` that takes nothing but text or bytes; what is parsed elsewhere it does not know.

use std::hint::black_box;
use std::io;

use rxlab_base::parse::{self, ethtool};
use rxlab_base::units::{CpuMask, NicName, QueueId, parse_duration};
use rxlab_change::journal::{History, Notice};
use rxlab_faces::web;
use rxlab_load::servers::bep15::{Answer, Request};
use rxlab_load::servers::respond;
use rxlab_load::{
    Body, Header, Promql, Rate, Report, Spec as Load, StreamEnd, Url, dns_answer, hear_name_server,
    hear_tracker, judge_answers, judge_http2, merge, parse_paths, parse_targets,
};
use rxlab_record::recorder::{Ring, Storage};
use rxlab_record::snapshot::Snapshot;
use rxlab_setting::{Plan, Setting, Target as PlanTarget};
use rxlab_sys::RecordedHost;
use rxlab_trial::blocks::BlocksRecord;
use rxlab_trial::checkpoint::Checkpoint;
use rxlab_trial::record::TrialRecord;
use rxlab_trial::schedule::Scheduled;
use rxlab_trial::spec::Spec;
use rxlab_trial::workload::of_command;

/// Function that gets one input.
pub type Target = fn(&[u8]);

/// Every target, by name.
pub const TARGETS: &[(&str, Target)] = &[
    ("parse/cgroup", |bytes| {
        with(bytes, |text| parse::control_groups(text).map(|groups| groups.telling().map(str::to_owned)));
        with(bytes, parse::throttling);
        with(bytes, parse::cpu_limit);
        with(bytes, |text| parse::hierarchy(text, "cpuset"));
    }),
    ("parse/cpuinfo", |bytes| with(bytes, parse::cpu_model)),
    ("parse/configuration", |bytes| {
        with(bytes, |text| parse::configuration_entries(text).len());
        with(bytes, |text| parse::configuration_lines(text).count());
    }),
    ("parse/containers", |bytes| {
        with(bytes, parse::container);
        with(bytes, |path| parse::unit(path).map(str::len));
    }),
    ("parse/interrupts", |bytes| {
        let (Some(full), Some(short)) =
            (text(bytes).map(parse::interrupts), text(bytes).map(parse::interrupt_actions))
        else {
            return;
        };
        // Two readings of one file: what the short one leaves out are the counts, nothing else.
        if let (Ok(full), Ok(short)) = (full, short) {
            let actions = |line: &parse::InterruptLine| line.actions().len();
            assert!(
                full.irqs
                    .iter()
                    .filter(|(_, line)| actions(line) > 0)
                    .all(|(irq, _)| { short.iter().any(|requested| requested.number == *irq) })
            );
        }
    }),
    ("parse/irqbalance", |bytes| on(bytes, parse::irqbalance_setup)),
    ("parse/irqbalance_start", |bytes| {
        with(bytes, |text| (parse::irqbalance_arguments(text), parse::irqbalance_variables(text.lines())))
    }),
    ("parse/kernel_arguments", |bytes| {
        with(bytes, |text| {
            (parse::has_kernel_argument(text, "rxlab=off"), parse::kernel_argument(text, "rcu_nocbs"))
        })
    }),
    ("parse/links", |bytes| {
        on(bytes, parse::links);
        let eth0 = "eth0".parse().expect("a name");
        black_box(parse::with_link_attributes(bytes, &eth0, bytes).is_ok());
    }),
    ("parse/load_tools", |bytes| with(bytes, parse::load_tool_report)),
    ("parse/locks", |bytes| with(bytes, |text| parse::lock_owners(text, 2))),
    ("parse/mounts", |bytes| {
        with(bytes, parse::mounts);
        black_box(parse::mounted_namespaces(bytes).is_ok());
    }),
    ("parse/namespace", |bytes| {
        on(bytes, parse::namespace_id);
        with(bytes, parse::namespace_inode);
    }),
    ("parse/openssl", |bytes| with(bytes, parse::openssl_speed)),
    ("parse/process", |bytes| {
        with(bytes, parse::allowed_cpus);
        with(bytes, parse::thread_group);
        with(bytes, parse::process_numbers);
        with(bytes, parse::capabilities);
        with(bytes, parse::boottime_offset_ns);
        with(bytes, parse::last_cpu);
        with(bytes, parse::is_runnable);
        with(bytes, parse::has_ended);
        with(bytes, parse::children);
        with(bytes, parse::scheduling);
        on(bytes, parse::thread_attributes);
        with(bytes, parse::parent);
        with(bytes, parse::process_stat);
    }),
    ("parse/schedstat", |bytes| {
        with(bytes, parse::on_cpu_ns);
        with(bytes, parse::ran_and_waited_ns);
        with(bytes, |text| parse::thread_name(text).len());
    }),
    ("parse/sock_diag", |bytes| {
        on(bytes, parse::listening_sockets);
        on(bytes, parse::connected_sockets);
    }),
    ("parse/sockets", |bytes| {
        with(bytes, parse::tcp_listeners);
        with(bytes, parse::udp_listeners);
        with(bytes, parse::unix_sockets);
    }),
    ("parse/softirqs", |bytes| with(bytes, parse::softirqs)),
    ("parse/softnet", |bytes| with(bytes, parse::softnet)),
    ("parse/stat", |bytes| with(bytes, parse::stat)),
    ("parse/wire", |bytes| {
        for message in parse::messages(bytes).unwrap_or_default().into_iter().chain([bytes]) {
            let Ok(attributes) = parse::Attributes::parse(message) else { continue };
            for (kind, _) in attributes.iter() {
                let values = (attributes.number(kind), attributes.text(kind), attributes.nested(kind));
                let _ = black_box(values);
            }
        }
    }),
    ("parse/net_dev", |bytes| with(bytes, parse::net_dev)),
    ("parse/qdiscs", |bytes| drop(parse::qdiscs(bytes))),
    ("parse/snmp", |bytes| with(bytes, parse::snmp)),
    ("parse/snmp6", |bytes| with(bytes, parse::snmp6)),
    ("parse/conntrack_stat", |bytes| with(bytes, parse::conntrack_stat)),
    ("parse/netdev/napis", |bytes| {
        on(bytes, parse::netdev_napis);
        black_box(parse::with_napi_settings(bytes, 257, bytes).is_ok());
    }),
    ("parse/netdev/qstats", |bytes| on(bytes, parse::queue_stats)),
    ("parse/netdev/queues", |bytes| on(bytes, parse::netdev_queues)),
    ("parse/ethtool/channels", |bytes| on(bytes, ethtool::channels)),
    ("parse/ethtool/coalesce", |bytes| on(bytes, ethtool::coalesce)),
    ("parse/ethtool/driver", |bytes| on(bytes, ethtool::driver)),
    ("parse/ethtool/features", |bytes| {
        on(bytes, ethtool::features);
        on(bytes, ethtool::requested);
    }),
    ("parse/ethtool/queue_coalesce", |bytes| on(bytes, ethtool::queue_coalesce)),
    ("parse/ethtool/rings", |bytes| on(bytes, ethtool::rings)),
    ("parse/ethtool/rss", |bytes| {
        with(bytes, ethtool::hash_letters_of);
        with(bytes, ethtool::rss::flow_number);
        black_box((ethtool::rss(bytes).is_ok(), ethtool::rss_contexts(bytes).is_ok()));
        black_box((ethtool::rx_rings(bytes).is_ok(), ethtool::hash_fields(bytes).is_ok()));
        if let Ok(rss) = ethtool::rss_ioctl(bytes) {
            assert_eq!(rss.weights().values().sum::<usize>(), rss.table.len());
        }
    }),
    ("parse/ethtool/flow_text", |bytes| {
        with(bytes, |text| {
            (ethtool::flow_bytes(7, text), ethtool::same_flow(text, "tcp4 dst-port 80 action 3"))
        });
    }),
    ("parse/ethtool/rules", |bytes| {
        black_box((ethtool::rules(bytes).is_ok(), ethtool::chooses_slots(bytes).is_ok()));
    }),
    ("parse/ethtool/stats", |bytes| {
        let Ok(names) = ethtool::stat_names(bytes) else { return };
        let values: Vec<u64> = ethtool::stats(bytes).unwrap_or_default();
        let patterns = rxlab_path::drivers::statistics(Some("mana"));
        black_box(ethtool::QueueStatistics::new(patterns, &names, 64).counters(&values).is_ok());
    }),
    ("units/cpu_mask", |bytes| {
        with(bytes, str::parse::<CpuMask>);
        with(bytes, CpuMask::from_hex);
    }),
    ("units/names", |bytes| {
        with(bytes, str::parse::<QueueId>);
        with(bytes, str::parse::<NicName>);
    }),
    ("units/duration", |bytes| with(bytes, parse_duration)),
    ("plan/file", |bytes| with(bytes, Plan::from_toml)),
    ("plan/setting", |bytes| {
        with(bytes, str::parse::<Setting>);
        with(bytes, str::parse::<PlanTarget>);
    }),
    ("trial/spec", |bytes| with(bytes, Spec::parse)),
    ("trial/command", |bytes| {
        let Some(Ok((work, trouble))) = text(bytes).map(of_command) else { return };
        // A record is read back as it was written.
        let numbers = work.values.values().copied().chain([trouble.error_rate]).chain(trouble.p99_us);
        assert!(numbers.into_iter().all(f64::is_finite));
    }),
    ("trial/record", |bytes| {
        let Ok(record) = serde_json::from_slice::<TrialRecord>(bytes) else { return };
        black_box((record.verdict(), record.done_s(), record.has_no_time(), record.idle_slots()));
        black_box((record.arms(), record.compared().count(), record.tripped_without_change()));
    }),
    ("trial/blocks", |bytes| on(bytes, |bytes| serde_json::from_slice::<BlocksRecord>(bytes))),
    ("trial/checkpoints", |bytes| {
        on(bytes, |bytes| serde_json::from_slice::<Vec<Checkpoint>>(bytes));
        let scheduled = serde_json::from_slice::<Vec<Scheduled>>(bytes).unwrap_or_default();
        scheduled.iter().for_each(|one| drop(black_box(one.calendar())));
    }),
    ("journal/recover", |bytes| on(bytes, History::parse)),
    ("journal/notice", |bytes| on(bytes, |bytes| serde_json::from_slice::<Notice>(bytes))),
    ("load/url", |bytes| with(bytes, str::parse::<Url>)),
    ("load/header", |bytes| with(bytes, str::parse::<Header>)),
    ("load/paths", |bytes| {
        let url = "http://h/".parse().expect("a URL");
        with(bytes, |text| parse_paths(text, &url));
        let url = "dns://h/".parse().expect("a URL");
        with(bytes, |text| parse_paths(text, &url));
    }),
    ("load/targets", |bytes| {
        let url = "http://h/".parse().expect("a URL");
        with(bytes, |text| parse_targets(text, &url, |_| Ok(Body::default())));
    }),
    ("load/prometheus", |bytes| {
        let Some(text) = text(bytes) else { return };
        if let Ok(all) = Promql::series(text) {
            assert!(all.iter().all(|one| one.mean.is_some() == (one.values > 0)));
        }
        assert!(Promql::value(text).is_ok_and(f64::is_finite) || Promql::value(text).is_err());
    }),
    ("load/dns_answer", |bytes| on(bytes, |bytes| dns_answer(bytes, "/a.example"))),
    ("target/http", |bytes| {
        // A request does not depend on what follows it, and is not answered before its head is whole.
        let (mut whole, mut part) = (Vec::new(), Vec::new());
        let Some((used, status)) = respond(bytes, &mut whole) else { return };
        assert!(used <= bytes.len() && !whole.is_empty());
        if status < 400 {
            assert_eq!(respond(&bytes[..used], &mut part), Some((used, status)));
            // The date may differ.
            assert_eq!(part.len(), whole.len());
            assert_eq!(respond(&bytes[..used - 1], &mut part), None);
        }
    }),
    ("web/request", |bytes| {
        let Some(Ok(request)) = web::Request::parse(bytes) else { return };
        black_box((request.header("host"), request.parameter("at"), request.cookie("token")));
        assert!(!request.path.contains('?'));
        let longer = [bytes, b"GET / HTTP/1.1\r\n"].concat();
        assert_eq!(web::Request::parse(&longer), Some(Ok(request)));
    }),
    ("target/bep15", |bytes| {
        let written = |write: &dyn Fn(&mut Vec<u8>)| {
            let mut out = Vec::new();
            write(&mut out);
            out
        };
        if let Some(answer) = Answer::parse(bytes) {
            assert_eq!(Answer::parse(&written(&|out| answer.write(out))), Some(answer));
        }
        if let Some(request) = Request::parse(bytes) {
            assert_eq!(Request::parse(&written(&|out| request.write(out))), Some(request));
        }
    }),
    ("load/result", |bytes| {
        with(bytes, |text| Report::from_json(text).is_ok_and(|report| merge(&[report]).is_ok()));
    }),
    ("load/rate", |bytes| with(bytes, str::parse::<Rate>)),
    ("load/answers", |bytes| {
        // However the network cuts it, a stream says the same.
        let spec = load();
        let whole = judge_answers([bytes], &spec);
        assert_eq!(judge_answers(bytes.chunks(1), &spec), whole);
        assert_eq!(judge_answers(bytes.chunks(7), &spec), whole);
    }),
    ("load/judged_answers", |bytes| {
        let Some((kind, stream)) = bytes.split_first() else { return };
        let mut spec = load();
        if kind & 1 == 1 {
            spec.method = "HEAD".to_owned();
        }
        match kind >> 1 & 3 {
            0 => {}
            1 => spec.expect_body = Some("hello".into()),
            _ => spec.announce = true,
        }
        let whole = judge_answers([stream], &spec);
        assert_eq!(judge_answers(stream.chunks(1), &spec), whole);
        assert_eq!(judge_answers(stream.chunks(7), &spec), whole);
    }),
    ("load/http2", |bytes| {
        // Whole frames, each with its type, flags, stream and length in four bytes, or any bytes.
        let Some((kind, rest)) = bytes.split_first() else { return };
        let mut spec = load();
        spec.expect_body = (kind & 2 == 2).then(|| "hello".into());
        let stream = if kind & 1 == 1 { frames(rest) } else { rest.to_vec() };
        let requests = 1 + usize::from(kind >> 2 & 15);
        let whole = judge_http2([&stream[..]], requests, &spec).expect("no socket of ours fails");
        let answered: u64 = whole.statuses.values().sum();
        let ended = whole.completed + whole.errors.values().sum::<u64>();
        assert!(whole.completed <= answered && answered <= ended, "{whole:?}");
        assert_eq!(ended + whole.lost as u64, whole.sent as u64, "{whole:?}");
        // However the network cuts it, the good responses are the same.
        let cut = judge_http2(stream.chunks(7), requests, &spec).expect("no socket of ours fails");
        assert_eq!((cut.sent, cut.completed, &cut.statuses), (whole.sent, whole.completed, &whole.statuses));
    }),
    ("load/bencode", |bytes| {
        // Straight to the body, without a head to find first.
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", bytes.len());
        let (answers, end) = judge_answers([head.as_bytes(), bytes], &Load { announce: true, ..load() });
        assert_eq!((answers.len(), end), (1, StreamEnd::Whole));
    }),
    ("load/datagrams", |bytes| {
        let Some((start, datagram)) = bytes.split_first_chunk() else { return };
        let start = u64::from(u32::from_be_bytes(*start));
        for heard in [hear_tracker, hear_name_server] {
            if let Some(number) = heard(datagram, start..start + 100) {
                assert!(number < start + 100, "{number} was never asked");
            }
        }
    }),
    ("snapshot/redact", |bytes| {
        let host = RecordedHost::new()
            .with("proc/net/tcp", bytes)
            .with("proc/net/udp6", bytes)
            .with("proc/net/unix", bytes)
            .with("netlink/sock_diag/tcp-listeners", bytes)
            .with("netlink/route/link-get", bytes)
            .with("proc/self/mountinfo", bytes);
        let snapshot = Snapshot::between(host, RecordedHost::new(), Default::default());
        black_box(snapshot.redacted("x").manifest.redacted);
    }),
    ("snapshot/archive", |bytes| {
        let Some((kind, contents)) = bytes.split_first() else { return };
        let archive = if kind & 1 == 1 { archive(contents) } else { contents.to_vec() };
        black_box(Snapshot::read(&archive[..]).is_ok());
    }),
    ("record/segment", |bytes| {
        let Some((kind, contents)) = bytes.split_first() else { return };
        let is_packed = kind & 1 == 1;
        let Ok(ring) = Ring::open(Segment { is_packed, bytes: segment(is_packed, contents) }) else { return };
        black_box(ring.span().is_ok());
        black_box(ring.replay(i64::MIN, i64::MAX).take(1_000).filter(Result::is_ok).count());
    }),
];

/// Frames of HTTP/2 (RFC 9113 4.1) from pieces that begin with type, flags, stream and length.
fn frames(mut pieces: &[u8]) -> Vec<u8> {
    let mut all = Vec::new();
    while let Some(([kind, flags, stream, length], rest)) = pieces.split_first_chunk() {
        let (payload, rest) = rest.split_at(rest.len().min(usize::from(*length)));
        let length = u8::try_from(payload.len()).expect("no longer than its length says");
        all.extend([0, 0, length, *kind, *flags, 0, 0, 0, *stream]);
        all.extend(payload);
        pieces = rest;
    }
    all
}

/// An archive of a snapshot, some of whose parts are pieces that begin with the number of the part and their length.
fn archive(mut pieces: &[u8]) -> Vec<u8> {
    const PARTS: [&str; 6] = [
        "manifest.json",
        "first/index.json",
        "first/proc/stat",
        "last/index.json",
        "last/proc/stat",
        "journal/20260101T000000-1",
    ];
    let empty = Snapshot::between(RecordedHost::new(), RecordedHost::new(), Default::default());
    let manifest = serde_json::to_vec(&empty.manifest).expect("plain data");
    let index = serde_json::to_vec(&empty.first().parts().1).expect("plain data");
    let mut tar = tar::Builder::new(Vec::new());
    let mut add = |path: &str, contents: &[u8]| {
        let mut header = tar::Header::new_ustar();
        header.set_size(contents.len() as u64);
        tar.append_data(&mut header, path, contents).expect("memory takes it");
    };
    for (part, contents) in [(0, &manifest), (1, &index), (3, &index)] {
        add(PARTS[part], contents);
    }
    // The last of two parts of one name counts.
    while let Some(([part, length], rest)) = pieces.split_first_chunk() {
        let (contents, rest) = rest.split_at(rest.len().min(usize::from(*length)));
        add(PARTS[usize::from(*part) % PARTS.len()], contents);
        pieces = rest;
    }
    uncompressed(&tar.into_inner().expect("memory takes it"))
}

/// A frame of zstd (RFC 8878 3.1.1) in whose blocks nothing is compressed.
fn uncompressed(contents: &[u8]) -> Vec<u8> {
    let length = u32::try_from(contents.len()).expect("inputs are short");
    let mut frame = [&[0x28, 0xb5, 0x2f, 0xfd, 0xa0][..], &length.to_le_bytes()].concat();
    let mut blocks = contents.chunks(100_000).peekable();
    while let Some(block) = blocks.next() {
        let is_last = blocks.peek().is_none();
        let header = u32::try_from(block.len()).expect("blocks are short") << 3 | u32::from(is_last);
        frame.extend(&header.to_le_bytes()[..3]);
        frame.extend(block);
    }
    frame
}

/// A file of a ring: checksums are right, so that what they protect is read.
fn segment(is_packed: bool, contents: &[u8]) -> Vec<u8> {
    let record = |contents: &[u8]| {
        let length = u32::try_from(contents.len()).expect("inputs are short");
        [&length.to_le_bytes()[..], &crc32fast::hash(contents).to_le_bytes(), contents].concat()
    };
    let packed = if is_packed { r#"{"last_ms":1000,"ticks":1,"gaps":[]}"# } else { "null" };
    let endian = if cfg!(target_endian = "little") { "little" } else { "big" };
    let head = format!(r#"{{"rxlab":"0.0.0","endian":"{endian}","every_ms":1000,"packed":{packed}}}"#);
    let mut all = [&b"rxlab recording 1\n"[..], &record(head.as_bytes())].concat();
    if is_packed {
        all.extend(record(contents));
    } else {
        // The length of each record in a byte before it.
        let mut rest = contents;
        while let Some((length, after)) = rest.split_first() {
            let (one, after) = after.split_at(after.len().min(usize::from(*length)));
            all.extend(record(one));
            rest = after;
        }
    }
    all
}

struct Segment {
    is_packed: bool,
    bytes: Vec<u8>,
}

impl Storage for Segment {
    fn list(&self) -> io::Result<Vec<(String, u64)>> {
        let name = if self.is_packed { "1000.packed" } else { "1000.log" };
        Ok(vec![(name.to_owned(), self.bytes.len() as u64)])
    }

    fn read(&self, _: &str, limit: u64) -> io::Result<Vec<u8>> {
        let length = usize::try_from(limit).unwrap_or(usize::MAX).min(self.bytes.len());
        Ok(self.bytes[..length].to_vec())
    }

    fn append(&mut self, _: &str, _: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn truncate(&mut self, _: &str, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn replace(&mut self, _: &str, _: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn remove(&mut self, _: &str) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn set_aside(&mut self, _: &str, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
}

fn load() -> Load {
    Load::new("http://h/".parse().expect("a URL"))
}

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

fn on<T>(bytes: &[u8], parser: impl FnOnce(&[u8]) -> T) {
    black_box(parser(bytes));
}

/// Runs a parser of text. Skips bytes that are not UTF-8: they never reach a parser in the program either.
fn with<T>(bytes: &[u8], parser: impl FnOnce(&str) -> T) {
    if let Some(text) = text(bytes) {
        black_box(parser(text));
    }
}
