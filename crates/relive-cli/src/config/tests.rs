//! Tests valid and invalid configurations.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use relive_host::{Format, Rules};
use relive_table::{RateLimiterConfig, SelectorKind, TableConfig};
use relive_tensor::{DType, Nest, Tensor, TensorSpec};

use crate::checkpoints::Keys;

use super::{Config, textproto, toml_format};

fn good(text: &str) -> Config {
    toml_format::parse(text).unwrap()
}

/// Returns the only table of a document that is `[[table]]`, its name, and `rest`.
fn table(rest: &str) -> TableConfig {
    good(&format!("[[table]]\nname = 't'\n{rest}")).tables.remove(0)
}

/// Returns the line and the text of the problem with a document.
fn problem(text: &str) -> (Option<usize>, String) {
    let problem = toml_format::parse(text).unwrap_err();
    (problem.line, problem.text)
}

/// Returns the text of the problem in line 3, after `[[table]]` and its name.
fn table_problem(rest: &str) -> String {
    let (line, text) = problem(&format!("[[table]]\nname = 't'\n{rest}"));
    assert_eq!(line, Some(3), "{text}");
    text
}

#[test]
fn a_table_with_only_a_name_gets_the_defaults() {
    let config = good("[[table]]\nname = 'replay'\n");
    assert_eq!((config.bind, config.port), (IpAddr::V4(Ipv4Addr::LOCALHOST), 8000));
    let table = &config.tables[0];
    assert_eq!(table.name, "replay");
    assert_eq!((table.sampler, table.remover), (SelectorKind::Uniform, SelectorKind::Fifo));
    assert_eq!((table.max_size, table.max_times_sampled), (1_000_000, 0));
    assert_eq!(table.rate_limiter, RateLimiterConfig::min_size(1).unwrap());
    assert_eq!(table.signature, None);
}

#[test]
fn a_table_may_have_a_seed() {
    assert_eq!(table("seed = 7\n").seed, Some(7));
    assert_eq!(table("").seed, None);
}

#[test]
fn address_and_port_are_read_from_the_configuration() {
    let config = good("port = 0\nbind = '[::]'\n[[table]]\nname = 'a'\n[[table]]\nname = 'b'\n");
    assert_eq!((config.bind, config.port), (IpAddr::V6(Ipv6Addr::UNSPECIFIED), 0));
    let names = config.tables.iter().map(|table| table.name.as_str()).collect::<Vec<_>>();
    assert_eq!(names, ["a", "b"]);
}

#[test]
fn byte_bounds_accept_optional_units() {
    let config = good(
        "max_bytes = '8GB'\nmax_bytes_wait = 2.5\n[[table]]\nname = 'a'\nmax_bytes = 1_000\n[[table]]\nname = 'b'\n\
         kind = 'queue'\nmax_size = 3\nmax_bytes = '1.5 MiB'\n[[table]]\nname = 'c'\n",
    );
    assert_eq!(config.max_bytes, Some(8_000_000_000));
    assert_eq!(config.max_bytes_wait, Some(Duration::from_millis(2_500)));
    let bounds: Vec<_> = config.tables.iter().map(|table| table.max_bytes).collect();
    assert_eq!(bounds, [Some(1_000), Some(1_572_864), None]);
    let none = good("[[table]]\nname = 'a'\n");
    assert_eq!((none.max_bytes, none.max_bytes_wait), (None, None));
}

#[test]
fn checkpoints_have_keys() {
    let config = good(
        "checkpoint_dir = 's3://bucket/run'\ncheckpoint_every = '10m'\ncheckpoint_keep = 5\ncheckpoint_format = 'reverb'\n\
         config_from = 'code'\ncheckpoint_at_shutdown = false\n[[table]]\nname = 'a'\n",
    );
    let expected = Keys {
        dir: Some("s3://bucket/run".to_owned()),
        every: Some(Duration::from_secs(600)),
        keep: Some(5),
        format: Some(Format::Reverb),
        config_from: Some(Rules::Given),
        at_shutdown: Some(false),
    };
    assert_eq!(config.checkpoints, expected);
    assert_eq!(good("[[table]]\nname = 'a'\n").checkpoints, Keys::default());
}

