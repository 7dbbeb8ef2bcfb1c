//! `ETHTOOL_GDRVINFO`: driver, firmware and bus.

use super::{DriverInfo, field_text, only};
use crate::parse::WireError;

// `struct ethtool_drvinfo`: 32-byte fields after the command.
const DRIVER: usize = 4;
const VERSION: usize = 36;
const FIRMWARE: usize = 68;
const BUS: usize = 100;

/// Driver information of one interface.
pub fn driver(answer: &[u8]) -> Result<DriverInfo, WireError> {
    let info = only(answer)?;
    let text = |at| field_text::<32>(info, at);
    Ok(DriverInfo {
        driver: text(DRIVER)?,
        version: text(VERSION)?,
        firmware: text(FIRMWARE)?,
        bus: text(BUS)?,
    })
}

#[cfg(test)]
mod tests {
    use super::driver;
    use crate::parse::ethtool::DriverInfo;
    use crate::parse::one_message;

    #[test]
    fn a_driver_and_a_cut_one() {
        // virtio_net's answer: no firmware.
        let mut info = vec![0u8; 196];
        info[4..14].copy_from_slice(b"virtio_net");
        info[36..41].copy_from_slice(b"1.0.0");
        info[100..112].copy_from_slice(b"0000:00:03.0");
        let expected = DriverInfo {
            driver: "virtio_net".to_owned(),
            version: "1.0.0".to_owned(),
            firmware: String::new(),
            bus: "0000:00:03.0".to_owned(),
        };
        assert_eq!(driver(&one_message(&info)), Ok(expected));
        assert!(driver(&one_message(&info[..131])).is_err());
        info[68..72].copy_from_slice(b"1.\xff2");
        assert_eq!(driver(&one_message(&info)).expect("valid").firmware, "1.\u{fffd}2");
    }
}
