//! Compiles the BPF programs with clang; the library embeds the object.

#![allow(clippy::disallowed_methods)] // Starts the compiler.

use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCE: &str = "src/probe/net_rx.bpf.c";
const HEADERS: [&str; 3] = ["src/probe/accounts.bpf.h", "src/probe/kernel.bpf.h", "src/probe/records.bpf.h"];

fn main() {
    for file in HEADERS.iter().chain([&SOURCE]) {
        println!("cargo:rerun-if-changed={file}");
    }
    println!("cargo:rerun-if-env-changed=CLANG");
    let variable = |name: &str| std::env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"));
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    let object = PathBuf::from(variable("OUT_DIR")).join("net_rx.bpf.o");
    // Where Debian has <asm/types.h>: clang does not look there when it compiles for BPF.
    let machine = format!("/usr/include/{}-linux-gnu", variable("CARGO_CFG_TARGET_ARCH"));
    let status = Command::new(&clang)
        // -g makes the BTF that the programs are relocated by.
        .args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Werror"])
        .arg("-I")
        .arg(Path::new(&variable("DEP_BPF_INCLUDE")))
        .arg("-I")
        .arg(machine)
        .args(["-c", SOURCE, "-o"])
        .arg(object)
        .status();
    match status {
        Ok(status) if status.success() => {}
        Ok(status) => panic!("{clang} cannot compile {SOURCE}: {status}"),
        Err(error) => panic!(
            "cannot run {clang}, which compiles the BPF programs: {error}; on Debian: apt-get install clang"
        ),
    }
}
