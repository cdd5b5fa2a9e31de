//! The names of the options, and those that cannot be honoured here.

use crate::store::remote::options::canonical_in;

/// Canonical names with their other names. Sources: `AmazonS3ConfigKey` of object_store
/// (<https://docs.rs/object_store/0.13>), and the names that deltalake and dlt pass through.
static NAMES: &[(&str, &[&str])] = &[
    ("aws_access_key_id", &["access_key_id"]),
    ("aws_secret_access_key", &["secret_access_key"]),
    ("aws_session_token", &["session_token", "aws_token", "token"]),
    ("aws_region", &["region", "region_name", "aws_default_region", "default_region"]),
    ("aws_endpoint_url", &["endpoint_url", "aws_endpoint", "endpoint", "aws_endpoint_url_s3"]),
    ("aws_profile", &["profile", "profile_name"]),
    ("aws_role_arn", &["role_arn", "aws_iam_role_arn", "aws_assume_role_arn", "aws_s3_assume_role_arn"]),
    ("aws_role_session_name", &["role_session_name", "aws_iam_role_session_name", "aws_s3_role_session_name"]),
    ("aws_web_identity_token_file", &["web_identity_token_file"]),
    ("aws_endpoint_url_sts", &["endpoint_url_sts"]),
    ("aws_sts_regional_endpoints", &[]),
    ("aws_virtual_hosted_style_request", &["virtual_hosted_style_request"]),
    ("addressing_style", &["aws_s3_addressing_style", "s3_url_style"]),
    ("aws_s3_express", &["s3_express"]),
    ("aws_imdsv1_fallback", &["imdsv1_fallback"]),
    ("aws_metadata_endpoint", &["metadata_endpoint"]),
    ("aws_ec2_metadata_disabled", &[]),
    ("aws_unsigned_payload", &["unsigned_payload"]),
    ("aws_checksum_algorithm", &["checksum_algorithm"]),
    ("aws_container_credentials_relative_uri", &["container_credentials_relative_uri"]),
    ("aws_container_credentials_full_uri", &["container_credentials_full_uri"]),
    ("aws_container_authorization_token_file", &["container_authorization_token_file"]),
    ("aws_skip_signature", &["skip_signature"]),
    ("aws_disable_tagging", &["disable_tagging"]),
    ("aws_request_payer", &["request_payer"]),
    ("aws_server_side_encryption", &["server_side_encryption"]),
    ("aws_sse_kms_key_id", &["sse_kms_key_id"]),
    ("aws_sse_bucket_key_enabled", &["sse_bucket_key_enabled"]),
    ("aws_sse_customer_key_base64", &["sse_customer_key_base64"]),
    ("aws_force_credential_load", &["force_credential_load"]),
    ("bucket", &["bucket_name", "aws_bucket", "aws_bucket_name"]),
    ("aws_sts_pool_idle_timeout_seconds", &[]),
];

/// Returns the one name of an option; `None` for those of other clouds.
pub(super) fn canonical(name: &str) -> Option<&'static str> {
    canonical_in(NAMES, "aws_", name)
}

/// Returns why an option, with this value, is not honoured.
pub(super) fn refusal(known: &str, value: &str) -> Option<&'static str> {
    let is_off = matches!(value.to_ascii_lowercase().as_str(), "false" | "0" | "no" | "off");
    match known {
        "aws_s3_express" | "aws_imdsv1_fallback" if is_off => None,
        "aws_s3_express" => Some("directory buckets are not supported"),
        "aws_imdsv1_fallback" => Some("only version 2 of the metadata service is asked"),
        "aws_sse_customer_key_base64" => Some("keys of the customer are not supported; KMS keys are (`aws_sse_kms_key_id`)"),
        "aws_metadata_endpoint" => Some("set the environment variable AWS_EC2_METADATA_SERVICE_ENDPOINT"),
        "aws_ec2_metadata_disabled" => Some("set the environment variable AWS_EC2_METADATA_DISABLED"),
        "aws_container_credentials_relative_uri" => Some("set the environment variable AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"),
        "aws_container_credentials_full_uri" => Some("set the environment variable AWS_CONTAINER_CREDENTIALS_FULL_URI"),
        "aws_container_authorization_token_file" => Some("set the environment variable AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"),
        "aws_sts_regional_endpoints" => Some("the token service of the region is always asked; leave the option out"),
        "aws_sts_pool_idle_timeout_seconds" => Some("connections to the token service have no setting of their own"),
        _ => None,
    }
}
