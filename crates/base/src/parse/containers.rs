//! Owner of a process, from the path of its control group: systemd unit, container, pod.

use serde::{Deserialize, Serialize};

/// A container, by its control group.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Container {
    /// Its engine: `docker`, `podman`, `kubepods` (if the path does not show the runtime),
    /// `containerd`, `crio`, `lxc`, `systemd-nspawn`.
    pub engine: String,
    /// Its ID there, as in the control group's path.
    pub id: String,
    /// UID of its pod, if the path names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
}

/// Pattern of a path component that names a container.
struct Shape {
    engine: &'static str,
    /// Beginning of some component before it; empty = anything.
    below: &'static str,
    /// Text before and after the ID.
    around: (&'static str, &'static str),
    id: Id,
}

#[derive(Clone, Copy)]
enum Id {
    /// A hash of 64 hexadecimal digits.
    Hash,
    /// A name of any form.
    Name,
}

const fn shape(
    engine: &'static str,
    below: &'static str,
    around: (&'static str, &'static str),
    id: Id,
) -> Shape {
    Shape { engine, below, around, id }
}

/// The first match counts.
const SHAPES: [Shape; 14] = [
    shape("docker", "", ("docker-", ".scope"), Id::Hash),
    shape("podman", "", ("libpod-", ".scope"), Id::Hash),
    shape("podman", "", ("libpod-", ""), Id::Hash),
    shape("containerd", "", ("cri-containerd-", ".scope"), Id::Hash),
    shape("crio", "", ("crio-", ".scope"), Id::Hash),
    shape("crio", "", ("crio-", ""), Id::Hash),
    // Names made for systemd and used without it: `...slice:cri-containerd:ID`.
    shape("containerd", "", (":cri-containerd:", ""), Id::Hash),
    shape("crio", "", (":crio:", ""), Id::Hash),
    shape("kubepods", "kubepods", ("", ""), Id::Hash),
    shape("docker", "docker", ("", ""), Id::Hash),
    shape("systemd-nspawn", "machine.slice", ("systemd-nspawn@", ".service"), Id::Name),
    shape("systemd-nspawn", "machine.slice", ("machine-", ".scope"), Id::Name),
    shape("lxc", "", ("lxc.payload.", ""), Id::Name),
    shape("lxc", "lxc", ("", ""), Id::Name),
];

/// Machines that libvirt registers, in addition to those of systemd-nspawn.
const OTHER_MACHINES: [&str; 2] = ["qemu-", "lxc-"];

/// The innermost container of a process in this control group.
pub fn container(path: &str) -> Option<Container> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    (0..parts.len()).rev().find_map(|at| SHAPES.iter().find_map(|shape| shape.fit(&parts[..at], parts[at])))
}

/// The UID in the name of a pod's group: `pod1d5f...`, `kubepods-burstable-pod1d5f....slice`, and the same
/// before the colon of `...slice:cri-containerd:ID`. systemd's names have underscores for dashes.
fn pod(part: &str) -> Option<String> {
    let part = part.split(':').next()?;
    let part = part.strip_suffix(".slice").unwrap_or(part);
    let uid = part.strip_prefix("pod").or_else(|| {
        let (before, uid) = part.rsplit_once("-pod")?;
        before.starts_with("kubepods").then_some(uid)
    })?;
    let uid = uid.replace('_', "-");
    let groups: Vec<usize> = uid.split('-').map(str::len).collect();
    // The UID of a pod from a file on the node is the checksum of that file.
    let valid = groups == [8, 4, 4, 4, 12] || groups == [32];
    (valid && uid.bytes().all(|b| b == b'-' || b.is_ascii_hexdigit())).then_some(uid)
}

impl Shape {
    fn fit(&self, before: &[&str], part: &str) -> Option<Container> {
        let near = match self.id {
            // There may be other groups between the engine's own and this one.
            Id::Hash => self.below.is_empty() || before.iter().any(|part| part.starts_with(self.below)),
            Id::Name => self.below.is_empty() || before.last() == Some(&self.below),
        };
        let (first, last) = self.around;
        let start = if first.starts_with(':') { part.find(first)? } else { 0 };
        let id = part[start..].strip_prefix(first)?.strip_suffix(last)?;
        let id = match self.id {
            Id::Hash => id.to_owned(),
            Id::Name => unescaped(id),
        };
        let valid = match self.id {
            Id::Hash => id.len() == 64 && id.bytes().all(|b| b.is_ascii_hexdigit()),
            Id::Name => !id.is_empty() && !OTHER_MACHINES.iter().any(|other| id.starts_with(other)),
        };
        (near && valid).then(|| Container {
            engine: self.engine.to_owned(),
            id,
            pod: before.iter().rev().chain([&part]).find_map(|part| pod(part)),
        })
    }
}

/// systemd writes a dash in a name as `\x2d`, because a plain dash separates slices.
fn unescaped(name: &str) -> String {
    name.replace("\\x2d", "-")
}