#[test]
fn every_selector_has_a_name() {
    for (text, kind) in [
        ("'uniform'", SelectorKind::Uniform),
        ("'without_replacement'", SelectorKind::WithoutReplacement),
        ("'fifo'", SelectorKind::Fifo),
        ("'lifo'", SelectorKind::Lifo),
        ("'min_heap'", SelectorKind::MinHeap),
        ("'max_heap'", SelectorKind::MaxHeap),
        ("{ prioritized = 0.6 }", SelectorKind::Prioritized { exponent: 0.6 }),
        ("{ prioritized = 1 }", SelectorKind::Prioritized { exponent: 1.0 }),
    ] {
        let table = table(&format!("sampler = {text}\nremover = {text}"));
        assert_eq!((table.sampler, table.remover), (kind, kind));
    }
}

#[test]
fn every_rate_limiter_has_a_spelling() {
    let ratio = |min_diff, max_diff| RateLimiterConfig {
        samples_per_insert: 2.0,
        min_size_to_sample: 10,
        min_diff,
        max_diff,
    };
    for (text, limiter) in [
        ("{ min_size = 7 }", RateLimiterConfig::min_size(7).unwrap()),
        ("{ samples_per_insert = 2, min_size = 10, error_buffer = 5 }", ratio(15.0, 25.0)),
        ("{ samples_per_insert = 2.0, min_size = 10, error_buffer = [1, 60.5] }", ratio(1.0, 60.5)),
        (
            "{ samples_per_insert = 2, min_size = 10, min_diff = -inf, max_diff = 3 }",
            ratio(f64::NEG_INFINITY, 3.0),
        ),
        ("{ queue = 4 }", RateLimiterConfig::queue(4)),
        ("{ stack = 4 }", RateLimiterConfig::stack(4)),
    ] {
        assert_eq!(table(&format!("rate_limiter = {text}")).rate_limiter, limiter, "{text}");
    }
}

#[test]
fn kinds_set_everything_but_the_size() {
    let queue = table("kind = 'queue'\nmax_size = 5");
    assert_eq!((queue.sampler, queue.remover), (SelectorKind::Fifo, SelectorKind::Fifo));
    assert_eq!((queue.max_size, queue.max_times_sampled), (5, 1));
    assert_eq!(queue.rate_limiter, RateLimiterConfig::queue(5));
    let stack = table("kind = 'stack'\nmax_size = 5");
    assert_eq!((stack.sampler, stack.remover), (SelectorKind::Lifo, SelectorKind::Lifo));
}

#[test]
fn signatures_nest_and_carry_bounds() {
    let table = table(
        "[table.signature]\n\
         b = { shape = [-1, 3], dtype = 'float32', name = 'bee', minimum = -1, maximum = 1.5 }\n\
         a = [{ dtype = 'int64' }, { shape = [], dtype = 'bool' }]\n\
         c.dtype = { shape = [2], dtype = 'uint8', minimum = [0, 1], maximum = 255 }\n",
    );
    let mut bee = TensorSpec::new("bee", DType::Float32, Some(vec![None, Some(3)]));
    bee.bounds = Some((Tensor::scalar(-1.0_f32), Tensor::scalar(1.5_f32)));
    let mut inner = TensorSpec::new("", DType::UInt8, Some(vec![Some(2)]));
    inner.bounds = Some((Tensor::from_slice(&[0_u8, 1], [2]).unwrap(), Tensor::scalar(255_u8)));
    let list = vec![
        Nest::Leaf(TensorSpec::new("", DType::Int64, None)),
        Nest::Leaf(TensorSpec::new("", DType::Bool, Some(vec![]))),
    ];
    let dict = Nest::Dict([("dtype".to_owned(), Nest::Leaf(inner))].into());
    let expected = Nest::Dict(
        [("a".to_owned(), Nest::List(list)), ("b".to_owned(), Nest::Leaf(bee)), ("c".to_owned(), dict)]
            .into(),
    );
    assert_eq!(table.signature.as_deref(), Some(&expected));
}

