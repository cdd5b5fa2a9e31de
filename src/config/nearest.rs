//! What was meant by a name that is not known.

/// Returns ` (did you mean …?)` with up to three of `known` that are near to `name`, nearest first; else the empty text.
pub(super) fn suggestion<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let names = nearest(name, known);
    match names.as_slice() {
        [] => String::new(),
        [one] => format!("; did you mean `{one}`?"),
        [first @ .., last] => format!("; did you mean `{}` or `{last}`?", first.join("`, `")),
    }
}

fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let wanted = plain(name);
    let mut near: Vec<(f64, &str)> = Vec::new();
    for candidate in known {
        let other = plain(candidate);
        let score = strsim::normalized_damerau_levenshtein(&wanted, &other);
        // A word left out or added (`table` for `table_path`) is as likely as a slip of the finger.
        let is_part = wanted.len() >= 4 && (other.starts_with(&wanted) || other.ends_with(&wanted) || wanted.starts_with(&other));
        let score = if is_part { score.max(0.75) } else { score };
        if score >= 0.65 {
            near.push((score, candidate));
        }
    }
    near.sort_by(|left, right| right.0.total_cmp(&left.0).then(left.1.cmp(right.1)));
    near.dedup_by(|left, right| left.1 == right.1);
    let best = near.first().map_or(0.0, |(score, _)| *score);
    near.into_iter().take_while(|(score, _)| *score >= best - 0.1).take(3).map(|(_, name)| name).collect()
}

fn plain(name: &str) -> String {
    name.chars()
        .map(|character| if matches!(character, '-' | '.' | ' ') { '_' } else { character.to_ascii_lowercase() })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_a_missing_word_and_another_spelling_find_the_name() {
        let known = ["destination", "table_path", "load_method", "aws_access_key_id", "max_rejects"];
        assert_eq!(nearest("destinaton", known), ["destination"]);
        assert_eq!(nearest("table", known), ["table_path"]);
        assert_eq!(nearest("loadMethod", known), ["load_method"]);
        assert_eq!(nearest("AWS-ACCESS-KEY", known), ["aws_access_key_id"]);
        assert!(nearest("colour", known).is_empty());
    }
}
