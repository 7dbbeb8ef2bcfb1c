//! Whose process it is, by the path of its control group: systemd's unit, and the container.

use serde::{Deserialize, Serialize};

/// A container, by its control group.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Container {
    /// Who made it: `docker`, `podman`, `kubepods` (where the runtime does not tell itself),
    /// `containerd`, `crio`, `lxc`, `systemd-nspawn`.
    pub engine: String,
    /// Its identity there, as in the control group's path.
    pub id: String,
}

/// What a part of a path looks like that stands for a container.
struct Shape {
    engine: &'static str,
    /// What some part before it begins with; empty = anything.
    below: &'static str,
    /// What stands before and after the identity.
    around: (&'static str, &'static str),
    id: Id,
}

/// What an identity looks like.
#[derive(Clone, Copy)]
enum Id {
    /// 64 hexadecimal digits.
    Hash,
    /// Any name.
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

/// The first that fits counts.
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

/// Machines that libvirt registers beside those of systemd-nspawn.
const OTHER_MACHINES: [&str; 2] = ["qemu-", "lxc-"];

/// The container of a process in this control group: the innermost one.
pub(super) fn container(path: &str) -> Option<Container> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    (0..parts.len()).rev().find_map(|at| SHAPES.iter().find_map(|shape| shape.fit(&parts[..at], parts[at])))
}

impl Shape {
    fn fit(&self, before: &[&str], part: &str) -> Option<Container> {
        let near = match self.id {
            // Below the engine's own group there may be others on the way to it.
            Id::Hash => self.below.is_empty() || before.iter().any(|part| part.starts_with(self.below)),
            Id::Name => self.below.is_empty() || before.last() == Some(&self.below),
        };
        let (first, last) = self.around;
        let (start, first) = if first.starts_with(':') {
            (part.find(first)?, first)
        } else {
            (if part.starts_with(first) { Some(0) } else { None }?, first)
        };
        let id = part.get(start + first.len()..)?.strip_suffix(last)?;
        let id = match self.id {
            Id::Hash => id.to_owned(),
            Id::Name => unescaped(id),
        };
        let valid = match self.id {
            Id::Hash => id.len() == 64 && id.bytes().all(|b| b.is_ascii_hexdigit()),
            Id::Name => !id.is_empty() && !OTHER_MACHINES.iter().any(|other| id.starts_with(other)),
        };
        (near && valid).then(|| Container { engine: self.engine.to_owned(), id })
    }
}

/// systemd writes a dash in a name as `\x2d`, as a dash of its own separates slices.
fn unescaped(name: &str) -> String {
    name.replace("\\x2d", "-")
}

/// The systemd unit of a process in this control group: the last part that is a service or a scope.
pub(super) fn unit(path: &str) -> Option<&str> {
    path.rsplit('/').find(|part| part.ends_with(".service") || part.ends_with(".scope"))
}

#[cfg(test)]
mod tests {
    use super::{SHAPES, container, unit};

    const HASH: &str = "4f9b0d1cbe6f3b1f0d4dba3c8d2f37e8c9a1b2c3d4e5f60718293a4b5c6d7e8f";
    const INNER: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    /// Path (`#` is a hash, `%` another one), engine, identity.
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

    /// Dropping a row of the table must be noticed.
    #[test]
    fn every_shape_is_the_first_to_fit_some_path() {
        for (number, shape) in SHAPES.iter().enumerate() {
            let first = |path: &str| {
                let path = filled(path);
                let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
                let fits = |at: usize| SHAPES.iter().position(|s| s.fit(&parts[..at], parts[at]).is_some());
                (0..parts.len()).rev().find_map(fits)
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
}
