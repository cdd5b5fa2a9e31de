use super::*;
use crate::store::azure::location::normalise;

const KEY: &str = "c2VjcmV0";
const SAS: &str = "?sv=2022-11-02&ss=b&srt=co&sp=rwdlc&se=2999-01-01T00%3A00%3A00Z&sig=a%2Bb%2Fc%3D";

fn parse_with(url: &str, options: &[(&str, &str)], variables: &[(&str, &str)]) -> Result<Settings> {
    let options: BTreeMap<String, String> =
        options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let find = |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
    parse(&normalise(url).unwrap(), &options, &find, &Redactor::default())
}

const URL: &str = "abfss://lake@acct.dfs.core.windows.net/a b/50%25";

fn settings(options: &[(&str, &str)]) -> Settings {
    parse_with(URL, options, &[]).unwrap()
}

fn problem(options: &[(&str, &str)]) -> String {
    let error = parse_with(URL, options, &[]).unwrap_err();
    assert_eq!(error.kind(), crate::ErrorKind::Config);
    error.to_string()
}

fn keys(options: &[(&str, &str)], variables: &[(&str, &str)]) -> String {
    format!("{:?}", parse_with(URL, options, variables).unwrap().keys)
}

#[test]
fn a_url_is_account_container_and_prefix() {
    let found = settings(&[]);
    assert_eq!((found.account.as_str(), found.container.as_str(), found.prefix.as_str()), ("acct", "lake", "a b/50%"));
    assert_eq!(found.endpoint.as_str(), "https://acct.blob.core.windows.net/");
    assert!(matches!(found.keys, Keys::Identity(Identity::Found { principal: None })));
    let named = parse_with("az://lake/x", &[("account_name", "other")], &[]).unwrap();
    assert_eq!(named.endpoint.as_str(), "https://other.blob.core.windows.net/");
    let unnamed = parse_with("az://lake/x", &[], &[]).unwrap_err();
    assert!(unnamed.to_string().contains("set `azure_storage_account_name`"), "{unnamed}");
}

#[test]
fn names_of_other_programs_mean_the_same() {
    for name in ["azure_storage_account_key", "azure_storage_access_key", "account_key", "access_key", "master_key"] {
        assert!(matches!(settings(&[(name, KEY)]).keys, Keys::Account(key) if key == b"secret"), "{name}");
    }
    for name in ["azure_storage_sas_token", "azure_storage_sas_key", "sas_token"] {
        let Keys::Sas(pairs) = settings(&[(name, SAS)]).keys else { panic!("{name}") };
        assert!(pairs.contains(&("sig".to_owned(), "a+b/c=".to_owned())) && pairs[0].0 == "sv", "{pairs:?}");
    }
    for name in ["token", "bearer_token", "azure_storage_token"] {
        assert!(matches!(settings(&[(name, "t")]).keys, Keys::Token(token) if token == "t"), "{name}");
    }
    let secret = [("client_id", "c"), ("azure_storage_client_secret", "s"), ("azure_storage_authority_id", "t")];
    assert!(matches!(settings(&secret).keys, Keys::Identity(Identity::Secret { .. })));
    let workload = [("client_id", "c"), ("federated_token_file", "/f"), ("tenant_id", "t")];
    assert!(matches!(settings(&workload).keys, Keys::Identity(Identity::Workload { file, .. }) if file == "/f"));
    let machine = settings(&[("azure_client_id", "c")]).keys;
    assert!(
        matches!(machine, Keys::Identity(Identity::Managed { principal: Some(Principal::Client(id)), endpoint: None }) if id == "c")
    );
    assert!(matches!(settings(&[("use_azure_cli", "true")]).keys, Keys::Identity(Identity::Cli { .. })));
    assert!(matches!(settings(&[("skip_signature", "true")]).keys, Keys::Unsigned));
}

#[test]
fn a_connection_string_names_account_key_and_endpoint() {
    let text = format!("DefaultEndpointsProtocol=https;AccountName=acct;AccountKey={KEY};EndpointSuffix=core.chinacloudapi.cn");
    let found = parse_with("az://lake", &[("connection_string", &text)], &[]).unwrap();
    assert_eq!((found.account.as_str(), found.endpoint.as_str()), ("acct", "https://acct.blob.core.chinacloudapi.cn/"));
    assert!(matches!(found.keys, Keys::Account(_)));
    let text = format!("BlobEndpoint=https://x.example.com/acct;SharedAccessSignature={}", &SAS[1..]);
    let found = parse_with("az://lake", &[("connection_string", &text), ("account_name", "acct")], &[]).unwrap();
    assert_eq!(found.endpoint.as_str(), "https://x.example.com/acct");
    assert!(matches!(found.keys, Keys::Sas(_)));
    let of_variable = [("AZURE_STORAGE_CONNECTION_STRING", "UseDevelopmentStorage=true")];
    let found = parse_with("az://lake", &[], &of_variable).unwrap();
    assert_eq!(
        (found.account.as_str(), found.endpoint.as_str()),
        ("devstoreaccount1", "http://127.0.0.1:10000/devstoreaccount1")
    );
    assert!(
        problem(&[("connection_string", "hunter2")]).contains("not a list of")
            && !problem(&[("connection_string", "hunter2")]).contains("hunter2")
    );
    assert!(problem(&[("connection_string", "AccountName=acct")]).contains("neither `AccountKey`"));
}

