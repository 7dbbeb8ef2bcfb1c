//! Sends datagrams in trains, or one by one if the kernel does not accept trains.

use std::net::UdpSocket;

use rustix::io::Errno;
use rustix::net::{SendFlags, send};

use crate::tally::Tally;
use rxlab_sys::datagrams::{refuses_trains, send_train};

/// Sender of one thread.
#[derive(Debug, Default)]
pub(super) struct Trains {
    /// The kernel refused trains: a device on the path does not support them, or the datagrams exceed its
    /// MTU.
    refused: Option<Errno>,
}

impl Trains {
    /// Sends the datagrams of `size` bytes in `bytes` on a connected socket. Returns how many were sent, from
    /// the first on, and the error of the others.
    pub(super) fn send(
        &mut self,
        socket: &UdpSocket,
        bytes: &[u8],
        size: usize,
        tally: &mut Tally,
    ) -> (usize, Option<Errno>) {
        if bytes.len() > size && self.refused.is_none() {
            match send_train(socket, bytes, size, None) {
                Ok(()) => {
                    tally.datagrams.sends += 1;
                    return (bytes.len().div_ceil(size), None);
                }
                Err(errno) if refuses_trains(errno) => self.refused = Some(errno),
                Err(errno) => return (0, Some(errno)),
            }
        }
        if let Some(errno) = self.refused {
            tally.datagrams.refuse(errno);
        }
        let mut sent = 0;
        for datagram in bytes.chunks(size) {
            match send(socket, datagram, SendFlags::NOSIGNAL) {
                Ok(_) => sent += 1,
                Err(errno) => return (sent, Some(errno)),
            }
            tally.datagrams.sends += 1;
        }
        (sent, None)
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use rustix::io::Errno;

    use super::Trains;
    use crate::tally::Tally;

    #[test]
    fn what_can_be_no_train_goes_one_by_one() {
        let receiver = UdpSocket::bind("127.0.0.1:0").expect("bound");
        let sender = UdpSocket::bind("127.0.0.1:0").expect("bound");
        sender.connect(receiver.local_addr().expect("bound")).expect("connected");
        let bytes: Vec<u8> = (0..250).collect();
        let receive = || -> Vec<Vec<u8>> {
            let mut buffer = [0; 512];
            let mut one = || {
                let length = receiver.recv(&mut buffer).expect("received");
                buffer[..length].to_vec()
            };
            (0..3).map(|_| one()).collect()
        };
        let (mut trains, mut tally) = (Trains::default(), Tally::new());
        assert_eq!(trains.send(&sender, &bytes, 100, &mut tally), (3, None));
        assert_eq!((tally.datagrams.sends, &tally.datagrams.no_trains), (1, &None));
        let expected: Vec<Vec<u8>> = bytes.chunks(100).map(<[u8]>::to_vec).collect();
        assert_eq!(receive(), expected);

        let mut trains = Trains { refused: Some(Errno::IO) };
        assert_eq!(trains.send(&sender, &bytes, 100, &mut tally), (3, None));
        assert_eq!(tally.datagrams.sends, 4);
        assert!(tally.datagrams.no_trains.is_some());
        assert_eq!(receive(), expected);
    }
}
