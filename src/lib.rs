//! delta-load turns a stream of records into Delta Lake tables.
//!
//! ```text
//! stdin
//! ↓ singer            lines → SCHEMA, RECORD, STATE …, each with its input line ──────── STATE ──┐
//! ↓ load::router      one Stream per Singer stream; `schema` fixes its columns and types         │
//! ↓ batch             record bytes → RecordBatch                                                 │
//! ↓ data_file         RecordBatch → Parquet and statistics ─► store: put, in parallel, any order │
//! ↓ load::sequencer   per table: the data files, back in input order                             │
//! ↓ delta::commit     actions ─► store: put-if-absent → version N;  lost → newer snapshot        │
//! ↓ load::ack         joins the tables: "all input up to line L is committed" ◄──────────────────┘
//! stdout              the newest STATE at or before line L
//! ```
//!
//! A room imports only rooms below it in this list: `main`, `cli`, `config`, `load`, `inspect`, `data_file`, `batch`, `delta`, `singer`
//! and `source`, `schema`, `store`, then `report`, `error`, `seam`, which import none.

pub mod batch;
pub mod cli;
pub mod config;
pub mod data_file;
pub mod delta;
pub mod error;
pub mod inspect;
pub mod load;
pub mod report;
pub mod schema;
pub mod seam;
pub mod singer;
pub mod source;
pub mod store;

pub use error::{Error, ErrorKind, InputLine, Result};
