//! Signing a request of S3 again after one of its signed headers was taken off.
//!
//! Source: <https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html>.

use hmac::{Hmac, Mac};
use hyper::header::{AUTHORIZATION, HeaderName, HeaderValue};
use hyper::{HeaderMap, Method, Uri};
use sha2::{Digest, Sha256};

/// Takes `header` off; where it was signed, signs the others with `secret`. The query is taken to be in canonical form already.
/// `None`: the request is not signed in its headers, or the signature says what is not there.
pub fn without(header: &HeaderName, method: &Method, uri: &Uri, headers: &HeaderMap, secret: &str) -> Option<HeaderMap> {
    let mut headers = headers.clone();
    headers.remove(header);
    let signed = headers.get(AUTHORIZATION)?.to_str().ok()?.to_owned();
    let parts = signed.strip_prefix("AWS4-HMAC-SHA256")?;
    let part = |name: &str| {
        let prefix = format!("{name}=");
        parts.split(',').find_map(|part| part.trim().strip_prefix(prefix.as_str()))
    };
    let (credential, names) = (part("Credential")?, part("SignedHeaders")?);
    let names: Vec<&str> = names.split(';').filter(|name| *name != header.as_str()).collect();
    let (_, scope) = credential.split_once('/')?;
    let mut canonical = format!("{method}\n{}\n{}\n", uri.path(), uri.query().unwrap_or_default());
    for name in &names {
        let value = headers.get(*name)?.to_str().ok()?;
        canonical.push_str(&format!("{name}:{}\n", value.split_whitespace().collect::<Vec<_>>().join(" ")));
    }
    let payload = headers.get("x-amz-content-sha256")?.to_str().ok()?;
    canonical.push_str(&format!("\n{}\n{payload}", names.join(";")));
    let time = headers.get("x-amz-date")?.to_str().ok()?;
    let text = format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{}", hex(&Sha256::digest(canonical.as_bytes())));
    let mut key = format!("AWS4{secret}").into_bytes();
    for part in scope.split('/') {
        key = mac(&key, part)?;
    }
    let signature = hex(&mac(&key, &text)?);
    let value = format!("AWS4-HMAC-SHA256 Credential={credential},SignedHeaders={},Signature={signature}", names.join(";"));
    headers.insert(AUTHORIZATION, HeaderValue::from_str(&value).ok()?);
    Some(headers)
}

fn mac(key: &[u8], text: &str) -> Option<Vec<u8>> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).ok()?;
    mac.update(text.as_bytes());
    Some(mac.finalize().into_bytes().to_vec())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// The example of the page above: a GET of an object, with a header added to what is signed and taken off again.
    #[test]
    fn the_signature_is_that_of_the_documentation() {
        let uri: Uri = "/test.txt".parse().unwrap();
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("host", "examplebucket.s3.amazonaws.com"),
            ("range", "bytes=0-9"),
            ("x-amz-content-sha256", empty),
            ("x-amz-date", "20130524T000000Z"),
            ("if-none-match", "*"),
            (
                "authorization",
                "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, \
              SignedHeaders=host;if-none-match;range;x-amz-content-sha256;x-amz-date, Signature=00",
            ),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        let secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
        let signed = without(&hyper::header::IF_NONE_MATCH, &Method::GET, &uri, &headers, secret).unwrap();
        assert!(!signed.contains_key("if-none-match"));
        let value = signed.get(AUTHORIZATION).unwrap().to_str().unwrap();
        assert!(value.ends_with("Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"), "{value}");
    }
}
