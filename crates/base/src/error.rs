//! Kinds of failure, each with an exit code.

use std::io;

/// Reason for an exit code other than 0. The codes are part of the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// 1: the doctor has findings, a trial proved that its change hurts, a guard tripped, or a load missed a limit. Not a
    /// malfunction.
    Findings,
    /// 2: the command line, a file or a value given by the user is wrong.
    Usage,
    /// 3: a permission or a kernel feature is missing.
    Denied,
    /// 4: the machine is not, or no longer, what the command assumes (drift, NIC gone, another host).
    Changed,
    /// 5: the work could not be done: target down, disk full, a process could not be started.
    Failed,
    /// 130: interrupted, after restoring everything.
    Interrupted,
}

impl Kind {
    pub fn exit_code(self) -> u8 {
        match self {
            Kind::Findings => 1,
            Kind::Usage => 2,
            Kind::Denied => 3,
            Kind::Changed => 4,
            Kind::Failed => 5,
            Kind::Interrupted => 130,
        }
    }

    /// Kind of a failed operation on a file whose path is not the user's, such as one below the state directory: a
    /// missing one is no wrong argument.
    pub fn of_own_file(error: &io::Error) -> Self {
        match Kind::from(error) {
            Kind::Usage => Kind::Failed,
            kind => kind,
        }
    }
}

/// Kind of a failed operation on a file that the user named.
impl From<&io::Error> for Kind {
    fn from(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Kind::Denied,
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::IsADirectory => {
                Kind::Usage
            }
            _ => Kind::Failed,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use super::Kind;

    #[test]
    fn a_cause_has_one_exit_code() {
        let code = |kind: ErrorKind| Kind::from(&kind.into()).exit_code();
        assert_eq!((code(ErrorKind::PermissionDenied), code(ErrorKind::ReadOnlyFilesystem)), (3, 3));
        assert_eq!((code(ErrorKind::NotFound), code(ErrorKind::StorageFull)), (2, 5));
        let own = |kind: ErrorKind| Kind::of_own_file(&kind.into()).exit_code();
        assert_eq!((own(ErrorKind::ReadOnlyFilesystem), own(ErrorKind::NotFound)), (3, 5));
    }
}
