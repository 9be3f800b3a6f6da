//! Words and calls that are forbidden.

use super::finding::Finding;
use super::source::{Lexeme, Source};

const PROMISES: [&str; 2] = [concat!("TO", "DO"), concat!("FIX", "ME")];

/// The folder of Python tests that must wait for events instead of sleeping.
const PYTHON_TESTS: &str = "interop/tests/";

pub(super) fn check(sources: &[Source], texts: &[(String, String)]) -> Vec<Finding> {
    let mut findings: Vec<Finding> = sources.iter().flat_map(in_code).collect();
    findings.extend(texts.iter().flat_map(|(path, text)| in_text(path, text)));
    findings
}

fn in_code(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    for run in source.lexemes.windows(3) {
        let [first, second, third] = [0, 1, 2].map(|index| run[index].text.as_str());
        let reason = match (first, second, third) {
            ("todo" | "unimplemented", "!", _) => Some("leaves a hole: finish it, or leave it out"),
            ("#", "[", "ignore") => Some("ignores a test: a test that does not run proves nothing"),
            ("sleep", "(", _) if is_test(&run[0]) => {
                Some("sleeps in a test: wait for the event itself, or pause and advance the clock")
            }
            _ => None,
        };
        findings.extend(reason.map(|reason| Finding::new(source.place(run[0].line), reason)));
    }
    findings
}

fn is_test(lexeme: &Lexeme) -> bool {
    lexeme.test
}

fn in_text(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        let place = format!("{path}:{number}");
        if let Some(word) = PROMISES.iter().find(|word| line.contains(*word)) {
            let reason = format!("says {word}: do it now, or open an issue that says what and why");
            findings.push(Finding::new(&place, reason));
        }
        if path.starts_with(PYTHON_TESTS) && line.contains("sleep(") {
            findings
                .push(Finding::new(&place, "sleeps in a test: wait for the event itself, with a deadline"));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        let sources =
            if path.ends_with(".rs") { vec![Source::parse(path, text).unwrap()] } else { Vec::new() };
        let texts = [(path.to_owned(), text.to_owned())];
        check(&sources, &texts).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn todos_and_ignored_tests_are_found() {
        for text in ["fn f() { todo!() }", "fn f() { unimplemented!(\"x\") }", "#[ignore]\n#[test] fn f() {}"]
        {
            assert_eq!(found("src/a.rs", text).len(), 1, "{text}");
        }
        assert_eq!(found("src/a.rs", "fn todo() { ignore(); }"), Vec::<String>::new());
    }

    #[test]
    fn sleeping_is_found_in_tests_only() {
        let text = "async fn f() { sleep(x).await }";
        assert_eq!(found("src/a.rs", text), Vec::<String>::new());
        assert_eq!(found("tests/a.rs", text).len(), 1);
        assert_eq!(found("src/a.rs", "#[cfg(test)] mod t { fn f() { std::thread::sleep(x) } }").len(), 1);
        assert_eq!(found("interop/tests/test_a.py", "time.sleep(1)").len(), 1);
        assert_eq!(found("interop/support/wait.py", "time.sleep(1)"), Vec::<String>::new());
    }

    #[test]
    fn todo_markers_are_found_in_every_kind_of_text() {
        for path in ["src/a.rs", "docs/a.md", "demo/a.py"] {
            let text = format!("// {}: later", PROMISES[0]);
            let found = found(path, &text);
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].starts_with(&format!("{path}:1: says {}", PROMISES[0])));
        }
    }
}
