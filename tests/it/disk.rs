//! Disks that cannot do all, and what a load leaves on those that can.

use std::fs;

use serde_json::json;

use crate::command::{Workplace, assert_ran};
use crate::readback::{Table, files_below};

const MESSAGES: &str = "{\"type\":\"SCHEMA\",\"stream\":\"users\",\"schema\":{\"properties\":{\"id\":{\"type\":\"integer\"}}}}\n\
                        {\"type\":\"RECORD\",\"stream\":\"users\",\"record\":{\"id\":1}}\n";

#[test]
fn nothing_unfinished_is_left_after_a_good_end() {
    let place = Workplace::new();
    place.load(json!({}), MESSAGES).expect(0);
    let files = files_below(&place.path("lake"));
    assert!(!files.iter().any(|path| path.file_name().unwrap().to_str().unwrap().starts_with(".delta-load")), "{files:?}");
}

#[test]
fn a_file_system_without_hard_links_is_refused_at_once() {
    let place = Workplace::new();
    let ran = place.target(json!({})).env("DELTA_LOAD_FAIL_POINT", "store:no_hard_links=error").stdin(MESSAGES).run();
    ran.expect(1).says("hard links").says("hint:").says("single_writer");
    assert!(Table::read(place.path("lake/users")).versions.is_empty());
    assert_ran!(ran, place);
}

#[test]
fn a_single_writer_may_do_without_hard_links() {
    let place = Workplace::new();
    let target = place.target(json!({ "single_writer": true }));
    target.env("DELTA_LOAD_FAIL_POINT", "store:no_hard_links=error").stdin(MESSAGES).run().expect(0);
    assert_eq!(Table::read(place.path("lake/users")).numbers("id"), [1]);
}

#[test]
fn a_log_of_ours_in_the_way_of_a_file_is_said() {
    let place = Workplace::new();
    fs::create_dir_all(place.path("lake")).unwrap();
    fs::write(place.path("lake/users"), "a file").unwrap();
    let ran = place.load(json!({}), MESSAGES);
    assert!(matches!(ran.code, Some(1 | 2)), "{}", ran.stderr);
    ran.says("lake/users");
    assert_eq!(fs::read_to_string(place.path("lake/users")).unwrap(), "a file");
}
