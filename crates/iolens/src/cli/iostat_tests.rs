#![allow(clippy::unwrap_used)]
use super::*;
use proptest::prelude::*;

fn plan(line: &str) -> IostatPlan {
    words(
        &line
            .split(' ')
            .filter(|w| !w.is_empty())
            .collect::<Vec<_>>(),
    )
}

fn words(words: &[&str]) -> IostatPlan {
    parse(OsStr::new("iostat"), words.iter().map(OsString::from))
}

fn steps(line: &str) -> Vec<Step> {
    plan(line).steps
}

fn word(w: &str) -> Step {
    Step::Word(w.as_bytes().to_vec())
}

fn parts(w: &str) -> Step {
    Step::WithPartitions(w.as_bytes().to_vec())
}

#[test]
fn dash_p_takes_a_list_only_as_a_word_of_its_own() {
    assert_eq!(steps("-p"), [Step::Everything]);
    assert_eq!(steps("-p 2"), [Step::Everything, Step::Number(2)]);
    assert_eq!(steps("-p -x"), [Step::Everything]);
    assert_eq!(
        steps("-p sda,,sdb 2"),
        [
            Step::Unfiltered,
            parts("sda"),
            parts("sdb"),
            Step::Number(2)
        ]
    );
    assert_eq!(steps("-p ,"), [Step::Unfiltered]);
    assert_eq!(steps("-xp sda"), [Step::Everything, word("sda")]);
    assert_eq!(
        words(&["-p", "", "5"]).steps,
        [Step::Everything, Step::Number(0), Step::Number(5)]
    );
}

#[test]
fn options_that_are_words_of_their_own() {
    assert_eq!(
        steps("-g a sda -g b"),
        [
            Step::Group(b"a".to_vec()),
            word("sda"),
            Step::Group(b"b".to_vec())
        ]
    );
    assert_eq!(steps("-g"), [Step::Usage]);
    for line in [
        "-xg a", "-xf /", "-dj id", "-do JSON", "-q", "--humans", "--dec=3", "--dec=A", "--dec=10",
        "--dec=", "-o json", "-o", "-f", "-j",
    ] {
        assert_eq!(steps(line).last(), Some(&Step::Usage), "{line}");
    }
    assert_eq!(steps("-"), []);
    assert_eq!(steps("+x 0.5"), [word("+x"), word("0.5")]);
    assert_eq!(plan("--dec=0 --dec=2").options.decimals, Some(2));
    assert_eq!(
        steps("-f /a +f /b"),
        [Step::Directory("/a".into(), false), Step::Usage]
    );
    assert_eq!(steps("+f /b"), [Step::Directory("/b".into(), true)]);
    assert_eq!(steps("-j UUID"), [Step::PersistentNames("uuid".into())]);
    assert!(plan("-j UUID").options.pretty);
}

#[test]
fn units_exclude_each_other() {
    assert_eq!(plan("-k -kk").options.unit, Some(Unit::Kilo));
    assert_eq!(steps("-k -k"), []);
    for line in ["-km", "-k -m", "-m -G", "-Gk"] {
        assert_eq!(steps(line), [Step::Usage], "{line}");
    }
}

#[test]
fn the_first_mistake_wins_but_version_comes_in_its_turn() {
    assert_eq!(steps("-V -q"), [Step::Version]);
    assert_eq!(steps("-xVq"), [Step::Version]);
    assert_eq!(steps("-xqV"), [Step::Usage]);
    assert_eq!(
        steps("-j foo -q"),
        [Step::PersistentNames("foo".into()), Step::Usage]
    );
    assert_eq!(steps("-H"), [Step::Usage]);
    assert_eq!(steps("-H -g a"), [Step::Group(b"a".to_vec())]);
    assert_eq!(steps("-H -V"), [Step::Version]);
}

#[test]
fn stamps() {
    assert_eq!(plan("-t").options.stamp, Stamp::Local);
    assert_eq!(plan("-tU").options.stamp, Stamp::Epoch);
    assert_eq!(plan("-U -t").options.stamp, Stamp::Epoch);
}

#[test]
fn numbers_saturate() {
    assert_eq!(
        steps("99999999999999999999 007"),
        [Step::Number(i64::MAX), Step::Number(7)]
    );
}

#[test]
fn the_superset() {
    assert_eq!(
        plan("-x --replay DIR 1").source,
        Source::Replay("DIR".into())
    );
    assert_eq!(plan("--root=/host").source, Source::Under("/host".into()));
    let both = plan("--true -x --hist").options;
    assert!(both.exact && both.percentiles && !plan("-x").options.exact);
    assert_eq!(steps("--tru").last(), Some(&Step::Usage));
    assert_eq!(plan("-o NDJSON").options.format, IostatFormat::Ndjson);
    assert!(matches!(steps("--replay")[..], [Step::Fail(_)]));
    assert!(matches!(steps("--replay a --root b")[..], [Step::Fail(_)]));
}

#[test]
fn names_of_groups_are_cut() {
    let long = "x".repeat(400);
    assert_eq!(words(&["-g", &long]).steps, [Step::Group(vec![b'x'; 254])]);
}

#[test]
fn usage_names_the_program() {
    assert!(usage(OsStr::new("/bin/iostat")).starts_with(b"Usage: /bin/iostat [ options ]"));
    assert_eq!(
        usage(OsStr::new("x"))
            .iter()
            .filter(|b| **b == b'\n')
            .count(),
        7
    );
}

proptest! {
    #[test]
    fn arbitrary_words_never_panic(words in prop::collection::vec("[-+a-zA-Z0-9,=. ]{0,6}", 0..8)) {
        let n = words.len();
        let plan = parse(OsStr::new("iostat"), words.into_iter().map(OsString::from));
        let bad = |s: &&Step| matches!(s, Step::Usage | Step::Fail(_));
        prop_assert!(plan.steps.iter().filter(bad).count() <= 1);
        prop_assert!(n > 0 || plan.steps.is_empty());
    }
}