/// The systemd unit of a process in this control group: the last component that is a service or a scope.
pub fn unit(path: &str) -> Option<&str> {
    path.rsplit('/').find(|part| part.ends_with(".service") || part.ends_with(".scope"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert_eq, proptest};

    use super::{SHAPES, container, unit};

    const HASH: &str = "4f9b0d1cbe6f3b1f0d4dba3c8d2f37e8c9a1b2c3d4e5f60718293a4b5c6d7e8f";
    const INNER: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    /// Path (`#` is a hash, `%` another one), engine, ID.
    const PATHS: [(&str, &str, &str); 19] = [
        ("/docker/#", "docker", "#"),
        ("/system.slice/docker-#.scope", "docker", "#"),
        ("/machine.slice/libpod-#.scope/container", "podman", "#"),
        ("/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-#.scope", "podman", "#"),
        ("/libpod_parent/libpod-#", "podman", "#"),
        (
            "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1.slice/cri-containerd-#.scope",
            "containerd",
            "#",
        ),
        ("/kubepods.slice/kubepods-pod1.slice/crio-#.scope", "crio", "#"),
        ("/kubepods.slice/kubepods-pod1.slice/docker-#.scope", "docker", "#"),
        ("/kubepods/burstable/pod0f6d/#", "kubepods", "#"),
        ("/kubepods/besteffort/pod0f6d/crio-#", "crio", "#"),
        (
            "/system.slice/containerd.service/kubepods-besteffort-pod1.slice:cri-containerd:#",
            "containerd",
            "#",
        ),
        ("/kubepods-pod1.slice:crio:#", "crio", "#"),
        ("/machine.slice/systemd-nspawn@web\\x2d1.service/payload", "systemd-nspawn", "web-1"),
        ("/machine.slice/machine-web.scope", "systemd-nspawn", "web"),
        ("/lxc.payload.web", "lxc", "web"),
        ("/lxc/web/init.scope", "lxc", "web"),
        ("/lxc.payload.web/system.slice/docker-#.scope", "docker", "#"),
        ("/docker/#/docker/%", "docker", "%"),
        ("/docker/#/kubelet/kubepods/burstable/pod1/%", "kubepods", "%"),
    ];

    fn filled(text: &str) -> String {
        text.replace('#', HASH).replace('%', INNER)
    }

    #[test]
    fn published_paths() {
        for (path, engine, id) in PATHS {
            let found = container(&filled(path)).unwrap_or_else(|| panic!("{path}: none"));
            assert_eq!((found.engine.as_str(), found.id), (engine, filled(id)), "{path}");
        }
    }

    #[test]
    fn the_pod_of_a_container() {
        const UID: &str = "1d5f0c9a-55b1-4a7c-9d39-0a6f6a1c7e11";
        let pod = |path: &str| container(&filled(path)).expect("a container").pod;
        let named = UID.replace('-', "_");
        for path in [
            format!("/kubepods/burstable/pod{UID}/#"),
            format!(
                "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{named}.slice/crio-#.scope"
            ),
            format!("/kubepods.slice/kubepods-pod{named}.slice/cri-containerd-#.scope"),
            format!("/system.slice/containerd.service/kubepods-besteffort-pod{named}.slice:cri-containerd:#"),
        ] {
            assert_eq!(pod(&path).as_deref(), Some(UID), "{path}");
        }
        let file = "d41d8cd98f00b204e9800998ecf8427e";
        assert_eq!(pod(&format!("/kubepods/pod{file}/#")).as_deref(), Some(file));
        assert_eq!(pod("/kubepods/burstable/pod0f6d/#"), None, "no UID");
        assert_eq!(pod("/machine.slice/libpod-#.scope/container"), None);
    }

    /// Dropping a row of the table must be noticed.
    #[test]
    fn every_shape_is_the_first_to_fit_some_path() {
        for (number, shape) in SHAPES.iter().enumerate() {
            let first = |path: &str| {
                let path = filled(path);
                let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
                (0..parts.len())
                    .rev()
                    .find_map(|at| SHAPES.iter().position(|s| s.fit(&parts[..at], parts[at]).is_some()))
            };
            let used = PATHS.iter().any(|(path, _, _)| first(path) == Some(number));
            assert!(used, "no path for {} {:?}", shape.engine, shape.around);
        }
    }

    #[test]
    fn what_only_looks_like_a_container() {
        for path in [
            "/",
            "/system.slice/docker.service",
            "/system.slice/crio.service",
            "/machine.slice/libpod-conmon-#.scope",
            "/kubepods.slice/kubepods-pod1.slice/crio-conmon-#.scope",
            "/kubepods/burstable/pod0f6d",
            "/machine.slice/machine-qemu\\x2d1\\x2dvm.scope",
            "/lxc.monitor.web",
            "/docker/short",
            "/user.slice/#",
            "/some/machine-web.scope",
        ] {
            assert_eq!(container(&filled(path)), None, "{path}");
        }
    }

    #[test]
    fn the_innermost_unit() {
        assert_eq!(unit("/system.slice/nginx.service"), Some("nginx.service"));
        let user = "/user.slice/user-1000.slice/user@1000.service/app.slice/web.service";
        assert_eq!(unit(user), Some("web.service"));
        assert_eq!(unit("/user.slice/user-0.slice/session-3.scope"), Some("session-3.scope"));
        assert_eq!(unit("/system.slice/nginx.service/worker"), Some("nginx.service"));
        assert_eq!(unit("/docker/x"), None);
    }

    proptest! {
        #[test]
        fn hashes_come_back_as_they_are(hash in "[0-9a-f]{64}", around in 0..4_usize) {
            let (first, last) = [("docker-", ".scope"), ("libpod-", ""), ("crio-", ".scope"), ("a:crio:", "")][around];
            let path = format!("/system.slice/{first}{hash}{last}/below");
            prop_assert_eq!(container(&path).map(|container| container.id), Some(hash));
        }
    }
}
