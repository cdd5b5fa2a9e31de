//! The crate's own source text, as the rules of the house are checked on it.

use std::fs;
use std::path::Path;

/// A source file: its path below `src/`, and its text.
pub struct SourceFile {
    pub path: String,
    pub text: String,
}

/// Returns every file of `src/`.
pub fn all() -> Vec<SourceFile> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    let mut open = vec![root.clone()];
    while let Some(folder) = open.pop() {
        for child in fs::read_dir(&folder).unwrap() {
            let path = child.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let below = path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
                files.push(SourceFile { path: below, text: fs::read_to_string(&path).unwrap() });
            }
        }
    }
    files.sort_by(|one, other| one.path.cmp(&other.path));
    assert!(files.len() > 20, "the sources are found");
    files
}

/// Returns `text` with comments blanked out, line by line as it was. A `//` within a string ends the line too, which hides nothing
/// that these checks look for.
pub fn without_comments(text: &str) -> String {
    text.lines().map(|line| line.find("//").map_or(line, |start| &line[..start])).collect::<Vec<_>>().join("\n")
}

/// Returns the places (line number, line) of `text`, comments left out, that hold `word` as a word of its own.
pub fn mentions<'a>(text: &'a str, word: &str) -> Vec<(usize, &'a str)> {
    let is_part = |character: char| character.is_alphanumeric() || character == '_';
    let holds = |line: &str| {
        let code = line.find("//").map_or(line, |start| &line[..start]);
        code.match_indices(word).any(|(at, _)| !code[..at].ends_with(is_part))
    };
    text.lines().enumerate().filter(|(_, line)| holds(line)).map(|(index, line)| (index + 1, line)).collect()
}
