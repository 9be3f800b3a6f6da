//! Tests that tables without a signature store the structure of their items.

use std::time::Duration;

use crate::common::{LONG, TestServer, client, dict, leaf};
use relive::{
    BatchOptions, Client, Column, DType, ErrorKind, Nest, SourceColumn, StructuredConfig, TableConfig,
    Tensor, TensorSpec, TrajectoryWriter, TrajectoryWriterOptions, Windows, blocking,
};

fn both(server: &TestServer) -> [Client; 2] {
    [server.client(), server.client_in_process()]
}

async fn start() -> TestServer {
    TestServer::start([TableConfig::new("t"), TableConfig::new("u")]).await
}

fn writer(client: &Client) -> TrajectoryWriter {
    client.trajectory_writer(TrajectoryWriterOptions::new(2)).unwrap()
}

fn step(value: i64) -> Nest<Tensor> {
    dict(&[("reward", leaf(value)), ("action", Nest::Tuple(vec![leaf(value + 1), leaf(value + 2)]))])
}

/// The nest of a step.
fn named() -> Nest<()> {
    step(0).map(|_| ())
}

fn newest(writer: &TrajectoryWriter, path: &str) -> Column {
    writer.history().column(path).unwrap().step(-1).unwrap()
}

/// Creates an item with two columns that have these names.
async fn add(writer: &mut TrajectoryWriter, table: &str, names: [&str; 2]) {
    writer.append(&step(7)).unwrap();
    let item = names.into_iter().zip(["reward", "action/1"]).map(|(name, path)| (name, newest(writer, path)));
    let item: Nest<Column> = Nest::dict(item.collect::<Vec<_>>());
    writer.create_item(table, 1.0, item).await.unwrap();
}

#[tokio::test]
async fn data_is_returned_under_the_names_of_its_nest() {
    for way in 0..2 {
        let server = start().await;
        let client = &both(&server)[way];
        assert_eq!(client.column_names("t").await.unwrap(), None);
        let mut writer = writer(client);
        add(&mut writer, "t", ["z", "a"]).await;
        writer.close().await.unwrap();
        for reader in both(&server) {
            let names = reader.column_names("t").await.unwrap().unwrap();
            let sample = reader.sample("t", 1).await.unwrap().remove(0);
            let data = names.unflatten(sample.columns().unwrap()).unwrap();
            assert_eq!(data, dict(&[("a", leaf(9_i64)), ("z", leaf(7_i64))]));
            assert_eq!(reader.status().await.unwrap().table("t").unwrap().columns.as_deref(), Some(&names));
            assert_eq!(reader.column_names("u").await.unwrap(), None);
        }
    }
}

/// Creates the item with a writer that does not check names.
async fn add_unchecked(client: &Client, table: &str, names: [&str; 2]) {
    let options = TrajectoryWriterOptions::new(2).check_names(false);
    let mut writer = client.trajectory_writer(options).unwrap();
    add(&mut writer, table, names).await;
    writer.close().await.unwrap();
}

#[tokio::test]
async fn unchecked_differing_structures_leave_a_table_without_names() {
    let server = start().await;
    let clients = both(&server);
    for (first, second, table) in [(&clients[0], &clients[1], "t"), (&clients[1], &clients[0], "u")] {
        for (client, names) in [(first, ["a", "b"]), (second, ["x", "y"]), (first, ["a", "b"])] {
            add_unchecked(client, table, names).await;
        }
        assert_eq!(first.column_names(table).await.unwrap(), None);
        assert!(!second.name_columns(table, &Nest::dict([("x", ()), ("y", ())])).await.unwrap());
        assert!(!second.name_columns(table, &Nest::dict([("a", ()), ("b", ())])).await.unwrap());
        assert_eq!(server.engine().table(table).unwrap().info().current_size, 3);
        for client in server.every_client() {
            for prefetch in [0, 1] {
                let mut batches = client.batches(table, BatchOptions::new(2).prefetch(prefetch)).unwrap();
                let error = batches.next().await.unwrap().unwrap().names().unwrap_err().to_string();
                assert!(
                    error.contains("first writer wrote {a, b}, but another writer wrote {x, y}"),
                    "{error}"
                );
            }
        }
    }
}

