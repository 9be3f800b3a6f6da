//! Tests TLS, tokens and roles over every transport.

use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use relive::access::{Access, Role, Tokens};
use relive::tls::{ClientTls, Identity, ServerTls};
use relive::{
    BatchOptions, Client, ClientOptions, Endpoint, ErrorKind, Nest, SamplerOptions, Server, TableConfig,
    Tensor, Transport, TransportChoice,
};

use crate::common::{LONG, WAYS};

/// An authority that signs certificates for `localhost` and 127.0.0.1.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Authority(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn pem(&self) -> String {
        self.0.pem()
    }

    fn identity(&self) -> Identity {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        Identity::from_pem(certificate.pem().as_bytes(), key.serialize_pem().as_bytes()).unwrap()
    }

    fn server(&self) -> ServerTls {
        ServerTls::new(self.identity(), None).unwrap()
    }

    fn client(&self) -> ClientTls {
        ClientTls::new(Some(self.pem().as_bytes()), None).unwrap()
    }
}

fn table() -> TableConfig {
    TableConfig::new("replay")
}

fn options() -> ClientOptions {
    ClientOptions::default().timeout(LONG)
}

fn connect(address: SocketAddr, options: ClientOptions) -> Client {
    Client::connect_with(address, options).unwrap()
}

fn step(value: f32) -> Nest<Tensor> {
    Nest::Leaf(Tensor::scalar(value))
}

async fn insert(client: &Client) -> relive::Result<()> {
    client.insert(&Nest::List(vec![step(1.0)]), &[("replay", 1.0)]).await
}

async fn sample(client: &Client) -> relive::Result<f32> {
    let mut batches = client.batches("replay", BatchOptions::new(4))?;
    let batch = batches.next().await.expect("there is no last one")?;
    let mut bytes = vec![0; 16];
    batch.gather_into(0, &mut bytes)?;
    Ok(f32::from_le_bytes(*bytes.first_chunk().unwrap()))
}

#[tokio::test]
async fn every_transport_works_over_tls() {
    let authority = Authority::new();
    let server =
        Server::builder().table(table()).bind(Endpoint::new(":0").tls(authority.server())).await.unwrap();
    for way in WAYS {
        let client = connect(server.address(), options().tls(authority.client()).transport(way));
        insert(&client).await.unwrap();
        assert_eq!(sample(&client).await.unwrap(), 1.0);
        let mut samples = client.sampler("replay", SamplerOptions::default()).unwrap();
        assert_eq!(samples.next().await.unwrap().unwrap().columns().unwrap().len(), 1);
        assert_eq!(client.sample("replay", 3).await.unwrap().len(), 3);
        assert!(client.address().starts_with("https://"));
    }
    let large = Tensor::from_slice(&vec![7_u8; 3 << 20], [3 << 20]).unwrap();
    let tcp = options().tls(authority.client()).transport(TransportChoice::Tcp);
    let client = connect(server.address(), tcp);
    client.insert(&Nest::Leaf(large), &[("replay", 1.0)]).await.unwrap();
    let samples = client.sample("replay", 50).await.unwrap();
    assert!(samples.iter().any(|sample| sample.columns().unwrap()[0].num_elements() == 3 << 20));
    server.stop().await.unwrap();
}

#[tokio::test]
async fn an_untrusted_certificate_is_reported_at_once() {
    let authority = Authority::new();
    let server =
        Server::builder().table(table()).bind(Endpoint::new(":0").tls(authority.server())).await.unwrap();
    let elsewhere = Authority::new();
    let error = insert(&connect(server.address(), options().tls(elsewhere.client()))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
    assert!(error.to_string().contains("invalid peer certificate"), "{error}");
    let other_name = authority.client().server_name("replay.example").unwrap();
    let error = sample(&connect(server.address(), options().tls(other_name))).await.unwrap_err();
    assert!(error.to_string().contains("replay.example"), "{error}");
    let plain = options().timeout(std::time::Duration::from_millis(300));
    let error = connect(server.address(), plain).server_info().await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Timeout), "{error}");
    server.stop().await.unwrap();
}

