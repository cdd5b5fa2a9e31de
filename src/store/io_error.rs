//! Errors of the file system, turned into the kind that says what to do.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::{Error, ErrorKind};

/// Returns the typed error for an I/O error that happened while doing something (`write`, `read`, `list`, `delete`) to `path`.
///
/// **Errors:** `Denied` for what a person has to change (space, rights, read-only); `Unavailable` for the rest.
pub(super) fn io_error(error: io::Error, doing: &str, path: &Path) -> Error {
    let shown = path.display();
    let folder = path.parent().unwrap_or(path).display();
    let typed = match error.kind() {
        io::ErrorKind::StorageFull => Error::denied(format!("no space left to {doing} `{shown}`"))
            .hint(format!("free some space on the file system of `{folder}`, then run the same command again")),
        io::ErrorKind::QuotaExceeded => Error::denied(format!("the disk quota does not allow to {doing} `{shown}`"))
            .hint(format!("free some space in `{folder}` or have the quota raised, then run the same command again")),
        io::ErrorKind::ReadOnlyFilesystem => Error::denied(format!("cannot {doing} `{shown}`: its file system is read-only"))
            .hint("mount it for writing, or choose another `destination`"),
        io::ErrorKind::PermissionDenied => Error::denied(format!("no permission to {doing} `{shown}`")).hint(match doing {
            "read" | "list" => format!("let the user of this process read `{folder}`"),
            _ => format!("let the user of this process write to `{folder}`, or choose another `destination`"),
        }),
        io::ErrorKind::NotADirectory => Error::denied(format!("cannot {doing} `{shown}`: a part of that path is a file"))
            .hint("move the file out of the way, or choose another `destination`"),
        io::ErrorKind::IsADirectory => Error::denied(format!("cannot {doing} `{shown}`: a folder stands in its place"))
            .hint("move the folder out of the way: whoever made it, it is not part of the table"),
        io::ErrorKind::InvalidFilename => {
            Error::denied(format!("cannot {doing} `{shown}`: the name is too long for its file system"))
                .hint("choose a shorter `destination` or `table_path`")
        }
        io::ErrorKind::FileTooLarge => Error::denied(format!("cannot {doing} `{shown}`: the file is larger than allowed"))
            .hint("lower `target_file_bytes`, or raise the limit of the process (`ulimit -f`)"),
        _ => Error::unavailable(format!("cannot {doing} `{shown}`")),
    };
    typed.source(error)
}

/// Returns the typed error for a file system that makes no hard links.
pub(super) fn no_hard_links(error: io::Error, path: &Path) -> Error {
    Error::denied(format!("the file system of `{}` makes no hard links, on which commits to local disk rest", path.display()))
        .hint(
            "choose a `destination` on a file system that has them (ext4, xfs, btrfs, apfs, nfs), or set `single_writer = true` if \
             no other process ever writes these tables",
        )
        .source(error)
}

/// Tells whether a failed hard link means that the file system makes none.
pub(super) fn is_no_hard_links(error: &io::Error) -> bool {
    // Linux answers EPERM for a file system without hard links (link(2)); FUSE and network file systems ENOSYS or EOPNOTSUPP,
    // and EMLINK where a file may have one name only.
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::Unsupported | io::ErrorKind::TooManyLinks)
        && error.raw_os_error() != Some(EACCES)
}

/// "Permission denied" on every Unix: a lack of rights, where EPERM is a lack of the operation.
const EACCES: i32 = 13;

/// A failed write of an upload, as it travels inside an [`io::Error`] through encoders that know nothing of ours.
#[derive(Debug)]
struct WriteFailure {
    path: PathBuf,
    code: Option<i32>,
    kind: io::ErrorKind,
}

impl fmt::Display for WriteFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot write `{}`: {}", self.path.display(), self.cause())
    }
}

impl std::error::Error for WriteFailure {}

impl WriteFailure {
    fn cause(&self) -> io::Error {
        self.code.map_or_else(|| io::Error::from(self.kind), io::Error::from_raw_os_error)
    }
}

