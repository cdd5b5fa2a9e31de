//! Singer messages and the line reader. Bytes are pushed in; a record stays bytes.
//!
//! The guarantee: every line of the input is accounted for, with its number, as exactly one message or one error; nothing is skipped but
//! blank lines. Were it lost, a STATE could leave ahead of a record that nobody saw.
//!
//! There are two readers of a message. [`record_head`] and [`record_tail`] recognise the one form that nearly all lines have, without
//! looking into the record. [`parse`] validates the whole line and takes everything that CONTRACTS allow; whatever surprises the
//! first is given to the second.

mod envelope;
mod json;
mod lines;
mod message;

pub use envelope::{RecordHead, RecordTail, record_head, record_tail};
pub use json::{JsonFault, Members, members, validate};
pub use lines::LineSplitter;
pub use message::{
    ActivateVersionMessage, BatchMessage, Message, MessageFault, RecordMessage, SchemaMessage, StateMessage, parse,
};
