//! The `rxlab` program. All code is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    rxlab::commands::main()
}
