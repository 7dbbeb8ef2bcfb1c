//! Skips are earned: a privileged test that cannot run says which capability is missing, and
//! `RXLAB_REQUIRE` turns the skip into a failure.

/// Whether to go on. `capability` is what `RXLAB_REQUIRE` names; `missing` says why it is not there.
pub(crate) fn have(capability: &str, missing: Option<String>) -> bool {
    let Some(missing) = missing else { return true };
    let required = std::env::var("RXLAB_REQUIRE").unwrap_or_default();
    assert!(
        !required.split(',').any(|name| name == capability),
        "RXLAB_REQUIRE wants {capability}, and it is missing: {missing}"
    );
    println!("skipped, {capability} is missing: {missing}");
    false
}

/// Network namespaces, veth and `ip`.
pub(crate) fn netns() -> bool {
    let range = rxlab::lab::Range::build(&rxlab::lab::RangeSpec::default());
    have("netns", range.err().map(|error| error.to_string()))
}