#[tokio::test]
async fn client_certificates_can_be_required() {
    let authority = Authority::new();
    let tls = ServerTls::new(authority.identity(), Some(authority.pem().as_bytes())).unwrap();
    let server = Server::builder().table(table()).bind(Endpoint::new(":0").tls(tls)).await.unwrap();
    let known = ClientTls::new(Some(authority.pem().as_bytes()), Some(authority.identity())).unwrap();
    let client = connect(server.address(), options().tls(known));
    insert(&client).await.unwrap();
    assert_eq!(sample(&client).await.unwrap(), 1.0);
    let error = connect(server.address(), options().tls(authority.client())).server_info().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
    assert!(error.to_string().contains("certificate"), "{error}");
    server.stop().await.unwrap();
}

struct TokenFile(tempfile::NamedTempFile);

impl TokenFile {
    fn new() -> TokenFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let text =
            "eye read token-of-the-eye-1\nhand write token-of-the-hand\nboss admin token-of-the-boss\n";
        file.write_all(text.as_bytes()).unwrap();
        TokenFile(file)
    }

    fn access(&self) -> Access {
        Access::Tokens(Arc::new(Tokens::open(self.0.path()).unwrap()))
    }
}

#[tokio::test]
async fn token_roles_apply_on_every_transport() {
    let file = TokenFile::new();
    let endpoint = Endpoint::new(":0").access(file.access());
    let server = Server::builder().table(table()).bind(endpoint).await.unwrap();
    for way in WAYS {
        let by = |token: &str| connect(server.address(), options().transport(way).token(token));
        insert(&by("token-of-the-hand")).await.unwrap();
        assert_eq!(sample(&by("token-of-the-eye-1")).await.unwrap(), 1.0);
        assert_eq!(by("token-of-the-hand").sample("replay", 2).await.unwrap().len(), 2);
        by("token-of-the-boss").reset("replay").await.unwrap();
        insert(&by("token-of-the-boss")).await.unwrap();
        let error = insert(&by("token-of-the-eye-1")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
        assert!(error.to_string().contains("the token \"eye\" has the role read"), "{error}");
        let error = by("token-of-the-hand").reset("replay").await.unwrap_err();
        assert!(error.to_string().contains("Reset requires the role admin"), "{error}");
        let error = sample(&by("token-of-nobody")).await.unwrap_err();
        assert!(error.to_string().contains("does not know the client's token"), "{error}");
    }
    let error = sample(&connect(server.address(), options())).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
    assert!(error.to_string().contains("the client sent none"), "{error}");
    server.stop().await.unwrap();
}

#[tokio::test]
async fn an_open_address_is_opt_in_and_has_a_role() {
    let (authority, file) = (Authority::new(), TokenFile::new());
    let endpoint = Endpoint::new(":0").tls(authority.server()).access(file.access());
    let endpoint = endpoint.open_entrance(":0", Role::Write);
    let server = Server::builder().table(table()).bind(endpoint).await.unwrap();
    let open = connect(server.open_address().unwrap(), options().transport(TransportChoice::Tcp));
    insert(&open).await.unwrap();
    assert_eq!(sample(&open).await.unwrap(), 1.0);
    assert_eq!(open.transport(), Transport::Tcp);
    let error = open.reset("replay").await.unwrap_err();
    assert!(error.to_string().contains("clients have the role write"), "{error}");
    let guarded = options().tls(authority.client()).token("token-of-the-boss");
    connect(server.address(), guarded).reset("replay").await.unwrap();
    server.stop().await.unwrap();
}

#[test]
fn invalid_certificates_are_reported() {
    let authority = Authority::new();
    let error = Identity::from_pem(b"nothing", b"nothing").unwrap_err();
    assert!(error.to_string().contains("private key"), "{error}");
    let error = ServerTls::new(authority.identity(), Some(b"nothing")).unwrap_err();
    assert!(error.to_string().contains("authority's certificate"), "{error}");
    let error = authority.client().server_name("no name").unwrap_err();
    assert!(error.to_string().contains("no name"), "{error}");
    let error = Client::connect_with("localhost:1", ClientOptions::default().token("a\nb")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
}
