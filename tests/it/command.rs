//! Runs the built command in a folder of its own and shows what came out of it, with what differs from run to run replaced.

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

/// A folder to work in, with the lake in `lake/` below it.
pub struct Workplace {
    folder: TempDir,
}

/// One call of the command.
pub struct Call {
    command: Command,
    stdin: Vec<u8>,
}

/// What came out of a call.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Workplace {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// Returns a path in the folder.
    pub fn path(&self, below: &str) -> PathBuf {
        self.folder.path().join(below)
    }

    /// Writes a file in the folder, with the folders above it.
    pub fn write(&self, below: &str, content: impl AsRef<[u8]>) {
        let path = self.path(below);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// Returns a call with `arguments` and an environment that holds nothing of the developer's.
    pub fn call<A: Into<OsString>>(&self, arguments: impl IntoIterator<Item = A>) -> Call {
        let mut command = Command::new(env!("CARGO_BIN_EXE_delta-load"));
        command.args(arguments.into_iter().map(Into::into)).current_dir(self.folder.path()).env_clear();
        Call { command, stdin: Vec::new() }
    }

    /// Returns a call that loads into `lake/` with more settings from `config`.
    pub fn target(&self, config: Value) -> Call {
        let mut settings = json!({ "destination": "./lake" });
        settings.as_object_mut().unwrap().extend(config.as_object().unwrap().clone());
        self.write("config.json", settings.to_string());
        self.call(["--config", "config.json"])
    }

    /// Loads `messages`, one a line.
    pub fn load(&self, config: Value, messages: &str) -> Ran {
        self.target(config).stdin(messages).run()
    }
}

impl Call {
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    pub fn stdin(mut self, bytes: impl AsRef<[u8]>) -> Self {
        self.stdin = bytes.as_ref().to_vec();
        self
    }

    /// Starts the command, for a test that feeds it bit by bit; [`finish`] waits for its end.
    pub fn feed(self) -> (Child, ChildStdin) {
        start(self.command)
    }

    pub fn run(self) -> Ran {
        let Self { command, stdin } = self;
        let (child, mut pipe) = start(command);
        // A load that fails stops reading: that the rest of its input finds no reader is no failure of the test.
        let feeder = std::thread::spawn(move || drop(pipe.write_all(&stdin)));
        let output = child.wait_with_output().unwrap();
        feeder.join().unwrap();
        ran(output)
    }
}

fn start(mut command: Command) -> (Child, ChildStdin) {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let stdin = child.stdin.take().unwrap();
    (child, stdin)
}

/// Waits for a command whose input has ended.
pub fn finish(child: Child) -> Ran {
    ran(child.wait_with_output().unwrap())
}

fn ran(output: std::process::Output) -> Ran {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    Ran { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

impl Ran {
    /// Returns code, stdout and stderr as one text, without the name of the folder; [`assert_ran!`] replaces the rest.
    pub fn show(&self, workplace: &Workplace) -> String {
        let code = self.code.map_or("killed".to_owned(), |code| code.to_string());
        let mut text = format!("exit code: {code}\n");
        for (name, stream) in [("stdout", &self.stdout), ("stderr", &in_order(&self.stderr))] {
            text += &format!("--- {name}\n{stream}");
            if !text.ends_with('\n') {
                text += "\n";
            }
        }
        let folder = workplace.folder.path();
        text.replace(folder.canonicalize().unwrap().to_str().unwrap(), "[folder]").replace(folder.to_str().unwrap(), "[folder]")
    }

    /// Asserts the exit code, showing all that was said when it is another.
    #[track_caller]
    pub fn expect(&self, code: i32) -> &Self {
        assert_eq!(self.code, Some(code), "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }

    /// Asserts that stderr holds `text`.
    #[track_caller]
    pub fn says(&self, text: &str) -> &Self {
        assert!(self.stderr.contains(text), "{text:?} is not said in:\n{}", self.stderr);
        self
    }

    /// Returns the STATE lines.
    pub fn states(&self) -> Vec<&str> {
        self.stdout.lines().collect()
    }
}

/// Returns a log with the lines about commits (and their timers) sorted where they follow each other: tables commit side by side.
fn in_order(log: &str) -> String {
    let mut lines: Vec<&str> = log.lines().collect();
    let is_commit = |line: &str| line.contains(": committed version ") || line.contains("batch_processing_time");
    // By what stays the same from run to run.
    let words = |line: &&str| line.chars().filter(|character| !character.is_ascii_digit()).collect::<String>();
    lines.chunk_by_mut(|one, other| is_commit(one) && is_commit(other)).for_each(|run| run.sort_by_key(words));
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// What differs from run to run, and what stands for it: ids, times, durations, rates.
pub const FILTERS: [(&str, &str); 8] = [
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "[id]"),
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?Z?", "[time]"),
    (r"(?m)^\d\d:\d\d:\d\d(\.\d+)?", "[time]"),
    (r#""pid": ?\d+"#, r#""pid":[pid]"#),
    (r#""value": ?\d+\.\d+(e-?\d+)?"#, r#""value":[seconds]"#),
    // The closing table: its columns are as wide as figures that differ.
    (r"  +", "  "),
    (r"(?m)  \d+\.\d  (-|[\d,]+)$", "  [seconds]  [rate]"),
    (r"\b\d+(\.\d+)? (s|ms)\b", "[duration]"),
];

/// Compares what came out of a call with the snapshot of the test.
macro_rules! assert_ran {
    ($ran:expr, $workplace:expr) => {
        insta::with_settings!({ filters => crate::command::FILTERS.to_vec(), omit_expression => true, prepend_module_to_snapshot => true }, {
            insta::assert_snapshot!($ran.show(&$workplace));
        })
    };
}
pub(crate) use assert_ran;
