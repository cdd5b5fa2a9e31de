//! The command line and the config: what is wrong is said at once, all of it, with exit code 2.

use serde_json::{Value, json};

use crate::command::{Workplace, assert_ran};
use crate::readback::files_below;

#[test]
fn version_is_one_line_on_stdout() {
    let place = Workplace::new();
    let ran = place.call(["--version"]).run();
    ran.expect(0);
    assert_eq!(ran.stdout, format!("delta-load {}\n", env!("CARGO_PKG_VERSION")));
    assert_eq!(ran.stderr, "");
}

#[test]
fn help_names_every_flag() {
    let place = Workplace::new();
    assert_ran!(place.call(["--help"]).run(), place);
}

#[test]
fn about_is_what_a_hub_parses() {
    let place = Workplace::new();
    for arguments in [&["--about", "--format", "json"][..], &["--about", "--format=json"][..]] {
        let ran = place.call(arguments.iter().copied()).run();
        let about: Value = serde_json::from_str(&ran.expect(0).stdout).unwrap();
        for key in ["name", "description", "version", "sdk_version", "supported_python_versions", "capabilities", "settings"] {
            assert!(about.get(key).is_some(), "{key}");
        }
        assert_eq!(about["settings"]["type"], "object");
        assert_eq!(about["settings"]["properties"]["destination"]["type"][0], "string");
        assert!(about["settings"]["required"].as_array().unwrap().contains(&json!("destination")));
        assert!(about["capabilities"].as_array().unwrap().contains(&json!("about")));
    }
}

#[test]
fn about_needs_no_config_and_reads_no_input() {
    let place = Workplace::new();
    place.call(["--about", "--config", "nowhere.json"]).run().expect(0);
    let ran = place.call(["--about", "--format", "markdown"]).run();
    assert!(ran.expect(0).stdout.contains("`destination`"), "{}", ran.stdout);
}

#[test]
fn an_unknown_flag_is_a_wrong_use() {
    let place = Workplace::new();
    let ran = place.call(["--confg", "x.json"]).run();
    ran.expect(2).says("--confg").says("--config");
    assert_eq!(ran.stdout, "");
}

#[test]
fn no_destination_is_said() {
    let place = Workplace::new();
    place.call([""; 0]).run().expect(2).says("`destination`");
    place.write("config.json", "{}");
    let ran = place.call(["--config", "config.json"]).run();
    ran.expect(2);
    assert_ran!(ran, place);
}

#[test]
fn a_config_that_cannot_be_read_is_said() {
    let place = Workplace::new();
    place.call(["--config", "absent.json"]).run().expect(2).says("absent.json");
    place.write("config.json", "{\"destination\": ");
    place.call(["--config", "config.json"]).run().expect(2).says("config.json");
    place.write("config.json", "[1]");
    place.call(["--config", "config.json"]).run().expect(2).says("config.json");
}

#[test]
fn all_errors_of_a_config_are_said_at_once() {
    let place = Workplace::new();
    let ran = place.load(
        json!({
            "destination": "ftp://bucket/lake",
            "load_methd": "append-only",
            "batch_size_rows": "many",
            "on_bad_value": "explode",
            "storage_options": { "aws_acess_key_id": "x" },
        }),
        "",
    );
    ran.expect(2).says("`ftp://`").says("load_method").says("batch_size_rows").says("on_bad_value").says("aws_access_key_id");
    assert_eq!(ran.stdout, "");
    assert_ran!(ran, place);
}

#[test]
fn destinations_that_cannot_be_are_refused_before_anything_is_read() {
    let place = Workplace::new();
    place.write("file", "x");
    for (destination, said) in [
        ("gs:///x", "names no bucket"),
        ("abfss:///x", "names no container"),
        ("flie:///lake", "did you mean `file://`"),
        ("file://lake", "three slashes"),
        ("./file", "is not a directory"),
        ("./file/lake", "is not a directory"),
    ] {
        let ran = place.load(json!({ "destination": destination }), "{\"type\": \"nonsense\"}\n");
        ran.expect(2).says(said);
        assert_eq!(ran.stdout, "", "{destination}");
    }
}

#[test]
fn settings_of_work_that_is_not_there_yet_are_refused_by_name() {
    let place = Workplace::new();
    for (setting, value) in [("load_method", json!("upsert")), ("load_method", json!("history")), ("format", json!("csv"))] {
        let ran = place.load(json!({ setting: value }), "");
        ran.expect(2).says(setting);
        assert!(files_below(&place.path("lake")).is_empty());
    }
}

#[test]
fn the_environment_counts_only_when_asked_for() {
    let place = Workplace::new();
    place.write("config.json", json!({ "destination": "./lake" }).to_string());
    let with =
        |arguments: &[&str]| place.call(arguments.iter().copied()).env("TARGET_DELTA_DESTINATION", "file://wrong/place").run();
    with(&["--config", "config.json"]).expect(0);
    with(&["--config", "config.json", "--config", "ENV"]).expect(2).says("three slashes");
    with(&["--config", "ENV"]).expect(2).says("three slashes");
}

#[test]
fn an_input_file_that_is_not_there_is_said() {
    let place = Workplace::new();
    place.write("config.json", json!({ "destination": "./lake" }).to_string());
    place.call(["--config", "config.json", "--input", "absent.jsonl"]).run().expect(2).says("absent.jsonl");
}
