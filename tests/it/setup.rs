//! `scripts/setup.sh` with a stand-in for apt-get, in a separate mount namespace: nothing is installed.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use crate::require;

/// Prints the policy's decision on starting a service, queried as package scripts do, and fails.
const APT_GET: &str = r#"#!/bin/sh
[ "$1" = install ] || exit 0
code=0
/usr/sbin/policy-rc.d irqbalance start || code=$?
echo "policy $code" >&2
exit 9
"#;

/// Runs the setup with this text as the machine's policy; returns its output, exit code and the files left in
/// /usr/sbin.
fn set_up(policy: Option<&str>) -> String {
    let programs = tempfile::tempdir().expect("a temporary directory");
    let program = |name: &str| programs.path().join(name);
    for name in ["id", "rm", "chmod"] {
        symlink(Path::new("/usr/bin").join(name), program(name)).expect("linked");
    }
    for (name, text) in [("apt-get", APT_GET), ("cargo", "#!/bin/sh\n")] {
        std::fs::write(program(name), text).expect("written");
        std::fs::set_permissions(program(name), PermissionsExt::from_mode(0o755)).expect("executable");
    }
    // A directory that hides the machine's own: no compiler is found either.
    let script = r#"
        mount -t tmpfs tmpfs /usr/sbin
        [ -z "$POLICY" ] || { printf '#!/bin/sh\n%s\n' "$POLICY" >/usr/sbin/policy-rc.d; chmod 755 /usr/sbin/policy-rc.d; }
        PATH=$PROGRAMS "$SETUP" run 2>&1
        echo "code $?"
        ls -A /usr/sbin
    "#;
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script]).env("PROGRAMS", programs.path());
    command.env("SETUP", Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/setup.sh"));
    let out = command.env("POLICY", policy.unwrap_or_default()).output().expect("started");
    String::from_utf8(out.stdout).expect("text").lines().skip(1).collect::<Vec<_>>().join(", ")
}

#[test]
fn no_package_starts_its_service() {
    require::needs!(root);
    assert_eq!(set_up(None), "policy 101, code 9", "nothing is left behind, also after a failure");
    assert_eq!(set_up(Some("exit 104")), "policy 104, code 9, policy-rc.d", "an existing policy is kept");
}
