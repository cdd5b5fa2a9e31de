//! The bucket policy that turns commits without a condition into errors.
//!
//! Delta for Spark up to 4.4 looks whether a version exists and then puts it, so that two writers which meet lose a commit. A policy of
//! the bucket can deny the one thing that does the harm: an object of the log that is created without `If-None-Match`.
//! Source: <https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes-enforce.html>

use serde_json::{Value, json};
use url::Url;

use crate::{Error, Result};

/// The name of a commit: twenty digits, of which no table needs more than the last ten.
const COMMIT: &str = "_delta_log/0000000000??????????.json";

/// What stops writers that do not commit by put-if-absent.
#[derive(Debug, Clone, PartialEq)]
pub enum Policy {
    /// A policy of the bucket.
    Bucket(Value),
    /// None is needed, or there is none; the text says why.
    None(String),
}

/// Returns the policy for all tables at and below `destination`; `region` tells the part of AWS that its names belong to.
///
/// **Errors:** `Config` when the path is not UTF-8.
pub fn policy(destination: &Url, region: Option<&str>) -> Result<Policy> {
    let none = |text: &str| Ok(Policy::None(text.to_owned()));
    match destination.scheme() {
        "s3" | "s3a" => Ok(Policy::Bucket(bucket_policy(destination, region)?)),
        "file" => none(
            "local disk has no bucket policies; delta-load creates a version there by a hard link, which fails when the version exists",
        ),
        "memory" => none("memory needs no policy: nobody but this process writes there"),
        "gs" => none(
            "Google Cloud Storage needs no policy: by its documentation the log store of Delta for Spark is safe for writers on several clusters \
             there, and delta-load creates a version under a condition (`ifGenerationMatch=0`)",
        ),
        _ => none(
            "Azure storage needs no policy: by its documentation the log store of Delta for Spark is safe for writers on several clusters \
             there, and delta-load creates a version under a condition (`If-None-Match: *`)",
        ),
    }
}

fn bucket_policy(destination: &Url, region: Option<&str>) -> Result<Value> {
    let path = percent_encoding::percent_decode_str(destination.path())
        .decode_utf8()
        .map_err(|error| Error::config(format!("the path of `{destination}` is not UTF-8")).source(error))?;
    let prefix = match path.trim_matches('/') {
        "" => String::new(),
        prefix => format!("{}/", literal(prefix)),
    };
    let partition = match region {
        Some(region) if region.starts_with("cn-") => "aws-cn",
        Some(region) if region.starts_with("us-gov-") => "aws-us-gov",
        _ => "aws",
    };
    let bucket = format!("arn:{partition}:s3:::{}", destination.host_str().unwrap_or_default());
    Ok(json!({
        "Version": "2012-10-17",
        "Statement": [{
            "Sid": "DenyDeltaCommitsWithoutCondition",
            "Effect": "Deny",
            "Principal": "*",
            "Action": "s3:PutObject",
            // The root itself may be a table, and so may every folder below it.
            "Resource": [format!("{bucket}/{prefix}{COMMIT}"), format!("{bucket}/{prefix}*/{COMMIT}")],
            "Condition": {
                // No If-None-Match came with the request. The key is there for PutObject and for CompleteMultipartUpload.
                "Null": {"s3:if-none-match": "true"},
                // The request creates an object: beginning an upload in parts and sending a part do not, and cannot carry the condition.
                "Bool": {"s3:ObjectCreationOperation": "true"},
            },
        }],
    }))
}

/// Returns `text` so that a policy takes it word for word.
/// Source: <https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_variables.html>
fn literal(text: &str) -> String {
    text.chars().fold(String::new(), |mut literal, character| {
        match character {
            '*' | '?' | '$' => literal.push_str(&format!("${{{character}}}")),
            _ => literal.push(character),
        }
        literal
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resources(destination: &str, region: Option<&str>) -> Vec<String> {
        let Policy::Bucket(policy) = policy(&Url::parse(destination).unwrap(), region).unwrap() else { panic!("is a policy") };
        policy["Statement"][0]["Resource"].as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
    }

    /// Matches as IAM does: `*` any text, `?` any character, both across slashes; `${*}` and the like are the character.
    fn matches(pattern: &[char], text: &[char]) -> bool {
        match pattern {
            [] => text.is_empty(),
            ['$', '{', literal, '}', rest @ ..] => text.first() == Some(literal) && matches(rest, &text[1..]),
            ['*', rest @ ..] => (0..=text.len()).any(|skipped| matches(rest, &text[skipped..])),
            ['?', rest @ ..] => !text.is_empty() && matches(rest, &text[1..]),
            [character, rest @ ..] => text.first() == Some(character) && matches(rest, &text[1..]),
        }
    }

    fn denies(destination: &str, key: &str) -> bool {
        let key: Vec<char> = format!("arn:aws:s3:::lake/{key}").chars().collect();
        resources(destination, None).iter().any(|pattern| matches(&pattern.chars().collect::<Vec<_>>(), &key))
    }

    #[test]
    fn commits_are_denied_and_nothing_else_of_the_log() {
        for destination in ["s3://lake/", "s3://lake/raw/", "s3a://lake/raw/orders/"] {
            for key in ["00000000000000000000.json", "00000000000000000123.json", "00000000009999999999.json"] {
                assert!(denies(destination, &format!("raw/orders/_delta_log/{key}")), "{destination} {key}");
            }
            for key in [
                "_delta_log/00000000000000000010.checkpoint.parquet",
                "_delta_log/00000000000000000010.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json",
                "_delta_log/00000000000000000010.crc",
                "_delta_log/_last_checkpoint",
                "_delta_log/_staged_commits/00000000000000000010.80a083e8-7026-4e79-81be-64bd76c43a11.json",
                "_delta_log/00000000000000000001.00000000000000000005.compacted.json",
                "part-0.parquet",
                "_change_data/00000000000000000010.json",
            ] {
                assert!(!denies(destination, &format!("raw/orders/{key}")), "{destination} {key}");
            }
        }
        assert!(!denies("s3://lake/raw/", "rawer/orders/_delta_log/00000000000000000000.json"));
        assert!(denies("s3://lake/raw/", "raw/_delta_log/00000000000000000000.json"));
    }

    #[test]
    fn what_is_special_in_a_policy_is_taken_word_for_word() {
        assert!(denies("s3://lake/a%20b*/%C3%A9$%3F/", "a b*/é$?/t/_delta_log/00000000000000000000.json"));
        assert!(!denies("s3://lake/a*/", "abc/t/_delta_log/00000000000000000000.json"));
    }

    #[test]
    fn names_belong_to_the_part_of_aws_that_the_region_is_in() {
        assert!(resources("s3://lake/", Some("cn-north-1"))[0].starts_with("arn:aws-cn:s3:::lake/_delta_log/"));
        assert!(resources("s3://lake/", Some("us-gov-west-1"))[1].starts_with("arn:aws-us-gov:s3:::lake/*/_delta_log/"));
        assert!(resources("s3://lake/", Some("eu-west-1"))[0].starts_with("arn:aws:s3:::"));
    }

    #[test]
    fn other_stores_say_why_there_is_none() {
        for (destination, word) in [
            ("file:///lake/", "hard link"),
            ("memory:///", "memory"),
            ("gs://lake/", "Google"),
            ("abfss://c@a.dfs.core.windows.net/", "Azure"),
        ] {
            let Policy::None(text) = policy(&Url::parse(destination).unwrap(), None).unwrap() else { panic!("{destination}") };
            assert!(text.contains(word), "{text}");
        }
    }
}
