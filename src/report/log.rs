//! Log lines on stderr: plain ones, or the JSON lines of the Meltano SDK's structured formatter.

use std::fmt::{self, Write as _};
use std::io::IsTerminal;
use std::sync::LazyLock;

use serde_json::{Map, Value, json};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, MakeWriter};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;

use super::live::Terminal;
use crate::Error;
use crate::seam::Seam;

/// Lines of the closing table: shown without time and level.
pub(super) const TABLE_TARGET: &str = "delta_load::table";
/// Singer metrics.
pub(super) const METRICS_TARGET: &str = "delta_load::metrics";
/// The error that ends the process: shown in its own form.
const ERROR_TARGET: &str = "delta_load::error";

/// Where the log of the process goes.
pub(super) static STDERR: LazyLock<Terminal<std::io::Stderr>> = LazyLock::new(|| Terminal::new(std::io::stderr()));

/// The text that a logging config holds when it asks for JSON lines.
const STRUCTURED_FORMATTER: &str = "singer_sdk.logging.StructuredFormatter";

/// How log lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// `12:00:01 INFO  text`
    Plain,
    /// One JSON object per line, as the Meltano SDK writes them.
    Structured,
}

/// What is logged, and how.
#[derive(Debug, Clone, PartialEq)]
pub struct LogSettings {
    /// The least level of our own lines.
    pub level: LevelFilter,
    /// Their form.
    pub format: LogFormat,
    /// Whether levels are coloured.
    pub is_coloured: bool,
    /// Whether a live line stands below the log lines.
    pub is_live: bool,
    /// What could not be understood; shown once the log is open.
    pub warnings: Vec<String>,
}

impl LogSettings {
    /// Returns the settings that the environment asks for: `TARGET_DELTA_LOGLEVEL`, then `LOGLEVEL`, then `root.level` of the
    /// logging config that `SINGER_SDK_LOG_CONFIG` names; JSON lines when that config names the SDK's structured formatter.
    pub fn from_environment(variable: &dyn Fn(&str) -> Option<String>) -> Self {
        let mut settings =
            Self { level: LevelFilter::INFO, format: LogFormat::Plain, is_coloured: false, is_live: false, warnings: Vec::new() };
        let mut config = String::new();
        if let Some(path) = variable("SINGER_SDK_LOG_CONFIG").filter(|path| !path.is_empty()) {
            match std::fs::read_to_string(&path) {
                Ok(text) => config = text,
                Err(error) => settings.warnings.push(format!("the log config `{path}` cannot be read: {error}")),
            }
        }
        if config.contains(STRUCTURED_FORMATTER) {
            settings.format = LogFormat::Structured;
        }
        let from_variables = ["TARGET_DELTA_LOGLEVEL", "LOGLEVEL"].into_iter().filter_map(|name| Some((name, variable(name)?)));
        let from_config = root_level(&config).map(|level| ("root.level of the log config", level));
        for (origin, text) in from_variables.chain(from_config) {
            if text.trim().is_empty() {
                continue;
            }
            match level(&text) {
                Some(level) => {
                    settings.level = level;
                    break;
                }
                None => settings.warnings.push(format!("{origin} is \"{text}\", which is not a log level")),
            }
        }
        let is_plain_wished = variable("NO_COLOR").is_some_and(|text| !text.is_empty());
        let is_terminal = settings.format == LogFormat::Plain && std::io::stderr().is_terminal();
        settings.is_coloured = is_terminal && !is_plain_wished;
        let is_dumb = variable("TERM").is_none_or(|terminal| terminal.is_empty() || terminal == "dumb");
        settings.is_live = is_terminal && !is_dumb && settings.level >= LevelFilter::INFO;
        settings
    }
}

/// Opens the log of the process. A second call changes nothing.
pub fn init(settings: &LogSettings, seam: Seam) {
    if tracing::subscriber::set_global_default(subscriber(settings, seam, &*STDERR)).is_ok() {
        if settings.is_live {
            STDERR.go_live();
        }
        for warning in &settings.warnings {
            tracing::warn!("{warning}");
        }
    }
}

pub(super) fn subscriber<W>(settings: &LogSettings, seam: Seam, writer: W) -> impl Subscriber + Send + Sync
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    // Libraries speak of their own insides at INFO: one level less for them.
    let libraries = match settings.level {
        LevelFilter::TRACE => LevelFilter::DEBUG,
        LevelFilter::DEBUG => LevelFilter::INFO,
        _ => LevelFilter::OFF,
    };
    let filter = Targets::new().with_target("delta_load", settings.level).with_default(libraries);
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(writer)
        .with_ansi(settings.is_coloured)
        .log_internal_errors(false)
        .event_format(Lines { format: settings.format, seam })
        .with_filter(filter);
    tracing_subscriber::registry().with(lines)
}

