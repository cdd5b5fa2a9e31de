//! The command from outside; also the reason why `cargo test` builds the binary, which the Python tests start.

use std::process::Command;

#[test]
fn every_kind_of_fault_is_named_in_the_help() {
    let output = Command::new(env!("CARGO_BIN_EXE_delta-load-faults")).arg("--help").output().expect("starts");
    let help = String::from_utf8(output.stdout).expect("is text");
    assert!(output.status.success(), "{help}");
    for word in ["--listen", "--upstream", "--seed", "--latency-ms"] {
        assert!(help.contains(word), "{word} in {help}");
    }
}
