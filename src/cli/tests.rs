mod bucket;

use super::*;

fn parse(arguments: &[&str]) -> clap::error::Result<TargetArguments> {
    Arguments::try_parse_from(std::iter::once("delta-load").chain(arguments.iter().copied())).map(|arguments| arguments.target)
}

#[test]
fn the_flags_fit_together() {
    Arguments::command().debug_assert();
}

#[test]
fn config_repeats_in_order() {
    let arguments = parse(&["--config", "a.json", "--config=ENV", "--config", "b.json", "--input", "messages.jsonl"]).unwrap();
    assert_eq!(arguments.configs, ["a.json", "ENV", "b.json"]);
    assert_eq!(arguments.input.as_deref(), Some(std::path::Path::new("messages.jsonl")));
}

#[test]
fn about_takes_its_format_in_both_spellings() {
    use crate::config::AboutFormat;
    assert_eq!(parse(&["--about"]).unwrap().about_format(), Some(AboutFormat::Text));
    assert_eq!(parse(&["--about", "--format", "json"]).unwrap().about_format(), Some(AboutFormat::Json));
    assert_eq!(parse(&["--about", "--format=json"]).unwrap().about_format(), Some(AboutFormat::Json));
    assert_eq!(parse(&["--about", "--format=markdown"]).unwrap().about_format(), Some(AboutFormat::Markdown));
    assert_eq!(parse(&[]).unwrap().about_format(), None);
}

#[test]
fn check_takes_a_place_a_config_or_both() {
    let parse = |arguments: &[&str]| {
        let all = ["delta-load", "check"].iter().chain(arguments).copied();
        Arguments::try_parse_from(all).map(|arguments| match arguments.command {
            Some(Command::Check(arguments)) => arguments,
            None => panic!("is a command"),
        })
    };
    let both = parse(&["--config", "a.json", "--config", "ENV", "s3://lake"]).unwrap();
    assert_eq!((both.url.as_deref(), both.configs.len(), both.print_policy), (Some("s3://lake"), 2, false));
    assert!(parse(&["--print-policy"]).unwrap().print_policy);
    assert_eq!(parse(&["--print-policy", "--format", "json"]).unwrap_err().kind(), ClapErrorKind::ArgumentConflict);
    assert_eq!(parse(&["a", "b"]).unwrap_err().kind(), ClapErrorKind::UnknownArgument);
}

#[test]
fn flags_of_the_target_do_not_go_with_a_command() {
    let parsed = Arguments::try_parse_from(["delta-load", "--config", "a.json", "check", "lake"]);
    assert!(parsed.is_err());
    assert!(Arguments::try_parse_from(["delta-load"]).unwrap().command.is_none());
}

#[test]
fn a_wrong_use_is_an_error_of_clap() {
    assert_eq!(parse(&["--format", "json"]).unwrap_err().kind(), ClapErrorKind::MissingRequiredArgument);
    assert_eq!(parse(&["--confg", "x"]).unwrap_err().kind(), ClapErrorKind::UnknownArgument);
    assert_eq!(parse(&["--config"]).unwrap_err().kind(), ClapErrorKind::InvalidValue);
}
