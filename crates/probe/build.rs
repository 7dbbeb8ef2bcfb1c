//! Compiles the BPF programs with clang; the library embeds the object.

#![allow(clippy::disallowed_methods)] // Starts the compiler.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The programs by the name of their file and of the object made of it.
const PROGRAMS: [&str; 5] = ["drops", "handover", "net_rx", "softirq_time", "trace"];
const HEADERS: [&str; 4] = ["accounts", "events", "kernel", "records"];
const FOLDER: &str = "src";

fn main() {
    for header in HEADERS {
        println!("cargo:rerun-if-changed={FOLDER}/{header}.bpf.h");
    }
    println!("cargo:rerun-if-env-changed=CLANG");
    for program in PROGRAMS {
        compile(program);
    }
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"))
}

fn compile(program: &str) {
    let source = format!("{FOLDER}/{program}.bpf.c");
    println!("cargo:rerun-if-changed={source}");
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    let object = PathBuf::from(variable("OUT_DIR")).join(format!("{program}.bpf.o"));
    // Where Debian has <asm/types.h>, of this machine and for cross builds: clang does not look there when it compiles
    // for BPF.
    let machine = variable("CARGO_CFG_TARGET_ARCH");
    let headers = [format!("/usr/include/{machine}-linux-gnu"), format!("/usr/{machine}-linux-gnu/include")];
    let status = Command::new(&clang)
        // -g makes the BTF that the programs are relocated by.
        .args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Werror"])
        .arg("-I")
        .arg(Path::new(&variable("DEP_BPF_INCLUDE")))
        .args(headers.iter().flat_map(|folder| ["-idirafter", folder]))
        .args(["-c", &source, "-o"])
        .arg(object)
        .status();
    match status {
        Ok(status) if status.success() => {}
        Ok(status) => panic!("{clang} cannot compile {source}: {status}"),
        Err(error) => panic!(
            "cannot run {clang}, which compiles the BPF programs: {error}; on Debian: apt-get install clang"
        ),
    }
}
