use super::*;

#[test]
fn a_config_without_a_destination_names_it() {
    let error = plan(&[], &Environment::default()).unwrap_err();
    assert!(error.message().contains("`destination` is not set"), "{error}");
    assert_eq!(error.exit_code(), 2);
}
