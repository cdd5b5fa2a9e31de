//! The option names that deltalake, dlt and object_store know, so that a mistyped one is not ignored in silence.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::nearest::suggestion;
use super::{Problems, value};

/// Whose option it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cloud {
    /// Amazon S3 and what speaks its protocol.
    Aws,
    /// Azure.
    Azure,
    /// Google Cloud Storage.
    Google,
    /// Every client.
    Any,
}

/// An option with its other names.
pub(super) struct StorageOption {
    /// The name that the docs use.
    pub name: &'static str,
    /// Whose it is.
    pub cloud: Cloud,
    /// Whether its value must not be shown.
    pub is_secret: bool,
    /// Its other names, in lower case.
    others: &'static [&'static str],
    /// A few words for a form.
    pub title: &'static str,
}

const fn option(
    cloud: Cloud,
    is_secret: bool,
    name: &'static str,
    title: &'static str,
    others: &'static [&'static str],
) -> StorageOption {
    StorageOption { name, cloud, is_secret, others, title }
}

use Cloud::{Any, Aws, Azure, Google};

/// All options. Sources: `AmazonS3ConfigKey`, `AzureConfigKey`, `GoogleConfigKey` and `ClientConfigKey` of object_store 0.13
/// (<https://docs.rs/object_store/0.13>), and the further names that deltalake and dlt pass through.
pub(super) static OPTIONS: &[StorageOption] = &[
    option(Aws, false, "aws_access_key_id", "AWS access key id", &["access_key_id"]),
    option(Aws, true, "aws_secret_access_key", "AWS secret access key", &["secret_access_key"]),
    option(Aws, true, "aws_session_token", "AWS session token", &["session_token", "aws_token", "token"]),
    option(Aws, false, "aws_region", "AWS region", &["region", "region_name", "aws_default_region", "default_region"]),
    option(
        Aws,
        false,
        "aws_endpoint_url",
        "Endpoint of an S3 service",
        &["endpoint_url", "aws_endpoint", "endpoint", "aws_endpoint_url_s3"],
    ),
    option(Aws, false, "aws_profile", "Profile of the AWS config files", &["profile", "profile_name"]),
    option(
        Aws,
        false,
        "aws_role_arn",
        "Role to assume",
        &["role_arn", "aws_iam_role_arn", "aws_assume_role_arn", "aws_s3_assume_role_arn"],
    ),
    option(
        Aws,
        false,
        "aws_role_session_name",
        "Name of the role's session",
        &["role_session_name", "aws_iam_role_session_name", "aws_s3_role_session_name"],
    ),
    option(Aws, false, "aws_web_identity_token_file", "File of a web identity token", &["web_identity_token_file"]),
    option(
        Aws,
        false,
        "aws_endpoint_url_sts",
        "Endpoint of the token service",
        &["endpoint_url_sts", "aws_sts_regional_endpoints"],
    ),
    option(
        Aws,
        false,
        "aws_virtual_hosted_style_request",
        "Bucket in the host name",
        &["virtual_hosted_style_request", "aws_s3_addressing_style", "s3_url_style"],
    ),
    option(Aws, false, "aws_s3_express", "S3 Express", &["s3_express"]),
    option(Aws, false, "aws_imdsv1_fallback", "Fall back to version 1 of the metadata service", &["imdsv1_fallback"]),
    option(
        Aws,
        false,
        "aws_metadata_endpoint",
        "Endpoint of the metadata service",
        &["metadata_endpoint", "aws_ec2_metadata_disabled"],
    ),
    option(Aws, false, "aws_unsigned_payload", "Leave payloads unsigned", &["unsigned_payload"]),
    option(Aws, false, "aws_checksum_algorithm", "Checksum of uploads", &["checksum_algorithm"]),
    option(
        Aws,
        false,
        "aws_container_credentials_relative_uri",
        "Credentials of an ECS task",
        &["container_credentials_relative_uri"],
    ),
    option(Aws, false, "aws_container_credentials_full_uri", "Credentials of an EKS pod", &["container_credentials_full_uri"]),
    option(
        Aws,
        false,
        "aws_container_authorization_token_file",
        "Token file of an EKS pod",
        &["container_authorization_token_file"],
    ),
    option(Aws, false, "aws_skip_signature", "Send requests unsigned", &["skip_signature"]),
    option(Aws, false, "aws_disable_tagging", "Set no tags on objects", &["disable_tagging"]),
    option(Aws, false, "aws_request_payer", "Pay for requests", &["request_payer"]),
    option(Aws, false, "aws_server_side_encryption", "Server-side encryption", &["server_side_encryption"]),
    option(Aws, false, "aws_sse_kms_key_id", "KMS key", &["sse_kms_key_id"]),
    option(Aws, false, "aws_sse_bucket_key_enabled", "KMS bucket key", &["sse_bucket_key_enabled"]),
    option(Aws, true, "aws_sse_customer_key_base64", "Customer key of the encryption", &["sse_customer_key_base64"]),
    option(Aws, false, "aws_force_credential_load", "Load credentials at once", &["force_credential_load"]),
    option(Azure, false, "azure_storage_account_name", "Storage account", &["account_name", "azure_account_name"]),
    option(
        Azure,
        true,
        "azure_storage_account_key",
        "Account key",
        &["azure_storage_access_key", "azure_storage_master_key", "azure_account_key", "master_key", "account_key", "access_key"],
    ),
    option(
        Azure,
        true,
        "azure_storage_sas_token",
        "Shared access signature",
        &["azure_storage_sas_key", "azure_sas_token", "sas_key", "sas_token"],
    ),
    option(Azure, true, "azure_storage_connection_string", "Connection string", &["connection_string"]),
    option(Azure, true, "azure_storage_token", "Bearer token", &["bearer_token"]),
    option(Azure, false, "azure_client_id", "Client id", &["azure_storage_client_id", "client_id"]),
    option(Azure, true, "azure_client_secret", "Client secret", &["azure_storage_client_secret", "client_secret"]),
    option(
        Azure,
        false,
        "azure_tenant_id",
        "Tenant id",
        &["azure_storage_tenant_id", "azure_storage_authority_id", "azure_authority_id", "tenant_id", "authority_id"],
    ),
    option(
        Azure,
        false,
        "azure_authority_host",
        "Host of the token service",
        &["azure_storage_authority_host", "authority_host"],
    ),
    option(Azure, false, "azure_federated_token_file", "Federated token file", &["federated_token_file"]),
    option(
        Azure,
        false,
        "azure_msi_endpoint",
        "Endpoint of the managed identity",
        &["azure_identity_endpoint", "identity_endpoint", "msi_endpoint"],
    ),
    option(Azure, false, "azure_object_id", "Object id of the managed identity", &["object_id"]),
    option(Azure, false, "azure_msi_resource_id", "Resource id of the managed identity", &["msi_resource_id"]),
    option(Azure, false, "azure_storage_endpoint", "Endpoint", &["azure_endpoint"]),
    option(Azure, false, "azure_account_host", "Host of the storage account", &["account_host"]),
    option(Azure, false, "azure_storage_use_emulator", "Use Azurite", &["object_store_use_emulator", "use_emulator"]),
    option(Azure, false, "azure_use_azure_cli", "Use the login of the command line", &["use_azure_cli"]),
    option(Azure, false, "azure_use_fabric_endpoint", "Use Fabric", &["use_fabric_endpoint"]),
    option(Azure, false, "azure_skip_signature", "Send requests unsigned", &[]),
    option(Azure, false, "azure_container_name", "Container", &["container_name"]),
    option(Azure, false, "azure_disable_tagging", "Set no tags on blobs", &[]),
    option(Azure, false, "azure_fabric_token_service_url", "Token service of Fabric", &["fabric_token_service_url"]),
    option(Azure, false, "azure_fabric_workload_host", "Workload host of Fabric", &["fabric_workload_host"]),
    option(Azure, true, "azure_fabric_session_token", "Session token of Fabric", &["fabric_session_token"]),
    option(Azure, false, "azure_fabric_cluster_identifier", "Cluster of Fabric", &["fabric_cluster_identifier"]),
    option(
        Google,
        false,
        "google_service_account",
        "File of a service account",
        &["service_account", "google_service_account_path", "service_account_path"],
    ),
    option(Google, true, "google_service_account_key", "Key of a service account, as JSON", &["service_account_key"]),
    option(Google, false, "google_application_credentials", "File of application credentials", &["application_credentials"]),
    option(Google, false, "google_base_url", "Endpoint", &["base_url"]),
    option(Google, false, "google_skip_signature", "Send requests unsigned", &[]),
    option(
        Any,
        false,
        "bucket",
        "Bucket",
        &["bucket_name", "aws_bucket", "aws_bucket_name", "google_bucket", "google_bucket_name"],
    ),
    option(Any, false, "allow_http", "Allow http", &[]),
    option(Any, false, "allow_invalid_certificates", "Allow invalid certificates", &[]),
    option(Any, false, "timeout", "Time limit of a request", &[]),
    option(Any, false, "connect_timeout", "Time limit of a connection", &[]),
    option(
        Any,
        false,
        "pool_idle_timeout",
        "Time an idle connection is kept",
        &["aws_s3_pool_idle_timeout_seconds", "aws_sts_pool_idle_timeout_seconds"],
    ),
    option(Any, false, "pool_max_idle_per_host", "Idle connections per host", &[]),
    option(Any, false, "proxy_url", "Proxy", &[]),
    option(Any, false, "proxy_ca_certificate", "Certificate of the proxy", &[]),
    option(Any, false, "proxy_excludes", "Hosts without the proxy", &[]),
    option(Any, false, "user_agent", "User agent", &[]),
    option(Any, false, "default_content_type", "Content type", &[]),
    option(Any, false, "http1_only", "HTTP/1 only", &[]),
    option(Any, false, "http2_only", "HTTP/2 only", &[]),
    option(Any, false, "http2_keep_alive_interval", "HTTP/2 keep-alive interval", &[]),
    option(Any, false, "http2_keep_alive_timeout", "HTTP/2 keep-alive time limit", &[]),
    option(Any, false, "http2_keep_alive_while_idle", "HTTP/2 keep-alive while idle", &[]),
    option(Any, false, "http2_max_frame_size", "HTTP/2 frame size", &[]),
    option(Any, false, "randomize_addresses", "Spread requests over addresses", &[]),
    option(Any, false, "max_retries", "Most retries of a request", &["aws_s3_get_internal_server_error_retries"]),
    option(Any, false, "retry_timeout", "Time limit of all retries", &[]),
    option(Any, false, "backoff_config.init_backoff", "First pause between retries", &["init_backoff"]),
    option(Any, false, "backoff_config.max_backoff", "Longest pause between retries", &["max_backoff"]),
    option(Any, false, "backoff_config.base", "Growth of the pause", &["base"]),
    option(Any, false, "object_store_concurrency_limit", "Most requests at once", &["concurrency_limit"]),
];

