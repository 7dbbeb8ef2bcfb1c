//! What the driver of an interface says of itself: answers of ethtool, one command a file.
//!
//! Documentation/networking/ethtool-netlink.rst; numbers are those of
//! include/uapi/linux/ethtool_netlink.h and, for ioctls, include/uapi/linux/ethtool.h. A value that
//! a driver does not report is `None`, never 0.

mod values;

pub use values::{
    Channels, Coalesce, Count, DriverInfo, Feature, FlowAction, FlowRule, FlowSpec, Rings, Rss,
};
