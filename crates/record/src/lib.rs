//! A machine in a file.
//!
//! [`snapshot`] is what one sample reads, at two moments, redacted; [`recorder`] keeps a sample of every second in a ring
//! of files. Both replay as a `Host`, so that everything that reads a machine also reads a file.
//!
//! Never: writes to a machine, or keeps what redaction does not know.
//!
//! ```
//! use rxlab_record::snapshot::Snapshot;
//! use rxlab_sys::RecordedHost;
//!
//! let host = RecordedHost::new().with("proc/stat", "cpu0 1 2 3 4 5 6 7 8 9 0\n");
//! let snapshot = Snapshot::take(&host, || {}, |_| {});
//! let mut file = Vec::new();
//! snapshot.write(&mut file).expect("memory can be written");
//! assert!(Snapshot::read(&file[..]).is_ok());
//! ```

#[cfg(feature = "testing")]
pub mod field;
pub mod recorder;
pub mod snapshot;
