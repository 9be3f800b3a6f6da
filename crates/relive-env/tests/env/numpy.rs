//! Random streams, compared with numpy's.
#![expect(clippy::unwrap_used, reason = "a failed test is one that ends")]

use relive_env::random::{Generator, RandomState};
use serde_json::Value;

fn document() -> Value {
    serde_json::from_str(include_str!("../golden/numpy.json")).unwrap()
}

fn floats(entry: &Value, key: &str) -> Vec<f64> {
    entry[key].as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect()
}

fn whole(entry: &Value, key: &str) -> Vec<i64> {
    entry[key].as_array().unwrap().iter().map(|value| value.as_i64().unwrap()).collect()
}

fn times<T>(count: usize, mut draw: impl FnMut() -> T) -> Vec<T> {
    (0..count).map(|_| draw()).collect()
}

fn places(values: &[usize]) -> Vec<i64> {
    values.iter().map(|value| i64::try_from(*value).unwrap()).collect()
}

#[test]
fn the_legacy_stream_matches_numpy() {
    for entry in document()["legacy"].as_array().unwrap() {
        let mut stream = RandomState::new(entry["seed"].as_u64().unwrap().try_into().unwrap());
        let binomial = |stream: &mut RandomState, n, p| i64::from(stream.binomial(n, p).unwrap());
        assert_eq!(times(4, || stream.random_sample()), floats(entry, "random_sample"));
        assert_eq!(times(3, || stream.uniform(-0.05, 0.05)), floats(entry, "uniform"));
        assert_eq!(times(20, || stream.randint(0, 5)), whole(entry, "randint_5"));
        assert_eq!(times(3, || stream.randint(0, 1)), whole(entry, "randint_1"));
        assert_eq!(times(5, || stream.randint(-(1 << 40), 1 << 41)), whole(entry, "randint_wide"));
        assert_eq!(times(5, || stream.standard_normal()), floats(entry, "normal"));
        assert_eq!(stream.random_sample(), entry["after_odd_normal"].as_f64().unwrap());
        assert_eq!(stream.standard_normal(), entry["normal_cached"].as_f64().unwrap());
        for (p, key) in [(0.5, "bernoulli_half"), (0.3, "bernoulli_third"), (0.9, "bernoulli_likely")] {
            assert_eq!(times(20, || i64::from(stream.bernoulli(p))), whole(entry, key));
        }
        assert_eq!(times(20, || binomial(&mut stream, 40, 0.3)), whole(entry, "binomial_40_0.3"));
        assert_eq!(times(20, || binomial(&mut stream, 25, 0.8)), whole(entry, "binomial_25_0.8"));
        assert_eq!(places(&stream.permutation(11)), whole(entry, "permutation_11"));
        assert_eq!(places(&stream.permutation(11)), whole(entry, "choice_without_replacement"));
        let weights = [0.1, 0.2, 0.3, 0.4];
        assert_eq!(places(&times(20, || stream.choice_weighted(&weights))), whole(entry, "choice_weighted"));
        let sum = times(2000, || stream.random_sample()).into_iter().fold(0.0, |sum, value| sum + value);
        assert_eq!(sum, entry["sum_of_2000"].as_f64().unwrap());
    }
}

#[test]
fn the_newer_stream_matches_numpy() {
    let pi = std::f64::consts::PI;
    for entry in document()["newer"].as_array().unwrap() {
        let mut stream = Generator::new(entry["seed"].as_u64().unwrap());
        assert_eq!(times(4, || stream.random()), floats(entry, "random"));
        assert_eq!(times(4, || stream.uniform(-0.05, 0.05)), floats(entry, "uniform"));
        assert_eq!(vec![stream.uniform(-pi, pi), stream.uniform(-1.0, 1.0)], floats(entry, "bounds"));
    }
}

#[test]
fn unsupported_numpy_draws_are_refused() {
    let error = RandomState::new(0).binomial(100, 0.5).unwrap_err().to_string();
    assert_eq!(
        error,
        "setting at `binomial`: expected a chance, and at most 30 to expect, got 100 times 0.5"
    );
    assert!(RandomState::new(0).binomial(1, f64::NAN).is_err());
}

#[test]
fn a_fair_bernoulli_draw_matches_the_binomial() {
    let (mut quick, mut general) = (RandomState::new(3), RandomState::new(3));
    for _ in 0..1000 {
        assert_eq!(u32::from(quick.bernoulli(0.5)), general.binomial(1, 0.5).unwrap());
    }
    assert_eq!(quick, general);
}
