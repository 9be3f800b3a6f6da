//! Tests slow readers of several servers, and servers without items.

use std::time::{Duration, Instant};

use relive::{BatchOptions, Client, ErrorKind, SamplerOptions, ServerStanding, TableConfig};

use crate::common::{LONG, TestServer, values};
use crate::many::{client_of, fill, uniform, wait_for_standing};

async fn two(table: &TableConfig) -> (Vec<TestServer>, Client) {
    let servers = vec![TestServer::start([table.clone()]).await, TestServer::start([table.clone()]).await];
    let client = client_of(&servers);
    (servers, client)
}

/// Makes calls for this long.
async fn busy(client: &Client, time: Duration) {
    let since = Instant::now();
    while since.elapsed() < time {
        client.server_info().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_sampler_gets_the_same_mixture() {
    let (servers, client) = two(&uniform()).await;
    fill(&servers[0].client(), 0..990, |_| 1.0).await;
    fill(&servers[1].client(), 990..1000, |_| 1.0).await;
    let mut sampler = client.sampler("t", SamplerOptions::default()).unwrap();
    let mut of_the_small = 0;
    for _ in 0..12 {
        for sample in sampler.next_batch(25).await.unwrap() {
            of_the_small += u32::from(values(&[sample])[0][0] >= 990);
        }
        busy(&client, Duration::from_millis(400)).await;
    }
    // The expected number is 3 out of 300; 20 occur by chance once in a billion runs.
    assert!(of_the_small < 20, "{of_the_small} of 300");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_batch_is_a_mixture_of_the_servers() {
    let (servers, client) = two(&uniform()).await;
    fill(&servers[0].client(), 0..200, |_| 1.0).await;
    fill(&servers[1].client(), 200..400, |_| 1.0).await;
    let mut batches = client.batches("t", BatchOptions::new(256)).unwrap();
    let mut outside = 0;
    for _ in 0..50 {
        let batch = batches.next().await.unwrap().unwrap();
        let of_the_second = values(batch.samples()).iter().filter(|columns| columns[0] >= 200).count();
        // The expected number is 128, with a standard deviation of 8.
        outside += u32::from(of_the_second.abs_diff(128) > 64);
    }
    // On a busy machine, a server may be silent for so long that it is not waited for.
    assert!(outside < 10, "{outside} of 50 batches were not mixtures");
}

#[tokio::test(flavor = "multi_thread")]
async fn blocked_limiters_of_all_servers_share_one_timeout() {
    let (_servers, client) = two(&uniform()).await;
    let timeout = Duration::from_millis(1500);
    let options = SamplerOptions::default().max_samples(1).rate_limiter_timeout(timeout);
    let mut sampler = client.sampler("t", options).unwrap();
    for _ in 0..2 {
        let since = Instant::now();
        let error = sampler.next_with_timeout(LONG).await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
        assert!(error.to_string().contains("none of the rate limiters of 2 servers"), "{error}");
        assert!(since.elapsed() < 3 * timeout, "after {:?}", since.elapsed());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn received_samples_are_returned_after_their_server_has_stopped() {
    let (mut servers, client) = two(&TableConfig::queue("t", 100)).await;
    let all = 20;
    fill(&servers[1].client(), 0..1, |_| 1.0).await;
    let mut sampler = client.sampler("t", SamplerOptions::default()).unwrap();
    let mut seen = values(&[sampler.next().await.unwrap().unwrap()]);
    fill(&servers[1].client(), 1..all, |_| 1.0).await;
    let size = || async { client.server_info().await.unwrap().table("t").unwrap().current_size };
    while size().await > 0 {}
    busy(&client, Duration::from_millis(200)).await;
    let ended = servers.pop().unwrap();
    let address = ended.address.to_string();
    ended.stop().await;
    wait_for_standing(&client, &address, ServerStanding::Away).await;
    while seen.len() < usize::try_from(all).unwrap() {
        seen.extend(values(&[sampler.next_with_timeout(LONG).await.unwrap().unwrap()]));
    }
    assert_eq!(seen.concat(), (0..all).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn exact_batches_remove_only_the_items_they_return() {
    let (servers, client) = two(&TableConfig::queue("t", 100)).await;
    let size = || async { client.server_info().await.unwrap().table("t").unwrap().current_size };
    fill(&servers[0].client(), 0..2, |_| 1.0).await;
    fill(&servers[1].client(), 2..3, |_| 1.0).await;
    let mut batches = client.batches("t", BatchOptions::new(4).prefetch(0)).unwrap();
    let mut waited = Duration::from_millis(100);
    loop {
        let error = batches.next_within(Some(waited)).await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
        // On a busy machine, all three samples may take longer to arrive.
        if error.to_string().contains("(3 of 4 samples of the batch had arrived)") {
            break;
        }
        waited *= 2;
    }
    fill(&servers[1].client(), 3..13, |_| 1.0).await;
    assert_eq!(size().await, 10, "nobody waits, so nobody takes");
    let mut seen = Vec::new();
    for left in [9, 5, 1] {
        let batch = batches.next_within(Some(LONG)).await.unwrap().unwrap();
        seen.extend(values(batch.samples()).concat());
        assert_eq!(size().await, left);
    }
    seen.sort_unstable();
    assert_eq!(seen, (0..12).collect::<Vec<_>>());
    assert!(batches.next_within(Some(Duration::from_millis(100))).await.unwrap().is_err());
    assert_eq!(size().await, 0);
}