/// Options by which other programs choose how they commit. Ours has one way, so they change nothing.
static COMMIT_OPTIONS: &[&str] = &[
    "allow_unsafe_rename",
    "s3_allow_unsafe_rename",
    "aws_s3_allow_unsafe_rename",
    "mount_allow_unsafe_rename",
    "aws_s3_locking_provider",
    "s3_locking_provider",
    "aws_conditional_put",
    "conditional_put",
    "aws_copy_if_not_exists",
    "copy_if_not_exists",
    "delta_dynamo_table_name",
    "delta_dynamo_region",
    "aws_endpoint_url_dynamodb",
    "aws_region_dynamodb",
    "aws_access_key_id_dynamodb",
    "aws_secret_access_key_dynamodb",
    "aws_session_token_dynamodb",
    "dynamo_lock_table_name",
    "dynamo_lock_owner_name",
    "dynamo_lock_partition_key_value",
    "dynamo_lock_lease_duration",
];

/// Returns every known name.
pub(super) fn names() -> impl Iterator<Item = String> {
    let named = OPTIONS.iter().flat_map(|option| std::iter::once(option.name).chain(option.others.iter().copied()));
    named.chain(COMMIT_OPTIONS.iter().copied()).map(str::to_owned)
}

/// Returns the options under lower-case names, checked.
pub(super) fn parse(given: &Map<String, Value>, problems: &mut Problems) -> BTreeMap<String, String> {
    let mut options = BTreeMap::new();
    let mut commit_options = Vec::new();
    for (name, value) in value::joined(given) {
        let name = name.trim().to_ascii_lowercase();
        if value.is_null() {
            continue;
        }
        if COMMIT_OPTIONS.contains(&name.as_str()) {
            commit_options.push(format!("`{name}`"));
            continue;
        }
        if find(&name).is_none() {
            let known: Vec<String> = names().collect();
            let near = suggestion(&name, known.iter().map(String::as_str));
            problems.add(format!("`{name}` is not a storage option{near}"));
            continue;
        }
        match value::text_or_boolean(&value) {
            Some(text) => {
                if options.insert(name.clone(), text).is_some() {
                    problems.add(format!("the storage option `{name}` is given twice"));
                }
            }
            // The value may be a secret.
            None => problems.add(format!("the storage option `{name}` is neither text, number nor bool")),
        }
    }
    if !commit_options.is_empty() {
        problems.notice(format!(
            "{} of `storage_options`: not needed, every commit here is a put-if-absent of the store",
            commit_options.join(", ")
        ));
    }
    options
}