#[test]
fn bad_documents_are_reported_with_line_and_key() {
    for (text, line, expected) in [
        ("", None, "table: the configuration must have at least one table; add [[table]] with a name"),
        (
            "prot = 1",
            Some(1),
            "prot: unknown field `prot`, expected one of `port`, `bind`, `http`, `max_bytes`, `max_bytes_wait`, `spill_dir`, `checkpoint_dir`, \
             `checkpoint_every`, `checkpoint_keep`, `checkpoint_format`, `config_from`, `checkpoint_at_shutdown`, `security`, `table`",
        ),
        (
            "port = 1\nmax_bytes = '2XB'",
            Some(2),
            "max_bytes: \"2XB\" is not a number of bytes from 1 to 1 EiB; write 2000000000, 2GB or 1.5GiB",
        ),
        (
            "max_bytes = 1.5",
            Some(1),
            "max_bytes: write a whole number of bytes, or one with a unit, as in \"2GB\" or \"1.5GiB\"",
        ),
        (
            "port = 1\nmax_bytes_wait = 0",
            Some(2),
            "max_bytes_wait: it must be a number of seconds above 0 and at most 604800",
        ),
        (
            "checkpoint_dir = 'd'\ncheckpoint_every = '10'",
            Some(2),
            "checkpoint_every: \"10\" is not a time above 0 and at most 7d; write 90s, 10m or 1h",
        ),
        (
            "checkpoint_keep = 0",
            Some(1),
            "checkpoint_keep: must be at least 1: the newest checkpoint is always kept",
        ),
        (
            "checkpoint_format = 'zip'",
            Some(1),
            "checkpoint_format: unknown variant `zip`, expected `relive` or `reverb`",
        ),
        (
            "port = 70000",
            Some(1),
            "port: invalid value: integer `70000`, expected a whole number from 0 to 65535",
        ),
        (
            "port = 1\nbind = 'example.org'\n[[table]]\nname = 'a'",
            Some(2),
            "bind: \"example.org\" is not an IP address; use 127.0.0.1, 0.0.0.0 or [::], and --port for the port",
        ),
        ("\n[[table]]\nmax_size = 1", Some(2), "table[0]: missing field `name`"),
        (
            "[[table]]\nname = 'a'\n[[table]]\nname = 'a'",
            Some(4),
            "table[1].name: \"a\" is the name of an earlier table; table names must be unique",
        ),
        ("[[table]]\nname = ''", Some(2), "table[0].name: the name of a table must not be empty"),
        ("port = 1\nport = 2", Some(2), "duplicate key"),
        ("port = \n", Some(1), "string values must be quoted, expected literal string"),
    ] {
        assert_eq!(problem(text), (line, expected.to_owned()), "{text}");
    }
}