/// Creates an item with names that differ from the table's, and returns the error message.
async fn refused(client: &Client, table: &str, names: [&str; 2]) -> String {
    let mut writer = writer(client);
    writer.append(&step(7)).unwrap();
    let item =
        names.into_iter().zip(["reward", "action/1"]).map(|(name, path)| (name, newest(&writer, path)));
    let item: Nest<Column> = Nest::dict(item.collect::<Vec<_>>());
    let error = writer.create_item(table, 1.0, item.clone()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    let error = writer.create_items(table, &[1.0], &[item.into()]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    writer.close().await.unwrap();
    error.to_string()
}

#[tokio::test]
async fn items_that_differ_from_the_first_writers_structure_are_refused() {
    for way in 0..2 {
        let server = start().await;
        let clients = both(&server);
        let mut first = writer(&clients[way]);
        add(&mut first, "t", ["obs", "act"]).await;
        first.close().await.unwrap();
        // The writer and its items are gone, but the table still enforces the structure for new writers, in the same
        // client and in others.
        clients[0].reset("t").await.unwrap();
        for client in server.every_client() {
            let error = refused(&client, "t", ["a_obs", "b_act"]).await;
            let expected = "table \"t\" has items with a different structure: its first writer wrote {act, \
                            obs}, but the item is {a_obs, b_act}";
            assert!(error.contains(expected) && error.contains("to another table"), "{error}");
            let mut good = writer(&client);
            add(&mut good, "t", ["obs", "act"]).await;
            good.close().await.unwrap();
            // No part of the item was stored, and the names still apply to readers.
            let error = client.insert(&step(1), &[("t", 1.0)]).await.unwrap_err();
            assert!(error.to_string().contains("the item is {action: (_, _), reward}"), "{error}");
        }
        assert_eq!(
            server.engine().table("t").unwrap().info().current_size,
            server.every_client().len() as u64
        );
        let names = clients[0].column_names("t").await.unwrap();
        assert_eq!(names, Some(Nest::dict([("act", ()), ("obs", ())])));
    }
}

#[tokio::test]
async fn windows_and_patterns_must_match_the_names_of_their_table() {
    for way in 0..2 {
        let server = start().await;
        let client = &both(&server)[way];
        let mut first = writer(client);
        add(&mut first, "t", ["a", "b"]).await;
        first.close().await.unwrap();

        let mut windows = writer(client);
        windows.append(&step(1)).unwrap();
        let error = windows.create_window_items("t", &[1.0], Windows::steps(&[-1])).await.unwrap_err();
        assert!(error.to_string().contains("{action: [_, _], reward}"), "{error}");
        windows.create_window_items("t", &[1.0], Windows::steps(&[-1]).columns(&[0, 2])).await.unwrap();
        windows.close().await.unwrap();

        let column = |source| Nest::Leaf(SourceColumn::at(source).step(-1).unwrap());
        let pattern = |names: [&str; 2]| {
            let fields =
                names.into_iter().zip([2, 0]).map(|(name, source)| (name.to_owned(), column(source)));
            StructuredConfig::new("t", Nest::Dict(fields.collect()))
        };
        let mut patterns = client.structured_writer(vec![pattern(["x", "y"])]).unwrap();
        let written = async {
            patterns.append(&step(1)).await?;
            patterns.flush(LONG).await
        };
        let error = written.await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert!(
            error.to_string().contains("its first writer wrote {a, b}, but the item is {x, y}"),
            "{error}"
        );
        drop(patterns);
        let mut patterns = client.structured_writer(vec![pattern(["a", "b"])]).unwrap();
        patterns.append(&step(1)).await.unwrap();
        patterns.close().await.unwrap();
        assert_eq!(server.engine().table("t").unwrap().info().current_size, 3);
    }
}

#[tokio::test]
async fn racing_writers_agree_on_one_structure() {
    for round in 0..10 {
        let server = start().await;
        let clients: Vec<Client> = (0..4).map(|number| both(&server)[number % 2].clone()).collect();
        let tried = clients.iter().enumerate().map(|(number, client)| {
            let (client, names) = (client.clone(), if number < 2 { ["a", "b"] } else { ["x", "y"] });
            tokio::spawn(async move {
                let mut writer = writer(&client);
                writer.append(&step(round)).unwrap();
                let item = names.into_iter().map(|name| (name, newest(&writer, "reward")));
                let item: Nest<Column> = Nest::dict(item.collect::<Vec<_>>());
                let made = writer.create_item("t", 1.0, item).await;
                writer.close().await.unwrap();
                made
            })
        });
        let mut made = Vec::new();
        for tried in tried.collect::<Vec<_>>() {
            made.push(tried.await.unwrap().is_ok());
        }
        assert!(made == [true, true, false, false] || made == [false, false, true, true], "{made:?}");
        let expected = if made[0] { [("a", ()), ("b", ())] } else { [("x", ()), ("y", ())] };
        assert_eq!(clients[0].column_names("t").await.unwrap(), Some(Nest::dict(expected)));
        assert_eq!(server.engine().table("t").unwrap().info().current_size, 2);
    }
}

#[tokio::test]
async fn batches_carry_column_names() {
    let server = start().await;
    let mut writer = writer(&server.client());
    for client in server.every_client() {
        for prefetch in [0, 2] {
            let mut batches = client.batches("u", BatchOptions::new(3).prefetch(prefetch)).unwrap();
            let (batch, ()) = tokio::join!(batches.next(), add(&mut writer, "u", ["z", "a"]));
            let expected = Nest::dict([("a", ()), ("z", ())]);
            assert_eq!(batch.unwrap().unwrap().names().unwrap().unwrap().as_ref(), &expected);
            for _ in 0..5 {
                let batch = batches.next().await.unwrap().unwrap();
                let names = batch.names().unwrap().unwrap();
                assert_eq!(names.unflatten(batch.columns().unwrap()).unwrap().len(), 2);
            }
        }
    }
    // Reads batches of a table with unnamed columns, which at first has too few samples for a complete batch.
    let client = server.client();
    writer.append(&step(1)).unwrap();
    let plain = vec![newest(&writer, "reward"), newest(&writer, "action/0")];
    writer.create_item("t", 1.0, plain).await.unwrap();
    for client in server.every_client() {
        let mut batches = client.batches("t", BatchOptions::new(2)).unwrap();
        assert_eq!(batches.next().await.unwrap().unwrap().names().unwrap(), None);
    }
    // A writer names the columns later, while batches are requested.
    let mut batches = client.batches("t", BatchOptions::new(2).prefetch(1)).unwrap();
    batches.next().await.unwrap().unwrap();
    assert!(client.name_columns("t", &Nest::dict([("p", ()), ("q", ())])).await.unwrap());
    let named = async { while batches.next().await.unwrap().unwrap().names().unwrap().is_none() {} };
    tokio::time::timeout(LONG, named).await.unwrap();
    writer.close().await.unwrap();
}

#[tokio::test]
async fn a_batch_with_a_different_number_of_columns_has_no_names() {
    let server = start().await;
    let client = server.client();
    let mut writer = writer(&client);
    add(&mut writer, "t", ["a", "b"]).await;
    writer.flush(LONG).await.unwrap();
    client.reset("t").await.unwrap();
    writer.append(&step(1)).unwrap();
    let plain = newest(&writer, "reward");
    writer.create_item("t", 1.0, plain).await.unwrap();
    writer.close().await.unwrap();
    for client in server.every_client() {
        let mut batches = client.batches("t", BatchOptions::new(2)).unwrap();
        let error = batches.next().await.unwrap().unwrap().names().unwrap_err();
        assert!(error.to_string().contains("have 1 columns, but its first writer wrote {a, b}"), "{error}");
    }
}

#[tokio::test]
async fn a_checkpoint_keeps_names() {
    let server = start().await;
    let client = server.client_in_process();
    let mut first = writer(&client);
    add(&mut first, "t", ["a", "b"]).await;
    first.close().await.unwrap();
    let tables = ["t", "u"].map(TableConfig::new);
    let builder =
        tables.into_iter().fold(relive_engine::Engine::builder(), relive_engine::EngineBuilder::table);
    let restored = builder.build_from(server.engine().snapshot(), relive_engine::Rules::Stored).unwrap();
    let client = Client::in_process(restored.engine);
    assert_eq!(client.column_names("t").await.unwrap(), Some(Nest::dict([("a", ()), ("b", ())])));
    assert!(refused(&client, "t", ["x", "y"]).await.contains("{a, b}"));
    assert_eq!(client.column_names("u").await.unwrap(), None);
}

#[tokio::test]
async fn plain_lists_have_no_names() {
    let server = start().await;
    for client in both(&server) {
        let mut writer = writer(&client);
        writer.append(&step(1)).unwrap();
        writer.create_item("t", 1.0, newest(&writer, "reward")).await.unwrap();
        writer
            .create_item("t", 1.0, vec![newest(&writer, "reward"), newest(&writer, "action/0")])
            .await
            .unwrap();
        writer.close().await.unwrap();
        assert_eq!(client.column_names("t").await.unwrap(), None);
    }
}

#[tokio::test]
async fn a_signature_overrides_the_names_of_writers() {
    let spec = TensorSpec { name: String::new(), shape: None, dtype: DType::Int64, bounds: None };
    let signature = Nest::dict([("p", spec.clone()), ("q", spec)]);
    let server = TestServer::start([TableConfig::new("t").signature(signature)]).await;
    for client in both(&server) {
        let error = refused(&client, "t", ["a", "b"]).await;
        assert!(error.contains("its signature says {p, q}, but the item is {a, b}"), "{error}");
        for (validate, check) in [(true, false), (false, true), (false, false)] {
            let options = TrajectoryWriterOptions::new(2).validate_items(validate).check_names(check);
            let mut writer = client.trajectory_writer(options).unwrap();
            add(&mut writer, "t", ["a", "b"]).await;
            writer.close().await.unwrap();
        }
        let expected = Nest::dict([("p", ()), ("q", ())]);
        assert_eq!(client.column_names("t").await.unwrap(), Some(expected.clone()));
        assert_eq!(client.status().await.unwrap().table("t").unwrap().columns.as_deref(), Some(&expected));
    }
}

#[tokio::test]
async fn inserted_steps_windows_and_patterns_have_names() {
    for way in 0..2 {
        let tables = ["inserted", "windows", "pattern", "some", "own"].map(TableConfig::new);
        let server = TestServer::start(tables).await;
        let client = &both(&server)[way];
        client.insert(&step(1), &[("inserted", 1.0)]).await.unwrap();

        let mut writer = writer(client);
        writer.append(&step(1)).unwrap();
        writer.create_window_items("windows", &[1.0], Windows::steps(&[-1])).await.unwrap();
        writer.create_window_items("some", &[1.0], Windows::steps(&[-1]).columns(&[1])).await.unwrap();
        writer.name_columns("own", &Nest::Leaf(()));
        writer.name_columns("own", &named());
        writer.close().await.unwrap();

        let column = |source| Nest::Leaf(SourceColumn::at(source).step(-1).unwrap());
        let pattern = Nest::Dict([("r".to_owned(), column(2)), ("a".to_owned(), column(0))].into());
        let mut writer = client.structured_writer(vec![StructuredConfig::new("pattern", pattern)]).unwrap();
        writer.append(&step(1)).await.unwrap();
        writer.close().await.unwrap();

        // Windows use the columns of steps, in which tuples became lists.
        let Nest::Dict(mut lists) = named() else { unreachable!() };
        lists.insert("action".into(), Nest::List(vec![Nest::Leaf(()), Nest::Leaf(())]));
        for (table, expected) in [
            ("inserted", Some(named())),
            ("windows", Some(Nest::Dict(lists))),
            ("some", None),
            ("pattern", Some(Nest::dict([("a", ()), ("r", ())]))),
        ] {
            assert_eq!(client.column_names(table).await.unwrap(), expected, "{table}");
        }
        // No item of this table waits for the proposal, so the proposal may arrive late.
        let own = async {
            loop {
                if let Some(names) = client.column_names("own").await.unwrap() {
                    return names;
                }
            }
        };
        assert_eq!(tokio::time::timeout(LONG, own).await.unwrap(), Nest::Leaf(()));
    }
}

#[tokio::test]
async fn column_names_arrive_before_their_items() {
    let tables: Vec<String> = (0..30).map(|table| format!("t{table}")).collect();
    let server = TestServer::start(tables.iter().map(TableConfig::new)).await;
    // Each item is sent at once. The writer does not request signatures, so only the names are sent before an item.
    let options = TrajectoryWriterOptions::new(2).validate_items(false).chunk_length(1);
    let mut writer = server.client().trajectory_writer(options).unwrap();
    for table in &tables {
        let reader = server.client_in_process();
        let sample = reader.sample(table, 1);
        let (sampled, ()) = tokio::join!(sample, add(&mut writer, table, ["a", "b"]));
        assert_eq!(sampled.unwrap().len(), 1);
        assert!(server.engine().table(table).unwrap().columns().is_some(), "{table}");
    }
    writer.close().await.unwrap();
}

#[tokio::test]
async fn column_names_are_sent_again_after_a_server_restart() {
    let server = start().await;
    let address = server.address;
    let mut writer = writer(&client(address, LONG));
    add(&mut writer, "t", ["a", "b"]).await;
    writer.flush(LONG).await.unwrap();
    server.stop().await;
    let server = TestServer::start_at(address, [TableConfig::new("t")]).await;
    assert_eq!(server.engine().table("t").unwrap().columns(), None);
    add(&mut writer, "t", ["a", "b"]).await;
    writer.close().await.unwrap();
    let names = server.client().column_names("t").await.unwrap();
    assert_eq!(names, Some(Nest::dict([("a", ()), ("b", ())])));
}

#[tokio::test]
async fn items_of_a_pattern_wait_until_a_server_has_compared_their_names() {
    let server = start().await;
    let address = server.address;
    let reward = Nest::dict([("reward", SourceColumn::at(1).step(-1).unwrap())]);
    let client = client(address, Duration::from_secs(1));
    let mut writer = client.structured_writer(vec![StructuredConfig::new("t", reward)]).unwrap();
    writer.wait_until_ready().await.unwrap();
    server.stop().await;
    writer.append(&step(1)).await.unwrap();
    let error = writer.flush(Duration::from_millis(300)).await.unwrap_err();
    assert!(error.is_timeout(), "{error}");
    let server = TestServer::start_at(address, [TableConfig::new("t")]).await;
    // Before the writer can connect.
    let table = server.engine().table("t").unwrap();
    table.name_columns(Nest::dict([("a", ()), ("b", ())])).unwrap();
    let error = writer.flush(LONG).await.unwrap_err();
    assert!(error.to_string().contains("its first writer wrote {a, b}"), "{error}");
    assert_eq!(table.info().current_size, 0);
}

#[test]
fn a_blocking_client_exchanges_names_without_a_runtime() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let server = runtime.block_on(start());
    let client = blocking::Client::connect(server.address).unwrap();
    let options = TrajectoryWriterOptions::new(2).validate_items(false);
    let mut writer = client.trajectory_writer(options).unwrap();
    writer.append(&step(1)).unwrap();
    let reward = writer.history().column("reward").unwrap().step(-1).unwrap();
    writer.create_item("t", 1.0, Nest::dict([("reward", reward)])).unwrap();
    writer.close().unwrap();
    assert_eq!(client.column_names("t").unwrap(), Some(Nest::dict([("reward", ())])));
    assert!(client.name_columns("u", &Nest::Leaf(())).unwrap());
}

#[tokio::test]
async fn a_naming_error_fails_only_its_call() {
    let server = start().await;
    for client in both(&server) {
        let error = client.name_columns("no", &Nest::Leaf(())).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
        let error = client.column_names("no").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
        assert!(error.to_string().contains("Priority table no was not found"), "{error}");
        let many = Nest::List(vec![Nest::Leaf(()); 5_000]);
        let error = client.name_columns("t", &many).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert!(error.to_string().contains("more than 4096 columns"), "{error}");

        let mut writer = writer(&client);
        writer.name_columns("u", &Nest::None);
        writer.name_columns("no", &Nest::Leaf(()));
        add(&mut writer, "u", ["a", "b"]).await;
        writer.close().await.unwrap();
        let named = client.column_names("u").await.unwrap();
        assert_eq!(named, Some(Nest::dict([("a", ()), ("b", ())])), "items have names all the same");
    }
}

#[tokio::test]
async fn items_are_created_without_waiting_for_an_unresponsive_server() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = client(silent.local_addr().unwrap(), LONG);
    let options = TrajectoryWriterOptions::new(2).validate_items(false);
    let mut writer = client.trajectory_writer(options).unwrap();
    let created = tokio::time::timeout(Duration::from_secs(1), add(&mut writer, "t", ["a", "b"]));
    assert!(created.await.is_ok(), "making an item waits for nobody");
    writer.close_now();
}
