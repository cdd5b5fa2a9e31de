//! SIGKILL at random moments: nothing is ever lost, and only what lay between a commit and its STATE comes twice.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use serde_json::json;

use crate::table::{log, rows};

/// Rows of the whole load, and between two STATE messages.
const ROWS: i64 = 200_000;
const STATE_EVERY: i64 = 2_500;

/// A setting, so that a long run is one command: `DELTA_LOAD_KILLS=500 cargo test crash`.
fn kills() -> i64 {
    std::env::var("DELTA_LOAD_KILLS").map_or(20, |kills| kills.parse().expect("a number"))
}

fn seed() -> u64 {
    let seed = std::env::var("DELTA_LOAD_SEED").map_or_else(|_| rand::random(), |seed| seed.parse().expect("a number"));
    println!("DELTA_LOAD_SEED={seed}");
    seed
}

fn messages(from: i64, to: i64) -> Vec<u8> {
    let schema = json!({"type": "SCHEMA", "stream": "a", "schema": {"properties": {"n": {"type": "integer"}, "text": {"type": "string"}}}});
    let mut lines = format!("{schema}\n");
    for n in from..to {
        lines += &format!("{{\"type\":\"RECORD\",\"stream\":\"a\",\"record\":{{\"n\":{n},\"text\":\"row {n}\"}}}}\n");
        if (n + 1) % STATE_EVERY == 0 {
            lines += &format!("{{\"type\":\"STATE\",\"value\":{{\"next\":{}}}}}\n", n + 1);
        }
    }
    lines.into_bytes()
}

#[test]
fn nothing_is_lost_by_sigkill_at_random_moments() {
    let mut random = rand::rngs::StdRng::seed_from_u64(seed());
    let lake = tempfile::tempdir().unwrap();
    let config = lake.path().join("config.json");
    let settings = json!({"destination": lake.path(), "batch_size_rows": 2 * STATE_EVERY, "state_interval_seconds": 1});
    std::fs::write(&config, settings.to_string()).unwrap();
    let mut next = 0;
    let mut positions = vec![0];
    let kills = kills();
    for kill in 0..=kills {
        let is_last = kill == kills;
        let end = if is_last { ROWS } else { (ROWS * (kill + 1) / kills + random.random_range(-5_000..5_000)).clamp(next, ROWS) };
        let mut load = Command::new(env!("CARGO_BIN_EXE_delta-load"))
            .args(["--config", config.to_str().unwrap()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut stdin = load.stdin.take().unwrap();
        let stdout = BufReader::new(load.stdout.take().unwrap());
        let input = messages(next, end);
        let feeding = std::thread::spawn(move || {
            // A killed reader breaks the pipe: that is the test. The pipe stays open as long as the process is to live.
            drop(stdin.write_all(&input));
            stdin
        });
        let reading = std::thread::spawn(move || stdout.lines().map_while(|line| line.ok()).last());
        if is_last {
            drop(feeding.join().unwrap());
            assert!(load.wait().unwrap().success());
        } else {
            std::thread::sleep(Duration::from_millis(random.random_range(1..600)));
            load.kill().unwrap();
            load.wait().unwrap();
            drop(feeding.join().unwrap());
        }
        if let Some(state) = reading.join().unwrap() {
            let state: serde_json::Value = serde_json::from_str(&state).expect("a whole line");
            next = state["next"].as_i64().unwrap();
            positions.push(next);
        }
    }
    let table = lake.path().join("a");
    let mut counts = vec![0u32; usize::try_from(ROWS).unwrap()];
    for n in rows(&table).0 {
        counts[usize::try_from(n).unwrap()] += 1;
    }
    let lost = counts.iter().filter(|count| **count == 0).count();
    assert_eq!(lost, 0, "rows are lost");
    let doubled = counts.iter().filter(|count| **count > 1).count();
    println!("{} kills, {} versions, {doubled} of {ROWS} rows sent and stored again", kills, log(&table).len());
    // A STATE that was out is never taken back: what lies before it is stored once for each time that it was sent.
    assert!(positions.is_sorted());
}
