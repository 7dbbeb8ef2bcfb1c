//! Container names, without asking a runtime.

use rxlab_base::parse::Container;

/// `docker 3f2c9a7be01d`, `crio 3f2c9a7be01d of pod 1d5f0c9a`: hexadecimal IDs are cut to the 12 digits that the
/// engines show, pod UIDs to their first 8.
pub(super) fn container(container: &Container) -> String {
    let hex = container.id.bytes().all(|byte| byte.is_ascii_hexdigit());
    let id = if hex { container.id.get(..12).unwrap_or(&container.id) } else { &container.id };
    let pod = container.pod.as_ref().map(|uid| format!(" of pod {}", uid.get(..8).unwrap_or(uid)));
    format!("{} {id}{}", container.engine, pod.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::container;
    use rxlab_base::parse::Container;

    #[test]
    fn long_identities_are_cut() {
        let named = |id: &str, pod: Option<&str>| {
            container(&Container { engine: "lxc".into(), id: id.into(), pod: pod.map(str::to_owned) })
        };
        assert_eq!(
            (named("web", None).as_str(), named(&"ab".repeat(32), None).as_str()),
            ("lxc web", "lxc abababababab")
        );
        assert_eq!(named("web", Some("1d5f0c9a-55b1-4a7c-9d39-0a6f6a1c7e11")), "lxc web of pod 1d5f0c9a");
    }
}
