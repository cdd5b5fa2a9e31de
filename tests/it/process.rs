//! The process from outside: signals, timers, failures at named points, a closed stdout, BATCH files.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::table::{batches, data_files, log, rows};

const SCHEMA: &str = r#"{"type":"SCHEMA","stream":"a","schema":{"properties":{"n":{"type":"integer"}}}}"#;

struct Lake {
    directory: tempfile::TempDir,
    settings: Value,
}

impl Lake {
    fn new(settings: Value) -> Self {
        Self { directory: tempfile::tempdir().unwrap(), settings }
    }

    fn table(&self) -> PathBuf {
        self.path().join("a")
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn start(&self, environment: &[(&str, &str)]) -> (Child, ChildStdin) {
        let config = self.path().join("config.json");
        let mut settings = json!({"destination": self.path()});
        settings.as_object_mut().unwrap().extend(self.settings.as_object().unwrap().clone());
        std::fs::write(&config, settings.to_string()).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_delta-load"))
            .args(["--config", config.to_str().unwrap()])
            .envs(environment.iter().copied())
            .current_dir(self.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take().unwrap();
        (child, stdin)
    }

    fn load(&self, environment: &[(&str, &str)], lines: &[String]) -> Output {
        let (child, mut stdin) = self.start(environment);
        // A load that fails early closes the pipe: its exit code tells.
        drop(stdin.write_all((lines.join("\n") + "\n").as_bytes()));
        drop(stdin);
        child.wait_with_output().unwrap()
    }
}

fn record(n: i64) -> String {
    format!("{{\"type\":\"RECORD\",\"stream\":\"a\",\"record\":{{\"n\":{n}}}}}")
}

fn state(n: i64) -> String {
    format!("{{\"type\":\"STATE\",\"value\":{{\"at\":{n}}}}}")
}

fn batch(manifest: String) -> String {
    json!({"type": "BATCH", "stream": "a", "encoding": {"format": "jsonl"}, "manifest": [manifest]}).to_string()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn wait_for(what: &str, is_there: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_there() {
        assert!(start.elapsed() < Duration::from_secs(30), "{what} did not come");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_state_without_rows_never_overtakes_the_commit_before_it() {
    let lake = Lake::new(json!({"batch_size_rows": 1}));
    let output =
        lake.load(&[("DELTA_LOAD_FAIL_POINT", "commit:before=error")], &[SCHEMA.into(), record(1), state(1), state(2), state(3)]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(75), String::new()), "{}", text(&output.stderr));
    assert_eq!(rows(&lake.table()), (vec![], 0));
}

#[test]
fn no_state_leaves_when_a_data_file_cannot_be_finished() {
    for point in ["file:before_close=error", "file:after_put=error"] {
        // The failure races with the cut: once is no proof.
        for _ in 0..8 {
            let lake = Lake::new(json!({}));
            let output = lake.load(&[("DELTA_LOAD_FAIL_POINT", point)], &[SCHEMA.into(), record(1), state(1)]);
            assert_eq!(
                (output.status.code(), text(&output.stdout)),
                (Some(75), String::new()),
                "{point}: {}",
                text(&output.stderr)
            );
            assert_eq!(rows(&lake.table()), (vec![], 0));
        }
    }
}

#[test]
fn a_commit_that_fails_keeps_the_states_of_those_before_it() {
    let lake = Lake::new(json!({"batch_size_rows": 1, "state_interval_seconds": 1}));
    let lines = [SCHEMA.into(), record(1), state(1), record(2), state(2)];
    let output = lake.load(&[("DELTA_LOAD_FAIL_POINT", "commit:before=error@2")], &lines);
    assert_eq!(output.status.code(), Some(75), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "{\"at\":1}\n");
    assert_eq!(rows(&lake.table()), (vec![1], 1));
    assert!(text(&output.stderr).contains("committed up to the STATE of line 3"), "{}", text(&output.stderr));
}

#[test]
fn a_state_that_waits_for_its_interval_leaves_when_a_later_commit_fails() {
    let lake = Lake::new(json!({"batch_size_rows": 1, "state_interval_seconds": 60}));
    let lines = [SCHEMA.into(), record(1), state(1), record(2), state(2), record(3), state(3)];
    let output = lake.load(&[("DELTA_LOAD_FAIL_POINT", "commit:before=error@3")], &lines);
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(75), "{\"at\":1}\n{\"at\":2}\n"));
    assert_eq!(rows(&lake.table()).0, [1, 2]);
}

#[test]
fn after_a_commit_without_a_state_a_failure_does_not_invite_a_repeat() {
    let lake = Lake::new(json!({"commit_without_state_seconds": 1}));
    let (child, mut stdin) = lake.start(&[("DELTA_LOAD_FAIL_POINT", "commit:before=error@2")]);
    writeln!(stdin, "{SCHEMA}\n{}", record(1)).unwrap();
    wait_for("the commit", || !log(&lake.table()).is_empty());
    writeln!(stdin, "{}", record(2)).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
}

#[test]
fn a_signal_commits_up_to_the_newest_state() {
    for (signal, code) in [(libc::SIGTERM, 143), (libc::SIGINT, 130)] {
        let lake = Lake::new(json!({}));
        let (child, mut stdin) = lake.start(&[]);
        writeln!(stdin, "{SCHEMA}\n{}\n{}\n{}", record(1), state(1), record(2)).unwrap();
        wait_for("the stream", || lake.table().exists() || !log(&lake.table()).is_empty() || started(&child));
        std::thread::sleep(Duration::from_millis(300));
        kill(&child, signal);
        let output = child.wait_with_output().unwrap();
        assert_eq!(
            (output.status.code(), text(&output.stdout).as_str()),
            (Some(code), "{\"at\":1}\n"),
            "{}",
            text(&output.stderr)
        );
        assert_eq!((rows(&lake.table()), data_files(&lake.table())), ((vec![1], 1), 1));
        drop(stdin);
    }
}

/// The process has read its input: its pipe is empty once it listens.
fn started(child: &Child) -> bool {
    std::fs::read_dir(format!("/proc/{}/task", child.id())).is_ok_and(|threads| threads.count() > 3)
}

#[allow(unsafe_code)]
fn kill(child: &Child, signal: i32) {
    // SAFETY: a plain system call on a child of ours that is not waited for yet.
    unsafe { libc::kill(i32::try_from(child.id()).unwrap(), signal) };
}

#[test]
fn the_timer_commits_up_to_the_newest_state_while_the_tap_is_silent() {
    let lake = Lake::new(json!({"batch_wait_limit_seconds": 1, "commit_without_state_seconds": 60}));
    let (child, mut stdin) = lake.start(&[]);
    writeln!(stdin, "{SCHEMA}\n{}\n{}\n{}", record(1), state(1), record(2)).unwrap();
    wait_for("the commit", || !log(&lake.table()).is_empty());
    assert_eq!(rows(&lake.table()), (vec![1], 1), "what came after the STATE waits");
    writeln!(stdin, "{}", record(3)).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(0), "{\"at\":1}\n"));
    assert_eq!(rows(&lake.table()), (vec![1, 2, 3], 2));
    assert_eq!(data_files(&lake.table()), 3, "the file that the cut ran through is gone");
}

