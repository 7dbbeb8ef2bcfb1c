//! `rxlab trace`: records the timeline of receive work, in a file and as a summary.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::look::ended;
use super::{Global, files, machine, output, place, progress};
use crate::error::{CommandError, Kind, Result};
use rxlab_base::units::{CpuMask, format_duration, parse_duration};
use rxlab_faces::report::timeline::Timeline;
use rxlab_faces::report::{html, trace};
use rxlab_path::model::{Identity, Model};
use rxlab_probe::trace::{Item, Sink, Slice, TraceError, TraceOptions, record};
use rxlab_probe::{Missing, Moment, Names};

/// Record when each CPU received packets, why, and for how long
///
/// Traces interrupts, softirqs, NAPI polls and receiving threads with eBPF (root). Prints a summary, and writes the
/// timeline to FILE for https://ui.perfetto.dev or chrome://tracing. Both also open a compressed file: name it
/// .json.gz, because one second can take 32 MB. A FILE.svg is a picture of up to 100 ms instead.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Length of the trace
    #[arg(long = "for", value_name = "TIME", default_value = "1s", value_parser = parse_duration)]
    length: Duration,
    /// Write the timeline to FILE: compressed if its name ends in .gz, a picture if in .svg
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Only these CPUs, such as 0-3,8
    #[arg(long, value_name = "LIST")]
    cpu: Option<CpuMask>,
    /// Memory for unread events, in KiB: a power of two
    #[arg(long, value_name = "KIB", default_value_t = 32768)]
    buffer: u32,
}

const SHORTEST: Duration = Duration::from_millis(10);
const LONGEST: Duration = Duration::from_secs(600);
/// More than this is no picture: its width would show nothing.
const PICTURE: Duration = Duration::from_millis(100);
/// From one page to a size well within the kernel's own bound.
const BUFFERS: std::ops::RangeInclusive<u32> = 4..=1 << 20;

pub(super) fn run(global: &Global, args: &Args) -> Result {
    if args.length < SHORTEST || args.length > LONGEST {
        return Err(CommandError::usage("--for must be 10ms to 10m"));
    }
    let is_picture = args.out.as_deref().is_some_and(|path| path.extension().is_some_and(|end| end == "svg"));
    if is_picture && args.length > PICTURE {
        let given = format_duration(args.length);
        return Err(CommandError::usage(format!("--for {given} is too long for a picture: at most 100ms"))
            .hint("--for 20ms makes one; a FILE.json.gz has room for more"));
    }
    if global.root != Path::new("/") {
        return Err(CommandError::usage("trace records this machine: it cannot be combined with --root"));
    }
    if !BUFFERS.contains(&args.buffer) || !args.buffer.is_power_of_two() {
        return Err(CommandError::usage("--buffer must be a power of two from 4 to 1048576"));
    }
    let host = machine::readable(global)?;
    let inventory = Moment::inventory(&host);
    if let Some(wanted) = &args.cpu {
        machine::cpus(&machine::describe(&inventory)?, wanted)?;
    }
    let names = Names::new(&inventory);
    let identity = &Model::new(&inventory).identity;
    let mut output = Output {
        path: args.out.as_deref(),
        is_picture,
        file: TraceFile::None,
        names: &names,
        identity,
        bar: progress::clock("tracing", args.length),
    };
    let options = TraceOptions { length: args.length, cpus: args.cpu.clone(), buffer: args.buffer * 1024 };
    let stop = place::stop_flag()?;
    let traced = record(&host, &inventory, &options, &mut output, &stop);
    output.bar.finish_and_clear();
    let found = traced.map_err(|error| explain(args, error))?;
    let bytes =
        output.close(Duration::from_secs_f64(found.seconds)).map_err(|error| cannot_write(args, &error))?;
    let printed = output::print(global, &found, || {
        trace::text(&found) + &trace::written(args.out.as_deref().zip(bytes))
    });
    ended(&stop, printed)
}

/// The file, if one is requested, and the progress bar.
struct Output<'a> {
    path: Option<&'a Path>,
    is_picture: bool,
    file: TraceFile<'a>,
    names: &'a Names,
    identity: &'a Identity,
    bar: progress::Bar,
}

/// Parts of a trace that are written.
enum TraceFile<'a> {
    None,
    /// Each item as it comes.
    Timeline(TimelineFile, Timeline<'a>),
    /// Finished work since the beginning of the trace, drawn at its end.
    Picture(File, u64, Vec<Slice>),
}