/// Shows the error that ends the process: its own lines where the log is plain, one JSON line where it is structured.
pub fn show_error(error: &Error) {
    let exception = json!({ "type": format!("{:?}", error.kind()), "module": "delta_load", "message": error.to_string() });
    let text = error.render();
    match error.stream() {
        Some(stream) => tracing::error!(target: ERROR_TARGET, stream_name = stream, exception = %exception, "{text}"),
        None => tracing::error!(target: ERROR_TARGET, exception = %exception, "{text}"),
    }
}

/// Returns the level that a Python logging name or number means.
fn level(text: &str) -> Option<LevelFilter> {
    Some(match text.trim().to_ascii_uppercase().as_str() {
        "NOTSET" | "TRACE" => LevelFilter::TRACE,
        "DEBUG" => LevelFilter::DEBUG,
        "INFO" => LevelFilter::INFO,
        "WARN" | "WARNING" => LevelFilter::WARN,
        "ERROR" | "CRITICAL" | "FATAL" => LevelFilter::ERROR,
        number => match number.parse::<u32>().ok()? {
            0..10 => LevelFilter::TRACE,
            10..20 => LevelFilter::DEBUG,
            20..30 => LevelFilter::INFO,
            30..40 => LevelFilter::WARN,
            _ => LevelFilter::ERROR,
        },
    })
}

/// Returns `root.level` of a Python logging config, in JSON or in block YAML.
fn root_level(config: &str) -> Option<String> {
    if let Ok(config) = serde_json::from_str::<Value>(config) {
        return match &config["root"]["level"] {
            Value::String(level) => Some(level.clone()),
            Value::Number(level) => Some(level.to_string()),
            _ => None,
        };
    }
    let mut lines = config.lines().skip_while(|line| line.trim_end() != "root:").skip(1);
    let level = lines
        .by_ref()
        .take_while(|line| line.trim().is_empty() || line.starts_with([' ', '\t', '#']))
        .find_map(|line| line.trim().strip_prefix("level:"))?;
    let level = level.split('#').next().unwrap_or_default();
    Some(level.trim().trim_matches(['"', '\'']).to_owned())
}

struct Lines {
    format: LogFormat,
    seam: Seam,
}

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let metadata = event.metadata();
        let text = match self.format {
            LogFormat::Plain => {
                plain(*metadata.level(), metadata.target(), &fields, self.seam.now_us(), writer.has_ansi_escapes())
            }
            LogFormat::Structured => structured(*metadata.level(), metadata.target(), fields, self.seam.now_us()),
        };
        writeln!(writer, "{text}")
    }
}

/// The fields of an event.
#[derive(Default)]
struct Fields {
    message: String,
    stream: Option<String>,
    metric: Option<String>,
    exception: Option<String>,
    others: Map<String, Value>,
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.take(field, value.to_owned());
    }
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.take(field, format!("{value:?}"));
    }
}

impl Fields {
    fn take(&mut self, field: &Field, text: String) {
        match field.name() {
            "message" => self.message = text,
            "stream_name" => self.stream = Some(text),
            "metric_info" => self.metric = Some(text),
            "exception" => self.exception = Some(text),
            name if name.starts_with("log.") => {}
            name => {
                self.others.insert(name.to_owned(), Value::String(text));
            }
        }
    }
}

fn plain(level: Level, target: &str, fields: &Fields, now_us: i64, is_coloured: bool) -> String {
    let mut text = fields.message.clone();
    if let Some(metric) = &fields.metric {
        text += &format!(": {metric}");
    } else if let (Some(stream), false) = (&fields.stream, target == ERROR_TARGET) {
        text = format!("stream `{stream}`: {text}");
    }
    for (name, value) in &fields.others {
        let _ = write!(text, " {name}={}", value.as_str().unwrap_or_default());
    }
    if target == TABLE_TARGET || target == ERROR_TARGET {
        return text;
    }
    let time = chrono::DateTime::from_timestamp_micros(now_us).unwrap_or_default().with_timezone(&chrono::Local);
    let (name, colour) = match level {
        Level::ERROR => ("ERROR", "31"),
        Level::WARN => ("WARN ", "33"),
        Level::INFO => ("INFO ", "32"),
        Level::DEBUG => ("DEBUG", "34"),
        Level::TRACE => ("TRACE", "35"),
    };
    let time = time.format("%H:%M:%S");
    if is_coloured { format!("{time} \x1b[{colour}m{name}\x1b[0m {text}") } else { format!("{time} {name} {text}") }
}