#[test]
fn without_a_state_the_timer_commits_and_the_commit_says_so() {
    let lake = Lake::new(json!({"commit_without_state_seconds": 1}));
    let (child, mut stdin) = lake.start(&[]);
    writeln!(stdin, "{SCHEMA}\n{}", record(1)).unwrap();
    wait_for("the commit", || !log(&lake.table()).is_empty());
    writeln!(stdin, "{}", record(2)).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), String::new()));
    assert_eq!(rows(&lake.table()), (vec![1, 2], 2));
    let first = log(&lake.table())[0][0]["commitInfo"].to_string();
    assert!(first.contains("withoutState"), "{first}");
}

#[test]
fn a_closed_stdout_ends_the_load_and_nothing_more_is_committed() {
    let lake = Lake::new(json!({"batch_size_rows": 1, "state_interval_seconds": 1}));
    let (mut child, mut stdin) = lake.start(&[]);
    drop(child.stdout.take());
    writeln!(stdin, "{SCHEMA}\n{}\n{}", record(1), state(1)).unwrap();
    wait_for("the commit", || !log(&lake.table()).is_empty());
    std::thread::sleep(Duration::from_millis(1500));
    drop(writeln!(stdin, "{}\n{}\n{}\n{}", record(2), state(2), record(3), state(3)));
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("stdout"), "{}", text(&output.stderr));
    assert_eq!(rows(&lake.table()).0, [1]);
}

#[test]
fn a_crash_between_commit_and_state_repeats_just_that_stretch() {
    let lake = Lake::new(json!({"batch_size_rows": 1, "state_interval_seconds": 1}));
    let lines = [SCHEMA.into(), record(1), state(1), record(2), state(2)];
    let output = lake.load(&[("DELTA_LOAD_FAIL_POINT", "commit:after_put=kill@2")], &lines);
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (None, "{\"at\":1}\n"));
    assert_eq!(rows(&lake.table()), (vec![1, 2], 2), "the commit landed, its STATE did not leave");
    let output = lake.load(&[], &[SCHEMA.into(), record(2), state(2)]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(rows(&lake.table()), (vec![1, 2, 2], 3));
}

