//! The names of the options, and those that cannot be honoured here.

use crate::store::remote::options::{Names, canonical_in};

/// Canonical names with their other names. Sources: `AzureConfigKey` of object_store (<https://docs.rs/object_store/0.13>), and the
/// further names that deltalake, dlt and adlfs pass through.
pub(super) static NAMES: Names = &[
    ("azure_storage_account_name", &["account_name", "azure_account_name"]),
    (
        "azure_storage_account_key",
        &["azure_storage_access_key", "azure_storage_master_key", "azure_account_key", "master_key", "account_key", "access_key"],
    ),
    ("azure_storage_sas_token", &["azure_storage_sas_key", "azure_sas_token", "sas_key", "sas_token"]),
    ("azure_storage_connection_string", &["connection_string"]),
    ("azure_storage_token", &["bearer_token", "token"]),
    ("azure_client_id", &["azure_storage_client_id", "client_id"]),
    ("azure_client_secret", &["azure_storage_client_secret", "client_secret"]),
    (
        "azure_tenant_id",
        &["azure_storage_tenant_id", "azure_storage_authority_id", "azure_authority_id", "tenant_id", "authority_id"],
    ),
    ("azure_authority_host", &["azure_storage_authority_host", "authority_host"]),
    ("azure_federated_token_file", &["federated_token_file"]),
    ("azure_msi_endpoint", &["azure_identity_endpoint", "identity_endpoint", "msi_endpoint"]),
    ("azure_object_id", &["object_id"]),
    ("azure_msi_resource_id", &["msi_resource_id"]),
    ("azure_storage_endpoint", &["azure_endpoint", "endpoint"]),
    ("azure_account_host", &["account_host"]),
    ("azure_storage_use_emulator", &["object_store_use_emulator", "use_emulator"]),
    ("azure_use_azure_cli", &["use_azure_cli"]),
    ("azure_use_fabric_endpoint", &["use_fabric_endpoint"]),
    ("azure_skip_signature", &["skip_signature"]),
    ("azure_container_name", &["container_name"]),
    ("azure_disable_tagging", &["disable_tagging"]),
    ("azure_fabric_token_service_url", &["fabric_token_service_url"]),
    ("azure_fabric_workload_host", &["fabric_workload_host"]),
    ("azure_fabric_session_token", &["fabric_session_token"]),
    ("azure_fabric_cluster_identifier", &["fabric_cluster_identifier"]),
    ("bucket", &["bucket_name"]),
];

/// Variables that other programs read, besides the names above in capitals. Sources: the Azure CLI
/// (<https://learn.microsoft.com/en-us/cli/azure/azure-cli-configuration>) and Azurite's clients in object_store.
const VARIABLES: [(&str, &[&str]); 4] = [
    ("azure_storage_account_name", &["AZURE_STORAGE_ACCOUNT"]),
    ("azure_storage_account_key", &["AZURE_STORAGE_KEY"]),
    ("azure_storage_endpoint", &["AZURE_STORAGE_SERVICE_ENDPOINT"]),
    ("azure_authority_host", &["AZURE_AUTHORITY_HOST"]),
];

/// Returns the one name of an option; `None` for those of other clouds.
pub(super) fn canonical(name: &str) -> Option<&'static str> {
    canonical_in(NAMES, "azure_", name)
}

/// Returns the variables of the environment that set an option.
pub(super) fn variables(known: &str) -> Vec<String> {
    let others = NAMES.iter().find(|(name, _)| *name == known).map_or(&[][..], |(_, others)| *others);
    let named = std::iter::once(known).chain(others.iter().copied()).filter(|name| name.starts_with("azure_"));
    let more = VARIABLES.iter().filter(|(name, _)| *name == known).flat_map(|(_, more)| more.iter().copied());
    named.map(str::to_ascii_uppercase).chain(more.map(str::to_owned)).collect()
}

/// Returns why an option, with this value, is not honoured.
pub(super) fn refusal(known: &str, _value: &str) -> Option<&'static str> {
    match known {
        "azure_fabric_token_service_url"
        | "azure_fabric_workload_host"
        | "azure_fabric_session_token"
        | "azure_fabric_cluster_identifier" => Some(
            "the token service of Fabric notebooks is not supported; use an identity of Entra, or a token (`azure_storage_token`)",
        ),
        _ => None,
    }
}
