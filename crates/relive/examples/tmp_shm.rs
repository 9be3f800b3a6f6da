use relive::{
    BatchOptions, Client, ClientOptions, Nest, Server, TableConfig, Tensor, TrajectoryWriterOptions,
    TransportChoice,
};
use std::time::{Duration, Instant};
#[tokio::main(worker_threads = 2)]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args[0] == "serve" {
        let server =
            Server::builder().table(TableConfig::new("t").max_size(200_000)).bind(args[1].as_str()).await?;
        let client = server.client_in_process();
        let mut writer = client.trajectory_writer(TrajectoryWriterOptions::new(1))?;
        for step in 0..200_000_u32 {
            let x = step as f32;
            writer.append(&Nest::dict([
                ("a", Tensor::scalar(i64::from(step))),
                ("d", Tensor::scalar(x)),
                ("n", Tensor::from_slice(&[x; 4], [4])?),
                ("o", Tensor::from_slice(&[x; 4], [4])?),
                ("r", Tensor::scalar(x)),
            ]))?;
            let h = writer.history();
            let cols = ["a", "d", "n", "o", "r"].map(|n| h.column(n).unwrap().step(-1).unwrap());
            writer.create_item("t", 1.0, cols).await?;
        }
        writer.close().await?;
        println!("ready {}", server.address());
        std::future::pending::<()>().await;
    }
    let choice = match args[2].as_str() {
        "tcp" => TransportChoice::Tcp,
        "shm" => TransportChoice::SharedMemory,
        _ => TransportChoice::Unix,
    };
    let client = Client::connect_with(&args[1], ClientOptions::default().transport(choice))?;
    for round in 0..3 {
        for prefetch in args[3].split(',') {
            let prefetch: usize = prefetch.parse()?;
            let mut batches = client.batches("t", BatchOptions::new(256).prefetch(prefetch))?;
            let (start, mut n) = (Instant::now(), 0);
            while start.elapsed() < Duration::from_secs_f64(1.5) {
                for _ in 0..16 {
                    let b = batches.next().await.transpose()?.unwrap();
                    n += b.len();
                }
            }
            println!(
                "{round} {} prefetch {prefetch}: {:.2} M/s",
                args[2],
                n as f64 / start.elapsed().as_secs_f64() / 1e6
            );
        }
    }
    Ok(())
}
