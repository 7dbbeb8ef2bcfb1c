//! What happened that ended no request.

use serde::{Deserialize, Serialize};

use rxlab_base::display_as;

/// Something that reached the client and answers no request: it is counted next to the errors, which are requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// A response on a connection without a request, such as the 408 before a server closes an idle one. The client
    /// closes it too.
    Unsolicited,
    /// A connection opened again after the server had closed it without a request outstanding.
    Reconnect,
    /// A datagram that answers nothing which was sent from its port.
    Stray,
}

display_as! { Event:
    Unsolicited => "unsolicited response",
    Reconnect => "reconnect after an idle close",
    Stray => "stray datagram",
}