/// Returns `error` in the form that [`write_failure`] finds again.
pub(super) fn as_write_failure(error: io::Error, path: &Path) -> io::Error {
    let kind = error.kind();
    if kind == io::ErrorKind::Interrupted {
        return error;
    }
    io::Error::new(kind, WriteFailure { path: path.to_owned(), code: error.raw_os_error(), kind })
}

/// A typed error on its way through encoders, which hand it back by reference only.
#[derive(Debug)]
struct RemoteFailure(Mutex<Option<Error>>);

impl fmt::Display for RemoteFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(error) => error.fmt(f),
            None => f.write_str("the write failed"),
        }
    }
}

impl std::error::Error for RemoteFailure {}

/// Returns a store's own typed error in the form that [`write_failure`] finds again.
pub(super) fn as_remote_failure(error: Error) -> io::Error {
    io::Error::other(RemoteFailure(Mutex::new(Some(error))))
}

/// Returns the typed error of a failed write to an [`Upload`](super::Upload), which an encoder wrapped into an error of its own;
/// `None` when the error has another cause.
pub fn write_failure(error: &(dyn std::error::Error + 'static)) -> Option<Error> {
    let mut cause = Some(error);
    while let Some(inner) = cause {
        if let Some(failure) = find::<WriteFailure>(inner) {
            return Some(io_error(failure.cause(), "write", &failure.path));
        }
        if let Some(failure) = find::<RemoteFailure>(inner) {
            // The first to ask gets it.
            return failure.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        }
        cause = inner.source();
    }
    None
}

fn find<'a, T: std::error::Error + 'static>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a T> {
    error.downcast_ref::<T>().or_else(|| error.downcast_ref::<io::Error>()?.get_ref()?.downcast_ref::<T>())
}

/// Tells whether a person has to act before another try can go better.
pub(super) fn is_denied(error: &Error) -> bool {
    error.kind() == ErrorKind::Denied
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_that_a_person_has_to_mend_are_denied_and_say_how() {
        for (code, words) in [
            (28, "no space left"),
            (30, "read-only"),
            (13, "no permission"),
            (1, "no permission"),
            (122, "quota"),
            (36, "too long"),
            (21, "a folder stands in its place"),
        ] {
            let error = io_error(io::Error::from_raw_os_error(code), "write", Path::new("/lake/t/a.parquet"));
            assert_eq!(error.kind(), ErrorKind::Denied, "{code}");
            assert!(error.render().contains(words), "{}", error.render());
            assert!(error.hint_text().is_some(), "{code}");
        }
        let other = io_error(io::Error::from_raw_os_error(5), "write", Path::new("/lake/x"));
        assert_eq!(other.kind(), ErrorKind::Unavailable);
    }

    #[test]
    fn a_lack_of_rights_is_not_a_lack_of_hard_links() {
        let code = |code| is_no_hard_links(&io::Error::from_raw_os_error(code));
        assert!(code(1) && code(95) && code(38) && code(31));
        assert!(!code(13) && !code(17) && !code(28));
    }

    #[test]
    fn a_full_disk_is_found_inside_an_encoders_error() {
        let inner = as_write_failure(io::Error::from_raw_os_error(28), Path::new("/lake/t/a.parquet"));
        let wrapped = parquet::errors::ParquetError::External(Box::new(inner));
        let error = write_failure(&wrapped).expect("is found");
        assert_eq!(error.kind(), ErrorKind::Denied);
        assert!(error.render().contains("no space left to write `/lake/t/a.parquet`"), "{}", error.render());
        assert!(write_failure(&io::Error::other("else")).is_none());
    }

    #[test]
    fn a_stores_own_error_is_found_inside_an_encoders_error() {
        let inner = as_remote_failure(Error::denied("no permission").hint("get it"));
        let wrapped = parquet::errors::ParquetError::External(Box::new(inner));
        let error = write_failure(&wrapped).expect("is found");
        assert_eq!((error.kind(), error.hint_text()), (ErrorKind::Denied, Some("get it")));
    }
}