#[test]
fn batch_files_count_as_records_in_their_place() {
    let lake = Lake::new(json!({"clean_up_batch_files": true}));
    let path = lake.path().join("part one.jsonl.gz");
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(b"{\"n\":2}\n\n{\"n\":\"3\"}\n").unwrap();
    std::fs::write(&path, gzip.finish().unwrap()).unwrap();
    let url = format!("file://{}", path.display().to_string().replace(' ', "%20"));
    let output = lake.load(&[], &[SCHEMA.into(), record(1), batch(url), record(4), state(1)]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(rows(&lake.table()), (vec![1, 2, 3, 4], 1));
    assert!(!path.exists(), "deleted after its commit");
    let output = lake.load(&[], &[SCHEMA.into(), state(1), record(5), batch("missing.jsonl".into())]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("missing.jsonl"), "{}", text(&output.stderr));
    assert_eq!(rows(&lake.table()).0, [1, 2, 3, 4]);
}

#[test]
fn what_is_wrong_in_a_batch_file_is_told_by_its_place() {
    let lake = Lake::new(json!({"on_bad_value": "reject", "on_bad_line": "skip"}));
    let path = lake.path().join("b.jsonl");
    let url = || path.display().to_string();
    std::fs::write(&path, "{\"n\":1}\n{\"n\":\"no\",\"new\":1}\n{\"n\":\n{\"n\":4}\n").unwrap();
    let output = lake.load(&[], &[SCHEMA.into(), batch(url()), state(1)]);
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!((output.status.code(), stdout.as_str()), (Some(0), "{\"at\":1}\n"), "{stderr}");
    assert!(stderr.contains(&format!("skipped input line 2: line 3 of `{}` is not JSON", url())), "{stderr}");
    assert_eq!(rows(&lake.table()).0, [1, 4]);
    let rejects = std::fs::read_dir(lake.path().join("_rejects/a")).unwrap().next().unwrap().unwrap().path();
    let reject = std::io::read_to_string(flate2::read::GzDecoder::new(std::fs::File::open(rejects).unwrap())).unwrap();
    let reject: Value = serde_json::from_str(&reject).unwrap();
    assert_eq!((&reject["line"], &reject["place"]), (&json!(2), &json!(format!("line 2 of `{}`", url()))));
    let columns = batches(&lake.table())[0].num_columns();
    assert_eq!(columns, 1, "a record that was set aside leaves no column");
    // A last line that was cut off is no line to skip.
    std::fs::write(&path, "{\"n\":5}\n{\"n\":").unwrap();
    let output = lake.load(&[], &[SCHEMA.into(), batch(url()), state(2)]);
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(1), ""));
    assert!(text(&output.stderr).contains(&format!("line 2 of `{}`", url())), "{}", text(&output.stderr));
}

#[test]
fn versions_and_metadata_columns_are_written() {
    let lake = Lake::new(json!({"add_record_metadata": true}));
    let with = r#"{"type":"RECORD","stream":"a","record":{"n":1},"version":17,"time_extracted":"2024-02-03T04:05:06.000007Z"}"#;
    let output = lake.load(&[], &[SCHEMA.into(), with.into(), record(2)]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let batches = batches(&lake.table());
    let names: Vec<String> = batches[0].schema().fields().iter().map(|field| field.name().clone()).collect();
    let expected = [
        "n",
        "_sdc_extracted_at",
        "_sdc_received_at",
        "_sdc_batched_at",
        "_sdc_deleted_at",
        "_sdc_sequence",
        "_sdc_table_version",
        "_sdc_sync_started_at",
    ];
    assert_eq!(names, expected);
    use arrow::array::{Array, AsArray};
    use arrow::datatypes::{Int64Type, TimestampMicrosecondType};
    let column = |name: &str| batches[0].column_by_name(name).unwrap().clone();
    assert_eq!(column("_sdc_extracted_at").as_primitive::<TimestampMicrosecondType>().value(0), 1_706_933_106_000_007);
    let version = column("_sdc_table_version");
    assert_eq!((version.as_primitive::<Int64Type>().value(0), version.is_null(1)), (17, true));
    assert_eq!(column("_sdc_deleted_at").null_count(), 2);
    assert_eq!(column("_sdc_received_at").null_count(), 0);
}

#[test]
fn a_line_over_a_fifth_of_the_memory_is_refused_by_name() {
    let lake = Lake::new(json!({"memory_limit_bytes": 64 << 20}));
    let long = format!("{{\"type\":\"RECORD\",\"stream\":\"a\",\"record\":{{\"n\":1,\"x\":\"{}\"}}}}", "y".repeat(14 << 20));
    let output = lake.load(&[], &[SCHEMA.into(), record(1), state(1), long]);
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(1), "{\"at\":1}\n"));
    assert!(text(&output.stderr).contains("memory_limit_bytes"), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("(input line 4)"), "{}", text(&output.stderr));
}
