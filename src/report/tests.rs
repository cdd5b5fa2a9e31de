use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tracing::Level;

use super::log::tests::line;
use super::*;
use crate::InputLine;
use crate::seam::{Sleep, World};

/// A clock that stands until it is set.
#[derive(Debug, Default)]
struct Stopped(AtomicU64);

impl World for Stopped {
    fn now_us(&self) -> i64 {
        1_764_547_200_500_000
    }
    fn elapsed(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::SeqCst))
    }
    fn sleep(&self, _: Duration) -> Sleep {
        Box::pin(std::future::ready(()))
    }
    fn random(&self) -> f64 {
        0.5
    }
    fn uuid(&self) -> uuid::Uuid {
        uuid::Uuid::nil()
    }
}

fn committed(rows: u64, version: u64) -> Committed {
    Committed { table: "/lake/orders".to_owned(), version: Some(version), rows, files: 1, bytes: 2_500_000, attempts: 1 }
}

#[test]
fn the_closing_table_has_a_line_per_stream_a_total_and_the_coercions() {
    let clock = Arc::new(Stopped::default());
    let reporter = Reporter::new(clock.clone());
    reporter.rows("orders", 336_776, 45_200_000);
    clock.0.store(3_200, Ordering::SeqCst);
    reporter.committed("orders", &committed(336_776, 0));
    let coercion = |count| Coercion {
        field: "amount".to_owned(),
        kind: "empty text to null".to_owned(),
        count,
        example: "\"\"".to_owned(),
        line: InputLine(7),
    };
    reporter.coerced("orders", coercion(10));
    reporter.coerced("orders", coercion(2));
    reporter.rows("users", 12, 900);
    reporter.rejected("users", 2);
    reporter.lines(336_800);
    reporter.state_out(InputLine(336_799));
    assert_eq!(
        reporter.finish().render(),
        "stream     rows  MB in  MB out  files  commits  rejects  seconds   rows/s\n\
         orders  336,776   45.2     2.5      1        1        0      3.2  105,243\n\
         users         0    0.0     0.0      0        0        2      0.0        -\n\
         total   336,776   45.2     2.5      1        1        2      3.2  105,243\n  \
           orders.amount: 12 × empty text to null, first \"\" (input line 7)\n  \
           users: 10 records read and not committed\n\
         336,800 lines read, 1 state written, 3.2 s"
    );
}

#[test]
fn an_input_without_a_stream_says_so() {
    assert_eq!(Summary::default().render(), "no stream in the input\n0 lines read, 0 states written, 0.0 s");
}

#[test]
fn a_notice_is_kept_once_per_stream() {
    let reporter = Reporter::new(Arc::new(Stopped::default()));
    for _ in 0..3 {
        reporter.notice(Some("orders"), "earlier versions of a key stay");
        reporter.warn(Some("users"), "no key");
        reporter.warn(None, "no key");
    }
    let summary = reporter.finish();
    let notices: Vec<_> = summary.streams.iter().map(|stream| stream.notices.clone()).collect();
    assert_eq!(notices, vec![vec!["earlier versions of a key stay".to_owned()], vec!["no key".to_owned()]]);
}

#[test]
fn a_plain_line_names_time_level_and_stream() {
    let text = line(LogFormat::Plain, Level::WARN, "delta_load::load", "no key", &[("stream_name", "orders")]);
    let (time, rest) = text.split_once(' ').unwrap();
    assert!(time.len() == 8 && time.as_bytes()[2] == b':', "{time}");
    assert_eq!(rest, "WARN  stream `orders`: no key");
}

#[test]
fn a_metric_line_is_what_singer_tools_look_for() {
    let metric =
        json!({"type": "counter", "metric": "record_count", "value": 5, "tags": {"stream": "orders", "pid": 1}}).to_string();
    let fields = [("stream_name", "orders"), ("metric_info", metric.as_str())];
    let text = line(LogFormat::Plain, Level::INFO, "delta_load::metrics", "METRIC", &fields);
    assert!(
        text.ends_with(
            r#"INFO  METRIC: {"type":"counter","metric":"record_count","value":5,"tags":{"stream":"orders","pid":1}}"#
        ),
        "{text}"
    );
    let text = line(LogFormat::Structured, Level::INFO, "delta_load::metrics", "METRIC", &fields);
    let value: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&value["message"], &value["metric_info"]["value"]), (&json!("METRIC"), &json!(5)));
}

#[test]
fn a_structured_line_has_the_fields_of_the_sdk() {
    let exception = r#"{"type":"Input","module":"delta_load","message":"is bad"}"#;
    let fields = [("stream_name", "orders"), ("exception", exception)];
    let text = line(LogFormat::Structured, Level::ERROR, "delta_load::error", "error: is bad\n  hint: fix", &fields);
    assert!(!text.contains('\n'));
    let value: Value = serde_json::from_str(&text).unwrap();
    let names: Vec<_> = value.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(names, ["level", "pid", "logger_name", "ts", "thread_name", "app_name", "stream_name", "message", "exception"]);
    assert_eq!(value["level"], "error");
    assert_eq!(value["ts"], json!(1_764_547_200.5));
    assert_eq!(value["exception"]["type"], "Input");
    let warning: Value = serde_json::from_str(&line(LogFormat::Structured, Level::WARN, "x", "m", &[])).unwrap();
    assert_eq!(warning["level"], "warning");
}