impl Sink for Output<'_> {
    fn begin(&mut self, at: u64) -> io::Result<()> {
        // Not earlier: if nothing can be traced, an existing file is left unchanged.
        let Some(path) = self.path else { return Ok(()) };
        let file = files::begin(path)?;
        if self.is_picture {
            self.file = TraceFile::Picture(file, at, Vec::new());
            return Ok(());
        }
        let mut timeline = Timeline::new(self.names, self.identity, at);
        let mut file = TimelineFile::new(path, file);
        file.write_all(timeline.open().as_bytes())?;
        self.file = TraceFile::Timeline(file, timeline);
        Ok(())
    }

    fn take(&mut self, item: &Item) -> io::Result<()> {
        match (&mut self.file, item) {
            (TraceFile::Timeline(file, timeline), item) => file.write_all(timeline.item(item).as_bytes()),
            (TraceFile::Picture(_, _, slices), Item::Ended(slice)) => {
                slices.push(slice.clone());
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn elapsed(&mut self, elapsed: Duration) {
        self.bar.set_elapsed(elapsed);
    }
}

impl Output<'_> {
    /// Finishes the file of a trace of this length, and returns its size.
    fn close(self, length: Duration) -> io::Result<Option<u64>> {
        let file = match self.file {
            TraceFile::None => return Ok(None),
            TraceFile::Timeline(mut file, timeline) => {
                file.write_all(timeline.close().as_bytes())?;
                file.finish()?
            }
            TraceFile::Picture(mut file, began, slices) => {
                let length = u64::try_from(length.as_nanos()).unwrap_or(u64::MAX);
                let picture = html::picture(&slices, (began, length), self.names, self.identity);
                file.write_all(picture.as_bytes())?;
                file
            }
        };
        Ok(Some(file.metadata()?.len()))
    }
}

/// The timeline's file, compressed or not by its name.
enum TimelineFile {
    Plain(BufWriter<File>),
    Compressed(Box<GzEncoder<BufWriter<File>>>),
}

impl TimelineFile {
    fn new(path: &Path, file: File) -> Self {
        let file = BufWriter::new(file);
        if path.extension().is_some_and(|end| end == "gz") {
            // The fastest level: the ring buffer has to be drained meanwhile.
            Self::Compressed(Box::new(GzEncoder::new(file, Compression::fast())))
        } else {
            Self::Plain(file)
        }
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Plain(file) => file.write_all(bytes),
            Self::Compressed(file) => file.write_all(bytes),
        }
    }

    /// Ends the compressed stream and flushes the buffers.
    fn finish(self) -> io::Result<File> {
        let file = match self {
            Self::Plain(file) => file,
            Self::Compressed(file) => file.finish()?,
        };
        file.into_inner().map_err(io::IntoInnerError::into_error)
    }
}

fn cannot_write(args: &Args, error: &io::Error) -> CommandError {
    files::cannot_write(args.out.as_deref().unwrap_or(Path::new("the trace")), error)
}

fn explain(args: &Args, error: TraceError) -> CommandError {
    match &error {
        TraceError::Missing(Missing::Privilege) => {
            CommandError::new(Kind::Denied, &error).hint(machine::privilege("tracing with eBPF"))
        }
        TraceError::Missing(_) => CommandError::new(Kind::Denied, &error),
        TraceError::Output(error) => cannot_write(args, error),
        TraceError::Read(_) | TraceError::Record(_) => CommandError::failed(&error),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek};
    use std::path::Path;

    use flate2::read::GzDecoder;

    use super::TimelineFile;

    #[test]
    fn the_name_decides_whether_the_file_is_compressed() {
        let written = |name: &str| {
            let mut file = tempfile::tempfile().expect("a temporary file");
            let mut timeline = TimelineFile::new(Path::new(name), file.try_clone().expect("cloned"));
            timeline.write_all(b"[\n]\n").expect("written");
            timeline.finish().expect("ended");
            let mut bytes = Vec::new();
            file.rewind().expect("at its beginning");
            file.read_to_end(&mut bytes).expect("read");
            bytes
        };
        assert_eq!(written("trace.json"), b"[\n]\n");
        let mut text = String::new();
        GzDecoder::new(&written("trace.json.gz")[..]).read_to_string(&mut text).expect("gzip");
        assert_eq!(text, "[\n]\n");
    }
}
