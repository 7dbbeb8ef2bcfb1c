//! Limit of open files of this process.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit so that `needed` files may be open: the soft one up to the hard one, and the hard
/// one as well if allowed (CAP_SYS_RESOURCE, up to `fs.nr_open`). The error is the limit that
/// cannot be exceeded. Should be called before the files are opened; the limit is never lowered again.
pub fn allow_files(needed: u64) -> Result<(), u64> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    let maximum = limit.maximum.map(|maximum| maximum.max(needed));
    let raised = Rlimit { current: Some(needed), maximum };
    setrlimit(Resource::Nofile, raised).map_err(|_| limit.maximum.or(limit.current).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use rustix::process::{Resource, getrlimit};

    use super::allow_files;

    #[test]
    fn the_limit_is_raised_as_far_as_it_goes() {
        let now = getrlimit(Resource::Nofile).current.unwrap_or(1024);
        assert_eq!(allow_files(now), Ok(()));
        // No kernel allows that many.
        let most = allow_files(1 << 40).expect_err("beyond fs.nr_open");
        assert!(most >= now && getrlimit(Resource::Nofile).current.is_none_or(|current| current >= now));
    }
}
