//! Servers on loopback that stand in for others: sources of credentials, a proxy, a server with TLS.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// One request as a stand-in sees it; names of headers in lower case.
#[derive(Debug, Clone)]
pub struct Request {
    pub method: String,
    pub target: String,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Request {
    /// Returns the value of a header, empty when there is none.
    pub fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(other, _)| other == name).map_or("", |(_, value)| value)
    }
}

/// An HTTP server that answers by a rule and keeps what it was asked.
pub struct StandIn {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<Request>>>,
}

impl StandIn {
    pub fn start(answer: impl Fn(&Request) -> (u16, String) + Send + Sync + 'static) -> Self {
        let seen = Arc::<Mutex<Vec<Request>>>::default();
        let (noted, answer) = (Arc::clone(&seen), Arc::new(answer));
        let address = listen(move |mut stream| {
            let Some(request) = read_request(&mut stream) else { return };
            noted.lock().unwrap().push(request.clone());
            let (status, body) = answer(&request);
            let length = body.len();
            let head = format!(
                "HTTP/1.1 {status} x\r\ncontent-length: {length}\r\nx-aws-ec2-metadata-token-ttl-seconds: 21600\r\nconnection: close\r\n\r\n"
            );
            // A client that has gone away is its own business.
            drop(stream.write_all((head + &body).as_bytes()));
        });
        Self { address, seen }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn seen(&self) -> Vec<Request> {
        self.seen.lock().unwrap().clone()
    }
}

/// Serves each connection on a thread of its own, for the life of the process.
fn listen(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let serve = Arc::new(serve);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let serve = Arc::clone(&serve);
            std::thread::spawn(move || serve(stream));
        }
    });
    address
}

fn read_request(stream: &mut TcpStream) -> Option<Request> {
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    let head_end = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end;
        }
        match stream.read(&mut piece) {
            Ok(0) | Err(_) => return None,
            Ok(length) => bytes.extend_from_slice(&piece[..length]),
        }
    };
    let head = String::from_utf8_lossy(&bytes[..head_end]).into_owned();
    let mut lines = head.lines();
    let mut first = lines.next()?.split(' ');
    let (method, target) = (first.next()?.to_owned(), first.next()?.to_owned());
    let header = |line: &str| line.split_once(':').map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()));
    let headers: Vec<(String, String)> = lines.filter_map(header).collect();
    let length = headers.iter().find(|(name, _)| name == "content-length").map_or(0, |(_, value)| value.parse().unwrap());
    let mut body = bytes.split_off(head_end + 4);
    while body.len() < length {
        match stream.read(&mut piece) {
            Ok(0) | Err(_) => return None,
            Ok(count) => body.extend_from_slice(&piece[..count]),
        }
    }
    Some(Request { method, target, headers, body: String::from_utf8_lossy(&body).into_owned() })
}

/// A proxy that leads every connection to one server; keeps the head of the first request of each.
pub struct Proxy {
    pub address: SocketAddr,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Proxy {
    pub fn start(server: SocketAddr) -> Self {
        let seen = Arc::<Mutex<Vec<String>>>::default();
        let noted = Arc::clone(&seen);
        let address = listen(move |mut client| {
            let mut first = vec![0; 64 << 10];
            let Ok(length) = client.read(&mut first) else { return };
            let head = String::from_utf8_lossy(&first[..length]).split("\r\n\r\n").next().unwrap_or_default().to_owned();
            noted.lock().unwrap().push(head);
            let Ok(mut upstream) = TcpStream::connect(server) else { return };
            if upstream.write_all(&first[..length]).is_err() {
                return;
            }
            let (mut from_client, mut to_upstream) = (client.try_clone().unwrap(), upstream.try_clone().unwrap());
            let there = std::thread::spawn(move || {
                drop(std::io::copy(&mut from_client, &mut to_upstream));
                drop(to_upstream.shutdown(Shutdown::Write));
            });
            drop(std::io::copy(&mut upstream, &mut client));
            drop(client.shutdown(Shutdown::Both));
            there.join().unwrap();
        });
        Self { address, seen }
    }

    pub fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }
}

/// The authority that signed the certificate of [`with_tls`].
pub const AUTHORITY: &str = include_str!("tls/authority.pem");

/// Speaks TLS in front of `server`, for 127.0.0.1 and localhost.
pub fn with_tls(server: SocketAddr) -> SocketAddr {
    let certificates = CertificateDer::pem_slice_iter(include_bytes!("tls/server.pem")).map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_slice(include_bytes!("tls/server.key")).unwrap();
    let config = rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(certificates, key)
        .unwrap();
    let config = Arc::new(config);
    listen(move |client| {
        let Ok(mut upstream) = TcpStream::connect(server) else { return };
        for stream in [&client, &upstream] {
            stream.set_read_timeout(Some(Duration::from_millis(3))).unwrap();
        }
        let mut client = rustls::StreamOwned::new(rustls::ServerConnection::new(Arc::clone(&config)).unwrap(), client);
        // Requests and answers take turns, so that one thread can carry both.
        while pass(&mut client, &mut upstream) && pass(&mut upstream, &mut client) {}
        client.conn.send_close_notify();
        drop(client.flush());
    })
}

/// Carries over what has come; false when nothing more will.
fn pass(from: &mut impl Read, to: &mut impl Write) -> bool {
    let mut piece = [0; 64 << 10];
    loop {
        match from.read(&mut piece) {
            Ok(0) => return false,
            Ok(length) if to.write_all(&piece[..length]).and_then(|()| to.flush()).is_ok() => {}
            Ok(_) => return false,
            Err(error) => return matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        }
    }
}