/// Says which options the destination's scheme has no use for.
pub(super) fn notice_unused(options: &BTreeMap<String, String>, scheme: &str, problems: &mut Problems) {
    let used: &[Cloud] = match scheme {
        "s3" | "s3a" => &[Aws, Any],
        "az" | "azure" | "adl" | "abfs" | "abfss" | "wasb" | "wasbs" | "https" => &[Azure, Any],
        "gs" => &[Google, Any],
        _ => &[],
    };
    let is_unused = |name: &str| !clouds(name).iter().any(|cloud| used.contains(cloud));
    let unused: Vec<String> = options.keys().filter(|name| is_unused(name)).map(|name| format!("`{name}`")).collect();
    if !unused.is_empty() {
        problems.notice(format!("{} of `storage_options`: not used by a `{scheme}:` destination", unused.join(", ")));
    }
}

fn find(name: &str) -> Option<&'static StorageOption> {
    let has = |option: &&StorageOption, name: &str| option.name == name || option.others.contains(&name);
    OPTIONS.iter().find(|option| has(option, name)).or_else(|| {
        let plain = ["aws_", "azure_", "google_"].iter().find_map(|prefix| name.strip_prefix(prefix))?;
        OPTIONS.iter().find(|option| option.cloud == Any && has(option, plain))
    })
}

