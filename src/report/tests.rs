use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tracing::Level;
use tracing::level_filters::LevelFilter;

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

/// What was logged.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Written {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Returns the lines that `work` logs.
fn lines(format: LogFormat, work: impl FnOnce(&Stopped, &Reporter)) -> Vec<String> {
    let clock = Arc::new(Stopped::default());
    let reporter = Reporter::new(clock.clone());
    let settings = LogSettings { level: LevelFilter::INFO, format, is_coloured: false, is_live: false, warnings: Vec::new() };
    let written = Written::default();
    let writer = written.clone();
    let subscriber = super::log::subscriber(&settings, clock.clone(), move || writer.clone());
    tracing::subscriber::with_default(subscriber, || work(&clock, &reporter));
    let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn counters_are_shown_every_minute_and_at_the_end_and_start_again() {
    let lines = lines(LogFormat::Structured, |clock, reporter| {
        reporter.rows("orders", 5, 100);
        clock.0.store(59_000, Ordering::SeqCst);
        reporter.rows("orders", 2, 100);
        reporter.rows("users", 0, 0);
        clock.0.store(60_000, Ordering::SeqCst);
        reporter.tick();
        clock.0.store(61_000, Ordering::SeqCst);
        reporter.rows("orders", 4, 100);
        reporter.batch_time("orders", Duration::from_millis(250), true);
        reporter.finish();
    });
    let metrics: Vec<_> = lines
        .iter()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["metric_info"].clone())
        .map(|metric| (metric["metric"].clone(), metric["tags"]["stream"].clone(), metric["value"].clone()))
        .collect();
    assert_eq!(
        metrics,
        [
            (json!("record_count"), json!("orders"), json!(7)),
            (json!("batch_processing_time"), json!("orders"), json!(0.25)),
            (json!("record_count"), json!("orders"), json!(4)),
            (json!("record_count"), json!("users"), json!(0)),
        ]
    );
}

#[test]
fn what_happens_is_told_once_in_plain_lines() {
    let lines = lines(LogFormat::Plain, |_, reporter| {
        reporter.notice(Some("orders"), "earlier versions stay");
        reporter.notice(Some("orders"), "earlier versions stay");
        reporter.committed("orders", &Committed { attempts: 3, ..committed(1_000, 17) });
        reporter.skipped_line(InputLine(9), "no message");
        tracing::info!(target: "other_library", "insides");
        reporter.show(&reporter.finish());
    });
    let shown: Vec<_> = lines.iter().take(3).map(|line| &line[9..]).collect();
    assert_eq!(
        shown,
        [
            "INFO  stream `orders`: earlier versions stay",
            "INFO  stream `orders`: committed version 17: 1,000 rows in 1 file, 3 tries (/lake/orders)",
            "WARN  skipped input line 9: no message",
        ]
    );
    assert!(lines[4].starts_with("stream "), "{}", lines[4]);
    assert_eq!(lines.len(), 8);
}

#[test]
fn an_error_is_shown_in_its_own_form() {
    let error = || crate::Error::input("is bad").in_field("a").in_stream("orders").hint("correct the tap");
    let plain = lines(LogFormat::Plain, |_, _| show_error(&error()));
    assert_eq!(plain, ["error: field `a` of stream `orders` is bad", "  hint:  correct the tap"]);
    let structured = lines(LogFormat::Structured, |_, _| show_error(&error()));
    let value: Value = serde_json::from_str(&structured[0]).unwrap();
    assert_eq!((&value["level"], &value["stream_name"]), (&json!("error"), &json!("orders")));
    assert_eq!(value["message"], json!("error: field `a` of stream `orders` is bad\n  hint:  correct the tap"));
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
