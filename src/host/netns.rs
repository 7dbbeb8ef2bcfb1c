//! Network namespaces: how one is named, and how a thread moves into it.

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::OpenError;

/// Moves the calling thread, and no other, into the network namespace of `path`: a file such as
/// `/run/netns/NAME` or `/proc/PID/ns/net`. Sockets keep the namespace in which they were made, so
/// call this first, on a thread of its own. Needs CAP_SYS_ADMIN.
pub fn enter_netns(path: &Path) -> Result<(), OpenError> {
    let enter = || {
        let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
    };
    enter().map_err(|errno| OpenError::Namespace { path: path.to_owned(), errno })
}

/// The namespace file that people mean by a name of `ip netns`, a process id, or a path (anything
/// with a `/` in it).
pub fn netns_path(name: &str) -> PathBuf {
    if name.contains('/') {
        PathBuf::from(name)
    } else if !name.is_empty() && name.bytes().all(|b| b.is_ascii_digit()) {
        Path::new("/proc").join(name).join("ns/net")
    } else {
        Path::new("/run/netns").join(name)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{enter_netns, netns_path};

    #[test]
    fn the_three_ways_to_name_a_namespace() {
        assert_eq!(netns_path("blue"), Path::new("/run/netns/blue"));
        assert_eq!(netns_path("1234"), Path::new("/proc/1234/ns/net"));
        assert_eq!(netns_path("/proc/self/ns/net"), Path::new("/proc/self/ns/net"));
        assert_eq!(netns_path("12a"), Path::new("/run/netns/12a"));
    }

    #[test]
    fn a_missing_namespace_is_named() {
        let error = enter_netns(Path::new("/run/netns/no-such")).expect_err("not there");
        assert!(error.to_string().starts_with("cannot enter the network namespace /run/netns/no-such: "));
    }
}