/// Returns the clouds that an option's name belongs to; `token` and the like mean one thing on each of them.
fn clouds(name: &str) -> Vec<Cloud> {
    match name {
        "token" | "endpoint" | "access_key" | "skip_signature" | "disable_tagging" => vec![Aws, Azure, Google],
        name => {
            let prefix = [("aws_", Aws), ("azure_", Azure), ("google_", Google)];
            let named = prefix.iter().find(|(prefix, _)| name.starts_with(prefix)).map(|(_, cloud)| *cloud);
            named.or_else(|| find(name).map(|option| option.cloud)).into_iter().collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_of_google_is_known_to_the_store() {
        for option in OPTIONS.iter().filter(|option| matches!(option.cloud, Google | Any)) {
            for name in std::iter::once(&option.name).chain(option.others).filter(|name| !name.starts_with("aws_")) {
                assert!(crate::store::is_google_option(name), "{name}");
            }
        }
        for name in ["token", "endpoint", "access_key", "skip_signature", "disable_tagging"] {
            assert!(clouds(name).contains(&Google) && crate::store::is_google_option(name), "{name}");
        }
        assert!(!crate::store::is_google_option("azure_client_id"));
    }

    #[test]
    fn every_option_of_s3_is_known_to_the_store() {
        for option in OPTIONS.iter().filter(|option| matches!(option.cloud, Aws | Any)) {
            for name in std::iter::once(&option.name).chain(option.others).filter(|name| !name.starts_with("google_")) {
                assert!(crate::store::is_s3_option(name), "{name}");
            }
        }
        assert!(!crate::store::is_s3_option("azure_client_id"));
    }

    #[test]
    fn every_option_of_azure_is_known_to_the_store() {
        for option in OPTIONS.iter().filter(|option| matches!(option.cloud, Azure | Any)) {
            let is_ours = |name: &&&str| !name.starts_with("google_") && !name.starts_with("aws_");
            for name in std::iter::once(&option.name).chain(option.others).filter(is_ours) {
                assert!(crate::store::is_azure_option(name), "{name}");
            }
        }
        for name in ["token", "endpoint", "access_key", "skip_signature", "disable_tagging"] {
            assert!(crate::store::is_azure_option(name) && clouds(name).contains(&Azure), "{name}");
        }
        for name in ["azure_allow_http", "azure_timeout"] {
            assert!(crate::store::is_azure_option(name) && find(name).is_some(), "{name}");
        }
        assert!(!crate::store::is_azure_option("aws_region"));
    }
}
