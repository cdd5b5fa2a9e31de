//! `check`: what a user sees of a store that is good and of one that is not.

use serde_json::{Value, json};

use crate::command::{Workplace, assert_ran};
use crate::readback::files_below;

#[test]
fn a_good_folder_is_told_step_by_step() {
    let place = Workplace::new();
    let ran = place.call(["check", "./lake"]).run();
    ran.expect(0);
    assert_eq!(ran.stderr, "");
    assert!(!ran.stdout.contains('\u{1b}'), "no colours into a pipe");
    assert_ran!(ran, place);
    assert!(files_below(&place.path("lake")).is_empty());
    assert_eq!(std::fs::read_dir(place.path("lake")).unwrap().count(), 0, "no folder of its own is left");
}

#[test]
fn a_file_system_without_hard_links_fails_the_check() {
    let place = Workplace::new();
    let broken = |arguments: &[&str]| {
        place.call(arguments.iter().copied()).env("DELTA_LOAD_FAIL_POINT", "store:no_hard_links=error").run()
    };
    let ran = broken(&["check", "lake"]);
    ran.expect(1);
    assert_ran!(ran, place);
    place.write("config.json", json!({ "destination": "./lake", "single_writer": true }).to_string());
    let ran = broken(&["check", "--config", "config.json"]);
    assert!(ran.expect(0).stdout.contains("1 warning"), "{}", ran.stdout);
}

#[test]
fn the_config_names_the_place_and_a_url_wins() {
    let place = Workplace::new();
    place.write("config.json", json!({ "destination": "./lake", "streams": { "a": { "partition_by": ["day"] } } }).to_string());
    let ran = place.call(["check", "--config", "config.json", "--format", "json"]).run();
    let told: Value = serde_json::from_str(&ran.expect(0).stdout).unwrap();
    assert_eq!((told["outcome"].as_str(), told["steps"].as_array().unwrap().len()), (Some("ok"), 12));
    assert!(told["destination"].as_str().unwrap().ends_with("/lake/"), "{told}");
    let ran = place.call(["check", "--config", "config.json", "./elsewhere"]).run();
    assert!(ran.expect(0).stdout.lines().next().unwrap().ends_with("/elsewhere/"), "{}", ran.stdout);
}

#[test]
fn a_table_that_a_load_made_is_named_with_its_version() {
    let place = Workplace::new();
    let messages = "{\"type\":\"SCHEMA\",\"stream\":\"t\",\"schema\":{\"properties\":{\"a\":{\"type\":\"integer\"}}}}\n\
                    {\"type\":\"RECORD\",\"stream\":\"t\",\"record\":{\"a\":1}}\n";
    place.load(json!({}), messages).expect(0);
    let ran = place.call(["check", "lake/t"]).run();
    assert!(ran.expect(0).stdout.contains("a table, version 0, 1 column"), "{}", ran.stdout);
}

#[test]
fn a_wrong_use_is_told() {
    let place = Workplace::new();
    place.call(["check"]).run().expect(2).says("nothing to check").says("--config FILE");
    place.call(["check", "flie:///lake"]).run().expect(2).says("did you mean `file://`");
    place.call(["check", "--frmat", "json", "lake"]).run().expect(2).says("--format");
    place.write("config.json", json!({ "load_methd": "upsert" }).to_string());
    place.call(["check", "--config", "config.json", "lake"]).run().expect(2).says("load_method");
    place.call(["--config", "config.json", "check", "lake"]).run().expect(2);
    place.call(["chekc"]).run().expect(2).says("check");
    assert!(!place.path("lake").exists());
}

#[test]
fn the_policy_of_a_bucket_is_printed() {
    let place = Workplace::new();
    let ran = place.call(["check", "--print-policy", "s3://lake/raw data"]).run();
    ran.expect(0);
    serde_json::from_str::<Value>(&ran.stdout).unwrap();
    assert_ran!(ran, place);
    let ran = place.call(["check", "--print-policy", "s3://lake"]).env("AWS_REGION", "cn-north-1").run();
    assert!(ran.expect(0).stdout.contains("arn:aws-cn:s3:::lake/"), "{}", ran.stdout);
    let ran = place.call(["check", "--print-policy", "lake"]).run();
    ran.expect(0).says("hard link");
    assert_eq!(ran.stdout, "");
    place.call(["check", "--print-policy", "--format", "json", "lake"]).run().expect(2).says("--format");
}

#[test]
fn help_of_check_names_every_flag() {
    let place = Workplace::new();
    assert_ran!(place.call(["check", "--help"]).run(), place);
}