fn structured(level: Level, target: &str, fields: Fields, now_us: i64) -> String {
    let level = match level {
        Level::ERROR => "error",
        Level::WARN => "warning",
        Level::INFO => "info",
        Level::DEBUG | Level::TRACE => "debug",
    };
    let thread = std::thread::current();
    let mut line = Map::new();
    line.insert("level".to_owned(), level.into());
    line.insert("pid".to_owned(), std::process::id().into());
    line.insert("logger_name".to_owned(), target.replace("::", ".").into());
    line.insert("ts".to_owned(), (now_us as f64 / 1e6).into());
    line.insert("thread_name".to_owned(), thread.name().unwrap_or("thread").into());
    line.insert("app_name".to_owned(), "delta-load".into());
    if let Some(stream) = fields.stream {
        line.insert("stream_name".to_owned(), stream.into());
    }
    line.insert("message".to_owned(), fields.message.into());
    if let Some(metric) = fields.metric {
        line.insert("metric_info".to_owned(), serde_json::from_str(&metric).unwrap_or(Value::String(metric)));
    }
    if let Some(exception) = fields.exception {
        line.insert("exception".to_owned(), serde_json::from_str(&exception).unwrap_or(Value::String(exception)));
    }
    if !fields.others.is_empty() {
        line.insert("extra".to_owned(), Value::Object(fields.others));
    }
    Value::Object(line).to_string()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Returns one line as it would be written.
    pub(crate) fn line(format: LogFormat, level: Level, target: &str, message: &str, named: &[(&str, &str)]) -> String {
        let mut fields = Fields { message: message.to_owned(), ..Fields::default() };
        for (name, value) in named {
            match *name {
                "stream_name" => fields.stream = Some((*value).to_owned()),
                "metric_info" => fields.metric = Some((*value).to_owned()),
                "exception" => fields.exception = Some((*value).to_owned()),
                name => {
                    fields.others.insert(name.to_owned(), (*value).into());
                }
            }
        }
        match format {
            LogFormat::Plain => plain(level, target, &fields, 1_764_547_200_500_000, false),
            LogFormat::Structured => structured(level, target, fields, 1_764_547_200_500_000),
        }
    }

    #[test]
    fn the_level_comes_from_the_first_place_that_names_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("logging.json");
        std::fs::write(&path, r#"{"version": 1, "root": {"level": "DEBUG", "handlers": ["console"]}}"#).unwrap();
        let path = path.to_str().unwrap().to_owned();
        let level = |variables: &[(&str, &str)]| {
            let variables: Vec<_> = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            let find = |name: &str| variables.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
            LogSettings::from_environment(&find).level
        };
        assert_eq!(level(&[]), LevelFilter::INFO);
        assert_eq!(level(&[("SINGER_SDK_LOG_CONFIG", &path)]), LevelFilter::DEBUG);
        assert_eq!(level(&[("SINGER_SDK_LOG_CONFIG", &path), ("LOGLEVEL", "warning")]), LevelFilter::WARN);
        assert_eq!(level(&[("TARGET_DELTA_LOGLEVEL", "CRITICAL"), ("LOGLEVEL", "warning")]), LevelFilter::ERROR);
        assert_eq!(level(&[("TARGET_DELTA_LOGLEVEL", "loud"), ("LOGLEVEL", "10")]), LevelFilter::DEBUG);
    }

    #[test]
    fn a_log_config_asks_for_json_lines_by_naming_the_formatter() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("logging.yml");
        let text = "version: 1\nformatters:\n  structured:\n    (): singer_sdk.logging.StructuredFormatter\n\
                    root:\n  handlers: [console]\n  level: 'WARNING'  # quiet\nother:\n  level: DEBUG\n";
        std::fs::write(&path, text).unwrap();
        let path = path.to_str().unwrap().to_owned();
        let settings = LogSettings::from_environment(&|name| (name == "SINGER_SDK_LOG_CONFIG").then(|| path.clone()));
        assert_eq!((settings.format, settings.level), (LogFormat::Structured, LevelFilter::WARN));
    }

    #[test]
    fn a_missing_log_config_is_a_warning() {
        let settings = LogSettings::from_environment(&|name| (name == "SINGER_SDK_LOG_CONFIG").then(|| "/no/such".to_owned()));
        assert_eq!(settings.format, LogFormat::Plain);
        assert_eq!(settings.warnings.len(), 1);
    }
}