#[test]
fn bad_tables_are_reported_with_the_key() {
    for (rest, expected) in [
        (
            "size = 1",
            "table[0].size: unknown field `size`, expected one of `name`, `kind`, `sampler`, `remover`, `max_size`, \
             `max_bytes`, `max_times_sampled`, `rate_limiter`, `shards`, `seed`, `signature`",
        ),
        (
            "shards = 2\nkind = 'queue'\nmax_size = 9",
            "table[0].shards: table \"t\" cannot have 2 shards: its sampler Fifo needs all items in one place; \
             use Uniform or Prioritized, or use shards = 1",
        ),
        (
            "rate_limiter = { min_size = 100 }\nmax_size = 10",
            "table[0].rate_limiter: table \"t\" could never be sampled: max_size is 10, but its rate limiter \
             requires 100 items (min_size_to_sample); raise max_size or lower min_size_to_sample",
        ),
        ("shards = 65", "table[0].shards: shards of table \"t\" must be from 1 to 64, got 65"),
        (
            "max_size = 'x'",
            "table[0].max_size: invalid type: string \"x\", expected a whole number of at least 0",
        ),
        ("max_size = 0", "table[0].max_size: max_size of table \"t\" must be from 1 to 2147483647, got 0"),
        (
            "max_bytes = 0",
            "table[0].max_bytes: \"0\" is not a number of bytes from 1 to 1 EiB; write 2000000000, 2GB or 1.5GiB",
        ),
        (
            "max_bytes = '-1MB'",
            "table[0].max_bytes: \"-1MB\" is not a number of bytes from 1 to 1 EiB; write 2000000000, 2GB or 1.5GiB",
        ),
        (
            "max_times_sampled = 3_000_000_000",
            "table[0].max_times_sampled: invalid value: integer `3000000000`, expected a whole number from -2147483648 to \
             2147483647",
        ),
        (
            "sampler = 'unfrm'",
            "table[0].sampler: unknown variant `unfrm`, expected one of `uniform`, `without_replacement`, `fifo`, \
             `lifo`, `min_heap`, `max_heap`, `prioritized`",
        ),
        (
            "sampler = 'prioritized'",
            "table[0].sampler.prioritized: the exponent is missing; write { prioritized = 0.6 }",
        ),
        (
            "sampler = { prioritized = 'x' }",
            "table[0].sampler.prioritized: invalid type: string \"x\", expected a number",
        ),
        (
            "remover = { prioritized = nan }",
            "table[0].remover: the priority exponent of the remover of table \"t\" must be finite, got NaN",
        ),
        ("kind = 'ring'", "table[0].kind: unknown variant `ring`, expected `queue` or `stack`"),
        ("kind = 'queue'", "table[0].max_size: `kind` requires a max_size"),
        (
            "sampler = 'fifo'\nkind = 'queue'\nmax_size = 1",
            "table[0].sampler: `kind` sets this already; remove one of the two",
        ),
    ] {
        let (line, text) = problem(&format!("[[table]]\nname = 't'\n{rest}"));
        assert_eq!(text, expected);
        let key_is_there = !rest.starts_with("kind = 'queue'");
        assert_eq!(line, Some(if key_is_there { 3 } else { 1 }), "{rest}");
    }
}

#[test]
fn bad_rate_limiters_are_reported_with_the_valid_forms() {
    let spellings = "table[0].rate_limiter: write { min_size = n }, { samples_per_insert = x, min_size = n, \
                     error_buffer = b or [min, max] }, { samples_per_insert = x, min_size = n, min_diff = a, max_diff = b }, \
                     { queue = n } or { stack = n }";
    for limiter in
        ["{}", "{ queue = 1, stack = 1 }", "{ samples_per_insert = 1 }", "{ min_size = 1, min_diff = 0 }"]
    {
        assert_eq!(table_problem(&format!("rate_limiter = {limiter}")), spellings);
    }
    for (limiter, expected) in [
        (
            "{ min_sze = 1 }",
            ".min_sze: unknown field `min_sze`, expected one of `min_size`, `samples_per_insert`, `error_buffer`, \
             `min_diff`, `max_diff`, `queue`, `stack`",
        ),
        ("{ min_size = 0 }", ": min_size_to_sample must be at least 1, got 0"),
        (
            "{ samples_per_insert = 0, min_size = 1, error_buffer = 9 }",
            ": samples_per_insert must be a finite number above 0, got 0.0",
        ),
        (
            "{ samples_per_insert = 3, min_size = 1, error_buffer = [2, 7] }",
            ": the error buffer [2.0, 7.0] is too small: max_diff - min_diff must be at least 2 * max(1, \
             samples_per_insert) = 6; give a larger error_buffer",
        ),
        (
            "{ samples_per_insert = 3, min_size = 1, error_buffer = 'x' }",
            ".error_buffer: error_buffer must be a number or [min_diff, max_diff]",
        ),
    ] {
        let expected = format!("table[0].rate_limiter{expected}");
        assert_eq!(table_problem(&format!("rate_limiter = {limiter}")), expected);
    }
}

