//! `/proc/PID/mountinfo`: mounts of a process. proc_pid_mountinfo(5).

use super::{ParseError, namespace_inode};

/// One line of `/proc/PID/mountinfo`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// Mounted part of the file system, such as `/`, or `net:[4026532177]` of a namespace.
    pub root: String,
    /// Mount point, an absolute path.
    pub point: String,
    /// The type of the file system, such as `cgroup2`.
    pub kind: String,
    /// Options of the file system, such as the controllers of a `cgroup`.
    pub options: Vec<String>,
}

/// Parses `mountinfo`, in its order: later mounts lie over earlier ones.
pub fn mounts(text: &str) -> Result<Vec<Mount>, ParseError> {
    (1..).zip(text.lines()).map(|(number, line)| mount(number, line)).collect()
}

fn mount(number: usize, line: &str) -> Result<Mount, ParseError> {
    let short = || ParseError::at(number, "a field is missing");
    // ID PARENT MAJOR:MINOR ROOT POINT OPTIONS [OPTIONAL...] - TYPE SOURCE OPTIONS. White space in a
    // field is escaped, so the lone dash cannot be part of one.
    let (before, behind) = line.split_once(" - ").ok_or_else(|| ParseError::at(number, "no ` - `"))?;
    let mut before = before.split(' ').skip(3);
    let (root, point) = (before.next().ok_or_else(short)?, before.next().ok_or_else(short)?);
    let mut behind = behind.split(' ');
    let kind = behind.next().ok_or_else(short)?;
    // The source may be empty.
    let options = behind.nth(1).ok_or_else(short)?;
    let point = unescaped(point).ok_or_else(|| ParseError::at(number, format!("invalid path `{point}`")))?;
    Ok(Mount {
        root: root.to_owned(),
        point,
        kind: kind.to_owned(),
        options: options.split(',').map(str::to_owned).collect(),
    })
}

/// Inodes of the network namespaces that are mounted, with their mount points. Any user may have others mounted, in a
/// namespace of their own, on paths that are not UTF-8.
pub fn mounted_namespaces(text: &[u8]) -> Result<Vec<(u64, Vec<u8>)>, ParseError> {
    let mut found = Vec::new();
    for (number, line) in (1..).zip(text.split(|byte| *byte == b'\n')) {
        let mut fields = line.split(|byte| *byte == b' ');
        let (root, point) = (fields.nth(3), fields.next());
        let is_namespace = fields.skip_while(|field| *field != b"-").nth(1) == Some(b"nsfs");
        let inode =
            root.filter(|_| is_namespace).and_then(|root| namespace_inode(std::str::from_utf8(root).ok()?));
        if let (Some(inode), Some(point)) = (inode, point) {
            let path = unescaped_bytes(point).ok_or_else(|| ParseError::at(number, "invalid path"))?;
            found.push((inode, path));
        }
    }
    Ok(found)
}

fn unescaped(text: &str) -> Option<String> {
    String::from_utf8(unescaped_bytes(text.as_bytes())?).ok()
}

/// An absolute path, without the kernel's `\040` for a space and the like.
fn unescaped_bytes(text: &[u8]) -> Option<Vec<u8>> {
    let mut parts = text.split(|byte| *byte == b'\\');
    let mut path = parts.next()?.to_vec();
    for part in parts {
        let (digits, rest) = part.split_at_checked(3)?;
        let digits = std::str::from_utf8(digits)
            .ok()
            .filter(|digits| digits.bytes().all(|b| (b'0'..b'8').contains(&b)))?;
        path.push(u8::from_str_radix(digits, 8).ok()?);
        path.extend_from_slice(rest);
    }
    path.starts_with(b"/").then_some(path)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert_eq, proptest};

    use super::{mounted_namespaces, mounts};

    #[test]
    fn captured_text() {
        let text = "34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset\n\
            36 35 98:0 /mnt1 /mnt\\0402 rw shared:1 master:2 - ext4 /dev/root rw,errors=continue\n";
        let found = mounts(text).expect("valid");
        assert_eq!((found[0].point.as_str(), found[0].kind.as_str()), ("/sys/fs/cgroup/cpuset", "cgroup"));
        assert_eq!(found[0].options, ["rw", "cpuset"]);
        assert_eq!((found[1].point.as_str(), found[1].kind.as_str()), ("/mnt 2", "ext4"));
    }

    #[test]
    fn namespaces_are_found_by_any_path() {
        let line = |root: &str, point: &[u8], kind: &str| {
            [
                format!("37 36 0:4 {root} ").as_bytes(),
                point,
                format!(" rw shared:9 - {kind} nsfs rw\n").as_bytes(),
            ]
            .concat()
        };
        let text = [
            line("net:[7]", b"/run/my\\040ns", "nsfs"),
            line("mnt:[8]", b"/run/snap.mnt", "nsfs"),
            line("/net:[9]", b"/x", "ext4"),
            line("net:[10]", b"/\xff", "nsfs"),
        ];
        let found = mounted_namespaces(&text.concat()).expect("valid");
        assert_eq!(found, [(7, b"/run/my ns".to_vec()), (10, b"/\xff".to_vec())]);
        assert!(mounted_namespaces(&line("net:[7]", b"x", "nsfs")).is_err());
    }

    #[test]
    fn bad_lines_are_named() {
        for bad in [
            "1 2 0:1 / /x rw\n",
            "1 2 0:1 - a b c\n",
            "1 2 0:1 / /x\\9 rw - a b c\n",
            "1 2 0:1 / /x rw - a b\n",
        ] {
            assert_eq!(mounts(bad).expect_err(bad).line, 1);
        }
    }

    proptest! {
        #[test]
        fn round_trip(path in "/[a-z \\\\\t\u{e9}]{0,12}") {
            let escaped: String = path
                .chars()
                .map(|c| if " \\\t".contains(c) { format!("\\{:03o}", u32::from(c)) } else { c.to_string() })
                .collect();
            let found = mounts(&format!("1 2 0:1 / {escaped} rw - tmpfs  rw\n")).expect("valid");
            prop_assert_eq!(&found[0].point, &path);
        }
    }
}