#[test]
fn the_emulator_has_its_account_key_and_address() {
    let found =
        parse_with("az://lake", &[("azure_storage_use_emulator", "true")], &[("AZURE_STORAGE_ACCOUNT_KEY", KEY)]).unwrap();
    assert_eq!(
        (found.account.as_str(), found.endpoint.as_str()),
        ("devstoreaccount1", "http://127.0.0.1:10000/devstoreaccount1")
    );
    assert!(matches!(found.keys, Keys::Account(key) if key.len() == 64));
    let elsewhere =
        parse_with("az://lake", &[("use_emulator", "1")], &[("AZURITE_BLOB_STORAGE_URL", "http://127.0.0.1:1")]).unwrap();
    assert_eq!(elsewhere.endpoint.as_str(), "http://127.0.0.1:1/devstoreaccount1");
    let beside =
        parse_with("abfss://lake@acct.dfs.core.windows.net/", &[("use_emulator", "1"), ("account_key", KEY)], &[]).unwrap();
    assert_eq!(beside.endpoint.as_str(), "http://127.0.0.1:10000/acct");
    assert!(matches!(beside.keys, Keys::Account(key) if key == b"secret"));
}

#[test]
fn endpoints_are_encrypted_or_on_this_machine() {
    assert!(problem(&[("endpoint", "http://x.example.com")]).contains("set the storage option `azure_allow_http`"));
    assert_eq!(
        settings(&[("endpoint", "http://x.example.com/"), ("azure_allow_http", "true"), ("account_key", KEY)]).endpoint.as_str(),
        "http://x.example.com/"
    );
    assert_eq!(settings(&[("endpoint", "http://localhost:1/acct")]).endpoint.as_str(), "http://localhost:1/acct");
    assert!(
        problem(&[("endpoint", "http://x.example.com"), ("allow_http", "true"), ("token", "t")])
            .contains("tokens are sent to encrypted")
    );
    assert!(problem(&[("endpoint", "x")]).contains("is not a URL"));
    assert!(!problem(&[("endpoint", "https://u:hunter2@x")]).contains("hunter2"));
    assert!(problem(&[("authority_host", "http://login.example.com")]).contains("secrets are sent to it"));
    assert_eq!(
        settings(&[("authority_host", "login.microsoftonline.us")]).authority.unwrap().as_str(),
        "https://login.microsoftonline.us/"
    );
    let custom = parse_with("https://x.example.com/acct/lake/a", &[("account_name", "acct")], &[]).unwrap();
    assert_eq!(
        (custom.endpoint.as_str(), custom.container.as_str(), custom.prefix.as_str()),
        ("https://x.example.com/acct", "lake", "a")
    );
    let fabric =
        parse_with("az://ws/x.Lakehouse/Tables", &[("account_name", "onelake"), ("use_fabric_endpoint", "true")], &[]).unwrap();
    assert_eq!(fabric.endpoint.as_str(), "https://onelake.blob.fabric.microsoft.com/");
}

#[test]
fn the_environment_comes_after_the_options() {
    let key = ("AZURE_STORAGE_ACCOUNT_KEY", KEY);
    assert_eq!(keys(&[], &[key]), "Account");
    assert_eq!(keys(&[], &[("AZURE_STORAGE_KEY", KEY)]), "Account");
    assert_eq!(keys(&[("sas_token", SAS)], &[key]), "Sas");
    assert_eq!(keys(&[], &[("AZURE_STORAGE_SAS_TOKEN", SAS)]), "Sas");
    let application = [("AZURE_CLIENT_ID", "c"), ("AZURE_TENANT_ID", "t"), ("AZURE_CLIENT_SECRET", "s")];
    assert_eq!(keys(&[], &application), "Secret");
    assert_eq!(keys(&[("account_key", KEY)], &application), "Account");
    let workload = [("AZURE_CLIENT_ID", "c"), ("AZURE_TENANT_ID", "t"), ("AZURE_FEDERATED_TOKEN_FILE", "/f")];
    assert_eq!(keys(&[], &workload), "Workload");
    // An identity in the options is not passed over for a key in the environment, which may complete it.
    assert_eq!(keys(&[("azure_client_id", "c")], &[key]), "Managed");
    assert_eq!(keys(&[("azure_client_id", "c"), ("azure_tenant_id", "t")], &[key, ("AZURE_CLIENT_SECRET", "s")]), "Secret");
    assert_eq!(keys(&[], &[("IDENTITY_ENDPOINT", "http://127.0.0.1:1/token")]), "Managed");
    assert_eq!(keys(&[], &[("AZURE_CLIENT_ID", "c")]), "Found");
}

#[test]
fn wrong_options_are_named_all_at_once_and_without_secrets() {
    let text =
        problem(&[("timeout", "soon"), ("http1_only", "maybe"), ("account_key", "hunter2!"), ("use_azure_cli", "perhaps")]);
    for words in
        ["`timeout` is `soon`", "`http1_only` is `maybe`", "the account key is not base64", "`azure_use_azure_cli` is neither"]
    {
        assert!(text.contains(words), "{text}");
    }
    assert!(!text.contains("hunter2"));
    assert!(problem(&[("sas_token", "hunter2")]).contains("copy it whole"));
    assert!(problem(&[("account_name", "other")]).contains("the destination's account is `acct`"));
    assert!(problem(&[("container_name", "other")]).contains("the destination's container is `lake`"));
    assert!(problem(&[("account_key", KEY), ("sas_token", SAS)]).contains("exclude each other"));
    assert!(problem(&[("client_id", "c"), ("client_secret", "s")]).contains("`azure_tenant_id` is not"));
    assert!(problem(&[("azure_tenant_id", "t")]).contains("needs `azure_client_id`"));
    assert!(problem(&[("azure_fabric_session_token", "hunter2")]).contains("`azure_fabric_session_token`"));
}