#[test]
fn bad_signatures_are_reported_with_the_path() {
    for (signature, expected) in [
        ("{}", ": the signature has no columns; omit it, or give a column { shape, dtype }"),
        ("{ a = 3 }", ".a: integer is not a column; write { shape = [...], dtype = \"float32\" }"),
        (
            "{ a = { dtype = 'float32', shap = [] } }",
            ".a: unknown field `shap`, expected one of `dtype`, `shape`, `name`, `minimum`, `maximum`",
        ),
        (
            "{ a = { dtype = 'float32', shape = [-2] } }",
            ".a.shape: size -2 must be -1 (variable) or from 0 to 4294967295",
        ),
        ("{ a = [{ dtype = 'int8', minimum = 0 }] }", ".a[0]: give both minimum and maximum, or neither"),
        (
            "{ a = { dtype = 'int8', minimum = 0, maximum = 128 } }",
            ".a.maximum: 128 is not a valid bound of type int8",
        ),
        (
            "{ a = { dtype = 'int8', minimum = [0], maximum = 1 } }",
            ".a.minimum: a bound for each element requires a shape without variable sizes",
        ),
    ] {
        assert_eq!(
            table_problem(&format!("signature = {signature}")),
            format!("table[0].signature{expected}")
        );
    }
    let unknown = table_problem("signature = { a = { dtype = 'flt', shape = [] } }");
    assert!(unknown.starts_with("table[0].signature.a.dtype: ") && unknown.contains("flt"), "{unknown}");
}

const TEXTPROTO: &str = "
port: 8123
tables {
  table_name: 'replay'
  sampler { prioritized { priority_exponent: 0.8 } }
  remover { heap { min_heap: true } }
  max_size: 100
  max_times_sampled: 3
  rate_limiter { samples_per_insert: 1.5 min_size_to_sample: 2 min_diff: -10 max_diff: 1e3 }
  signature { tensor_spec_value { name: 'x' shape { dim { size: -1 } } dtype: DT_INT32 } }
}";

#[test]
fn a_textproto_is_read_with_its_signature() {
    let config = textproto::parse(TEXTPROTO).unwrap();
    assert_eq!((config.bind, config.port), (IpAddr::V4(Ipv4Addr::LOCALHOST), 8123));
    let table = &config.tables[0];
    assert_eq!(table.name, "replay");
    assert_eq!(table.sampler, SelectorKind::Prioritized { exponent: 0.8 });
    assert_eq!(table.remover, SelectorKind::MinHeap);
    assert_eq!((table.max_size, table.max_times_sampled), (100, 3));
    let limiter = RateLimiterConfig {
        samples_per_insert: 1.5,
        min_size_to_sample: 2,
        min_diff: -10.0,
        max_diff: 1000.0,
    };
    assert_eq!(table.rate_limiter, limiter);
    let spec = TensorSpec::new("x", DType::Int32, Some(vec![None]));
    assert_eq!(table.signature.as_deref(), Some(&Nest::Leaf(spec)));
}

#[test]
fn bad_textprotos_are_reported_with_the_line_or_the_table() {
    let problem = |from: &str, to: &str| {
        let problem = textproto::parse(&TEXTPROTO.replace(from, to)).unwrap_err();
        (problem.line, problem.text)
    };
    assert_eq!(
        problem("max_size", "max_sze"),
        (
            Some(7),
            "field 'max_sze' not found for message 'deepmind.reverb.PriorityTableCheckpoint'".to_owned()
        )
    );
    assert_eq!(problem("100", "'100'").0, Some(7));
    assert_eq!(problem("8123", "81230"), (None, "port must be from 0 to 65535, got 81230".to_owned()));
    let (line, text) = problem("sampler", "# sampler");
    assert_eq!(line, None);
    assert!(text.contains("replay") && text.contains("sampler is not set"), "{text}");
    let empty = textproto::parse("port: 1").unwrap_err();
    assert_eq!(empty.text, "the configuration must have at least one table; add tables { table_name: ... }");
}
